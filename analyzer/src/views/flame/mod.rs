//! The data of flamegraphs: bytes by complete mixed stack.

mod difference;
mod frame;
mod lines;
mod mean;

use std::collections::BTreeMap;
use std::rc::Rc;

use gpumem_capture::Level;
use rustc_hash::FxHashMap;

use super::by_stack::ByStack;
use super::module_of::module_path;
use crate::account::{many, place};
use crate::attribution::{Owner, owner};
use crate::names::{Names, NativeFrame};
use crate::replay::{Replay, StackKey};
use crate::stacks::{FrameKind, Labelled, labelled};
use crate::symbols::Symbols;

pub use difference::Differential;
pub use frame::{FlameFrame, FlameHeld, SharedFrame};

/// Longer lines of source are cut.
const TEXT: usize = 160;

/// Which Python frames are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameBy {
    /// Those at the same line of a function.
    #[default]
    Line,
    /// Those of the same function.
    Function,
    /// All: replaced by the modules of PyTorch that ran, and the line that owns the bytes.
    Module,
}

/// Which frames of a stack are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    /// Which Python frames are merged.
    pub by: FrameBy,
    /// Whether to show all frames. Otherwise, dispatch frames are folded into their callers.
    pub native: bool,
    /// Whether the newest frame is first, below the GPU if there are several: the total of each function over all
    /// callers.
    pub inverted: bool,
}

/// The frames of a stack, the oldest first; if inverted, the newest first.
pub type FlameStack = Vec<SharedFrame>;

/// Bytes by stack, for flamegraphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// The memory of each stack; never empty.
    pub stacks: BTreeMap<FlameStack, FlameHeld>,
}

impl Folded {
    /// The memory of stacks. `source` returns a line's text, or an empty one.
    pub fn of(
        replay: &Replay,
        symbols: &mut Symbols,
        held: &ByStack,
        folding: Folding,
        source: &mut dyn FnMut(&str, u32) -> String,
    ) -> Self {
        let names = &replay.names;
        let mut frames = Frames {
            names,
            folding,
            source,
            known: FxHashMap::default(),
        };
        let mut folded = Self::default();
        for on in &held.devices {
            if folding.by != FrameBy::Module {
                let stacks = on.figures.iter().map(|(stacks, _)| stacks.native);
                let native = stacks.filter_map(|native| names.native_stacks.get(&native));
                let native: Vec<&NativeFrame> = native.flat_map(|(frames, _)| frames).collect();
                symbols.find(names, native);
            }
            let device = (held.devices.len() > 1).then(|| Labelled::group(place(on.device)));
            for (stacks, figure) in on.figures.iter().filter(|(_, figure)| figure.bytes > 0) {
                let shown = match folding.by {
                    FrameBy::Module => modules(names, *stacks),
                    FrameBy::Line | FrameBy::Function => labelled(names, symbols, *stacks),
                };
                let all = device.iter().chain(&shown);
                let mut stack: FlameStack = all.filter_map(|frame| frames.shared(frame)).collect();
                if folding.by == FrameBy::Module {
                    stack.push(frames.owner(&owner(names, *stacks, held.level)));
                }
                if folding.inverted {
                    stack[usize::from(device.is_some())..].reverse();
                }
                let category = stacks.purpose.category();
                *folded.stacks.entry(stack).or_default() += FlameHeld::of(*figure, category);
            }
        }
        folded
    }

    /// Bytes over all stacks.
    pub fn bytes(&self) -> u64 {
        self.stacks.values().map(|held| held.bytes).sum()
    }

    /// The title of the picture; `when` is a phrase such as `at the peak`.
    pub fn title(&self, level: Level, when: &str) -> String {
        let what = match level {
            Level::TENSOR => "GPU memory of tensors",
            Level::HOST => "Pinned host memory",
            _ => "GPU memory from CUDA",
        };
        let stacks = many(self.stacks.len() as u64, "stack", "stacks");
        format!(
            "{what} {when}: {} in {stacks}",
            crate::units::bytes(self.bytes())
        )
    }
}

/// The modules that ran.
fn modules(names: &Names, stacks: StackKey) -> Vec<Labelled> {
    let path = module_path(names, stacks).into_iter();
    path.map(Labelled::group).collect()
}

/// Each frame once.
struct Frames<'a> {
    names: &'a Names,
    folding: Folding,
    source: &'a mut dyn FnMut(&str, u32) -> String,
    known: FxHashMap<(Rc<str>, FrameKind), SharedFrame>,
}

impl Frames<'_> {
    /// The owner of bytes, with the text of the line if it is one.
    fn owner(&mut self, owner: &Owner) -> SharedFrame {
        let frame = Labelled::of_owner(self.names, owner);
        let key = (Rc::clone(&frame.label), frame.kind);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let line = owner.line();
        let text = line.map(|line| cut((self.source)(&line.file, line.line)));
        let shared = SharedFrame::new(&frame.label, frame.kind, &text.unwrap_or_default());
        self.known.insert(key, shared.clone());
        shared
    }

    /// The frame as stacks share it; `None` if it is folded into its caller.
    fn shared(&mut self, frame: &Labelled) -> Option<SharedFrame> {
        let is_folded = frame.kind == FrameKind::Dispatch && !self.folding.native;
        if is_folded {
            return None;
        }
        let label = match self.folding.native {
            true => &frame.label,
            false => frame.folded_label(),
        };
        let key = (Rc::clone(label), frame.kind);
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let code = frame.line.and_then(|(code, _)| self.names.codes.get(&code));
        let shared = match code.zip(frame.line) {
            Some((code, _)) if self.folding.by == FrameBy::Function => {
                let path = self.names.short_path(&code.file);
                SharedFrame::new(&format!("{} ({path})", code.name), frame.kind, "")
            }
            Some((code, (_, line))) => {
                SharedFrame::new(label, frame.kind, &cut((self.source)(&code.file, line)))
            }
            None => SharedFrame::new(label, frame.kind, ""),
        };
        self.known.insert(key, shared.clone());
        Some(shared)
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
