//! Stacks of all points in time with shared data: frames are a tree, names are written once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::input::{PageLimits, clip};
use crate::account::{Phase, phase_of};
use crate::attribution::{Owner, owner};
use crate::replay::{Figure, Replay, StackKey};
use crate::stacks::{Labelled, labelled};
use crate::symbols::Symbols;
use crate::views::{DeviceThen, MOMENT_LEVELS, MomentKind, PastBlocks};

/// The middle of deeper stacks is omitted.
const DEPTH: usize = 128;

/// The owner of bytes, as in the table of lines: a whole line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PageOwner {
    /// `train.py:15`, or the label of an owner without a line.
    pub line: String,
    /// The full path and line, if it is longer.
    pub path: String,
    /// Function.
    pub function: String,
    /// The source line's text.
    pub source: String,
}

/// What distinguishes the parts of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PagePart {
    /// The autograd node and cuBLAS, as tables show them after the line; empty if it is neither.
    pub note: String,
    /// Phase of the training.
    pub phase: Option<Phase>,
}

/// The tables that all points in time refer to by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageStacks {
    /// Names of frames.
    pub names: Vec<String>,
    /// The kind of each name's frames ([`FrameKind`]): 0 Python that the user wrote, 1 installed Python, 2 native, 3
    /// dispatch (folded into its caller by default), 4 a node of autograd, 5 Python of an optimizer, 6 a note, 7 a
    /// device or a module.
    ///
    /// A native frame may be dispatch in one stack and not in another, so a name may occur twice, with two kinds.
    /// Operators have names such as `aten::conv2d`.
    ///
    /// [`FrameKind`]: crate::stacks::FrameKind
    pub kinds: Vec<u8>,
    /// For each name, the text of its line of source: its number in `texts` plus 1, or 0 without a text.
    pub text_of: Vec<u32>,
    /// Lines of source.
    pub texts: Vec<String>,
    /// For each frame in the tree: its caller (its number plus 1, 0: none) and its name.
    pub tree: Vec<[u32; 2]>,
    /// Owners.
    pub owners: Vec<PageOwner>,
    /// Parts of owners.
    pub parts: Vec<PagePart>,
    /// For each stack: its newest frame in the tree, its owner, and its part of the owner.
    pub stacks: Vec<[u32; 3]>,
    /// Names of PyTorch's modules.
    pub modules: Vec<String>,
    /// For each stack: the number of its module plus 1; 0: none.
    pub module_of: Vec<u32>,
}

/// A level at a point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageLevel {
    /// The level.
    pub level: &'static str,
    /// All bytes.
    pub bytes: u64,
    /// Stack, bytes, blocks; largest first.
    pub stacks: Vec<[u64; 3]>,
    /// The other stacks: how many, bytes, blocks.
    pub others: [u64; 3],
}

/// A point in time of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageMoment {
    /// Why it was selected.
    pub kind: MomentKind,
    /// The event.
    pub seq: u64,
    /// The time.
    pub time: u64,
    /// The levels with any memory in the run.
    pub levels: Vec<PageLevel>,
}

/// Assembles the stacks.
pub(super) struct Build<'a> {
    replay: &'a Replay,
    limits: PageLimits,
    out: PageStacks,
    numbers: FxHashMap<(usize, StackKey), u32>,
    names: FxHashMap<(String, u8, u32), u32>,
    texts: FxHashMap<String, u32>,
    nodes: FxHashMap<[u32; 2], u32>,
    owners: FxHashMap<Owner, u32>,
    parts: FxHashMap<PagePart, u32>,
    modules: FxHashMap<String, u32>,
}

/// The index of a level in the levels of points in time. Pinned host memory has the index of the driver level.
fn index_of(level: Level) -> Option<usize> {
    let level = match level {
        Level::HOST => Level::DRIVER,
        level => level,
    };
    MOMENT_LEVELS.iter().position(|of| *of == level)
}

impl<'a> Build<'a> {
    pub fn new(replay: &'a Replay, limits: PageLimits) -> Self {
        Self {
            replay,
            limits,
            out: PageStacks::default(),
            numbers: FxHashMap::default(),
            names: FxHashMap::default(),
            texts: FxHashMap::default(),
            nodes: FxHashMap::default(),
            owners: FxHashMap::default(),
            parts: FxHashMap::default(),
            modules: FxHashMap::default(),
        }
    }

    /// Selects the stacks with the largest bytes at any point in time.
    pub fn choose(
        &mut self,
        moments: &BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
        blocks: &PastBlocks,
        symbols: &mut Symbols,
        source: &mut dyn FnMut(&str, u32) -> String,
    ) {
        let mut most: FxHashMap<(usize, StackKey), u64> = FxHashMap::default();
        for then in moments.values().flatten() {
            for (index, level) in then.levels.iter().enumerate() {
                for (stacks, figure) in &level.figures {
                    let most = most.entry((index, *stacks)).or_default();
                    *most = figure.bytes.max(*most);
                }
            }
        }
        for of in &blocks.levels {
            let index = index_of(of.level);
            for block in index.iter().flat_map(|_| &of.blocks) {
                let stacks = block.stacks.with_category(block.category);
                for stacks in [Some(stacks), block.freed_by].into_iter().flatten() {
                    let most = most.entry((index.unwrap_or(0), stacks)).or_default();
                    *most = block.bytes.max(*most);
                }
            }
        }
        let mut all: Vec<_> = most.into_iter().collect();
        all.sort_unstable_by_key(|(key, bytes)| (Reverse(*bytes), *key));
        all.truncate(self.limits.stacks);
        let names = &self.replay.names;
        let stacks = all.iter().map(|((_, stacks), _)| stacks.native);
        let native = stacks.filter_map(|native| names.native_stacks.get(&native));
        symbols.find(names, native.flat_map(|(frames, _)| frames));
        for ((index, stacks), _) in all {
            let node = self.node(symbols, stacks, source);
            let of = owner(&self.replay.names, stacks, MOMENT_LEVELS[index]);
            let part = self.part(stacks, &of);
            let owner = self.owner(of.whole(), source);
            let number = self.out.stacks.len() as u32;
            let module = self.module(stacks);
            self.out.stacks.push([node, owner, part]);
            self.out.module_of.push(module);
            self.numbers.insert((index, stacks), number);
        }
    }

    fn module(&mut self, stacks: StackKey) -> u32 {
        let names = &self.replay.names;
        let Some(module) = names.module_of(stacks.py) else {
            return 0;
        };
        let Some(path) = names.module_path(module).pop() else {
            return 0;
        };
        let out = &mut self.out.modules;
        *self.modules.entry(path).or_insert_with_key(|path| {
            out.push(clip(path, self.limits.name));
            out.len() as u32
        })
    }

    /// The number of a selected stack.
    pub fn number(&self, level: Level, stacks: StackKey) -> Option<u32> {
        let index = index_of(level)?;
        self.numbers.get(&(index, stacks)).copied()
    }

    fn node(
        &mut self,
        symbols: &mut Symbols,
        stacks: StackKey,
        source: &mut dyn FnMut(&str, u32) -> String,
    ) -> u32 {
        let mut frames = labelled(&self.replay.names, symbols, stacks);
        if frames.len() > DEPTH {
            let missing = frames.len() + 1 - DEPTH;
            let said = Labelled::note(format!("({missing} frames left out)"));
            frames.splice(DEPTH / 2..DEPTH / 2 + missing, [said]);
        }
        let mut parent = 0;
        for frame in frames {
            let name = self.name(&frame, source);
            let tree = &mut self.out.tree;
            parent = *self.nodes.entry([parent, name]).or_insert_with_key(|node| {
                tree.push(*node);
                tree.len() as u32
            });
        }
        parent.saturating_sub(1)
    }

    fn name(&mut self, frame: &Labelled, source: &mut dyn FnMut(&str, u32) -> String) -> u32 {
        let code = frame.line.and_then(|(code, line)| {
            let code = self.replay.names.codes.get(&code)?;
            Some(source(&code.file, line))
        });
        let text = self.text(&code.unwrap_or_default());
        let label = clip(frame.folded_label(), self.limits.name);
        let out = &mut self.out;
        *self
            .names
            .entry((label, frame.kind.number(), text))
            .or_insert_with_key(|(label, kind, text)| {
                out.names.push(label.clone());
                out.kinds.push(*kind);
                out.text_of.push(*text);
                out.names.len() as u32 - 1
            })
    }

    /// The number of a line of source plus 1; 0 without a text.
    fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let texts = &mut self.out.texts;
        *self
            .texts
            .entry(clip(text, self.limits.name))
            .or_insert_with_key(|text| {
                texts.push(text.clone());
                texts.len() as u32
            })
    }

    fn part(&mut self, stacks: StackKey, owner: &Owner) -> u32 {
        let part = PagePart {
            note: clip(owner.note().trim_start(), self.limits.name),
            phase: phase_of(self.replay, stacks),
        };
        let out = &mut self.out.parts;
        *self.parts.entry(part).or_insert_with_key(|part| {
            out.push(part.clone());
            out.len() as u32 - 1
        })
    }

    fn owner(&mut self, of: Owner, source: &mut dyn FnMut(&str, u32) -> String) -> u32 {
        let names = &self.replay.names;
        let (out, limit) = (&mut self.out.owners, self.limits.name);
        *self.owners.entry(of).or_insert_with_key(|of| {
            let line = clip(&of.label(names), limit);
            let path = of.line().map_or(String::new(), |line| {
                clip(&format!("{}:{}", line.file, line.line), limit)
            });
            let text = of.line().map(|line| source(&line.file, line.line));
            out.push(PageOwner {
                path: if path == line { String::new() } else { path },
                line,
                function: clip(of.function(), limit),
                source: clip(&text.unwrap_or_default(), limit),
            });
            out.len() as u32 - 1
        })
    }

    /// A point in time, with the numbers of the selected stacks.
    pub fn moment(&self, then: &DeviceThen, has: [bool; MOMENT_LEVELS.len()]) -> PageMoment {
        let levels = then
            .levels
            .iter()
            .enumerate()
            .filter(|(index, _)| has[*index]);
        let levels = levels.map(|(index, level)| {
            let (mut stacks, mut others, mut count) =
                (Vec::new(), level.others, level.other_stacks);
            for (key, figure) in &level.figures {
                match self.numbers.get(&(index, *key)) {
                    Some(number) => stacks.push([u64::from(*number), figure.bytes, figure.blocks]),
                    None => {
                        others += *figure;
                        count += 1;
                    }
                }
            }
            let Figure { bytes, blocks } = others;
            PageLevel {
                level: match MOMENT_LEVELS[index] {
                    Level::TENSOR => "tensor",
                    _ => "driver",
                },
                bytes: level.bytes(),
                stacks,
                others: [count, bytes, blocks],
            }
        });
        PageMoment {
            kind: then.kind,
            seq: then.seq,
            time: then.time_ns,
            levels: levels.collect(),
        }
    }

    pub fn finish(self) -> PageStacks {
        self.out
    }
}
