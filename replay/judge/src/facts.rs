//! The facts of a failure. Each is exact, as far as the capture goes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{CodeId, EventFlags, Level, PlacementId, ProcessKey, PyFrame, Seq, StackId};
use gpumem_replay::attribution::{Line, Owner, PYTORCH_ALLOCATOR, library, owner};
use gpumem_replay::{Backing, Block, Category, Figure, KeyId, Replay, StackKey, ThreadPhase};

use crate::cache::Cache;
use crate::follow::{After, Card, Follow, cache_now};
use crate::kept::{Kept, kept};
use crate::path::Path;

/// The request that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its bytes; 0 if unknown, for a context.
    pub bytes: u64,
    /// Its level.
    pub level: Level,
    /// Who made it.
    pub owner: Owner,
    /// Its stacks.
    pub stacks: StackKey,
    /// The bytes that the driver refused last.
    pub refused: Option<u64>,
    /// Whether the driver refused it, rather than the framework by itself.
    pub was_refused: bool,
    /// Whether it was for kernels' code or a call without a size.
    pub has_no_size: bool,
    /// Whether it was for a cuBLAS workspace.
    pub is_workspace: bool,
    /// Whether a backward made it.
    pub in_backward: bool,
    /// The largest block that the same stack got before; `None` if it got none.
    pub largest_before: Option<u64>,
    /// How many it got.
    pub allocations_before: u64,
}

/// Live memory of a line in one category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The line.
    pub owner: Owner,
    /// The category; [`Category::None`] at other levels than that of tensors.
    pub category: Category,
    /// Its memory.
    pub figure: Figure,
    /// The first allocation of these stacks.
    pub first: Seq,
}

/// Memory of the process that a framework does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The line that allocated it, or the library.
    pub owner: Owner,
    /// The library, if it is known.
    pub library: Option<String>,
    /// Its memory.
    pub figure: Figure,
}

/// A line whose tensors become larger, while their number stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longer {
    /// The line.
    pub owner: Owner,
    /// Its live tensors.
    pub figure: Figure,
    /// How many times they grew.
    pub rises: u64,
    /// The smallest and the largest rise.
    pub rise: (u64, u64),
}

/// Tensors of the request's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// The size of the largest of them; others have half of it.
    pub bytes: u64,
    /// Their memory.
    pub figure: Figure,
    /// Their lines, the largest first.
    pub lines: Vec<(Owner, Figure)>,
}

/// Memory of lines that earlier rounds did not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// The round that runs.
    pub round: u64,
    /// The memory.
    pub figure: Figure,
    /// By line and category, the largest first.
    pub lines: Vec<(Owner, Category, Figure)>,
}

/// A live block, with its category.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub block: Block,
    pub category: Category,
}

/// The facts of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The request.
    pub request: Request,
    /// The card.
    pub card: Card,
    /// The level of `live`, `parts` and `kept`.
    pub level: Level,
    /// Live bytes of that level.
    pub live: u64,
    /// Live tensors, and what the framework reserved.
    pub tensors: u64,
    /// See `tensors`.
    pub reserved: u64,
    /// The free memory of the framework's pool, if its segments are known.
    pub cache: Option<Cache>,
    /// Settings of the framework's allocator, as the program set them.
    pub settings: Option<String>,
    /// Live memory by line and category, the largest first.
    pub parts: Vec<Part>,
    /// Memory outside of the framework, the largest first.
    pub outside: Vec<Outside>,
    /// What earlier rounds of the loops around the request hold, the outermost loop first.
    pub kept: Vec<Kept>,
    /// The line whose tensor becomes larger, if it is the largest such.
    pub longer: Option<Longer>,
    /// Tensors of the request's size.
    pub alike: Option<Alike>,
    /// Lines that allocated for the first time in the newest two rounds of a loop, and that loop's round.
    pub new: Option<New>,
    /// Lines of which other lines hold the same amount.
    pub copies: Vec<(Owner, Figure)>,
    /// How many handles for other processes the program requested, if that is known.
    pub shared: u64,
    /// Steps that had ended.
    pub steps: u64,
    /// Whether a backward or an optimizer's step ran.
    pub trains: bool,
    /// Backwards that had begun.
    pub backwards: u64,
    /// What happened afterwards.
    pub after: After,
}

/// The smallest page of the card.
const PAGE: u64 = 2 << 20;

/// Bytes in whole pages of the card, at least one.
pub(crate) fn whole_pages(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

/// The owner of a stack as a line: without the class of the autograd node that ran.
pub(crate) fn line_of(replay: &Replay, stacks: StackKey, level: Level) -> Owner {
    match owner(&replay.names, stacks, level) {
        Owner::Line(line, _) => Owner::Line(line, None),
        other => other,
    }
}

impl Facts {
    /// The free memory that the request needs on the card: whole pages, at least one. If its size is unknown, it is
    /// more than there was.
    pub fn needed(&self) -> u64 {
        match (self.request.has_no_size, self.card.free()) {
            (true, Some(free)) => free.saturating_add(1),
            _ => whole_pages(self.request.bytes),
        }
    }

    /// The facts now, just after the failure's record.
    pub(crate) fn now(replay: &Replay, follow: &Follow) -> Self {
        let failure = &follow.failure;
        let event = &failure.event;
        let device = event.device;
        let now = replay.devices.get(&device);
        let levels = now.map(|now| now.now).unwrap_or_default();
        let live = live(replay, follow);
        let stacks = failure.span_context.stacks;
        let path = Path::of(&replay.names, stacks.py);
        let all_parts = parts(replay, follow, &live);
        let placement = match event.level {
            Level::TENSOR => event.placement,
            _ => PlacementId::DEFAULT,
        };
        Self {
            request: request(replay, follow),
            card: Card {
                total: total(replay, follow).0,
                is_limit: total(replay, follow).1,
                mine: levels.physical,
                reading: now.and_then(|now| now.readings.best()),
            },
            level: follow.level,
            live: match follow.level {
                Level::TENSOR => levels.tensor,
                level => replay.counters(device, level).live,
            },
            tensors: levels.tensor,
            reserved: levels.reserved.unwrap_or(0),
            cache: cache_now(replay, &follow.placements, device, placement),
            settings: replay
                .names
                .fact(ProcessKey::ALLOCATOR_CONF)
                .filter(|text| !text.is_empty())
                .map(str::to_owned),
            parts: all_parts.clone(),
            outside: outside(replay, follow),
            kept: kept(replay, follow, &path, &live),
            longer: longer(replay, follow, &live),
            alike: alike(replay, follow, &live),
            new: new(replay, follow, &path, &live),
            copies: copies(&all_parts),
            shared: 0,
            steps: failure.span_context.steps,
            trains: replay.spans.trains,
            backwards: follow.backwards,
            after: After::default(),
        }
    }
}

fn live(replay: &Replay, follow: &Follow) -> Vec<Live> {
    let row = replay
        .levels
        .get(&(follow.failure.event.device, follow.level));
    let blocks = row.into_iter().flat_map(|row| row.live_blocks());
    let mut all: Vec<Live> = blocks
        .map(|(_, block)| Live {
            block,
            category: replay.stacks(block.key).purpose.category(),
        })
        .collect();
    all.sort_unstable_by_key(|of| of.block.seq);
    all
}

fn total(replay: &Replay, follow: &Follow) -> (Option<u64>, bool) {
    let device = follow.failure.event.device;
    let card = replay
        .names
        .devices
        .get(&device)
        .map(|card| card.total_bytes);
    match replay.limit_of(device) {
        Some(limit) => (Some(limit), true),
        None => (card, false),
    }
}

fn request(replay: &Replay, follow: &Follow) -> Request {
    let failure = &follow.failure;
    let event = &failure.event;
    let stacks = failure.span_context.stacks;
    let same = (0..follow.keys.len() as u32).map(KeyId).filter(|key| {
        // The native stack of a failure is another one: it ends where the framework reports it.
        stacks.py != StackId::NONE && replay.stacks(*key).py == stacks.py
    });
    let histories: Vec<_> = same.map(|key| follow.keys[key.0 as usize]).collect();
    Request {
        bytes: event.bytes,
        level: event.level,
        owner: owner(&replay.names, stacks, event.level),
        stacks,
        refused: follow.refused,
        was_refused: failure.was_refused(),
        has_no_size: event.level == Level::PHYSICAL && event.bytes == 0,
        is_workspace: event.flags.contains(EventFlags::WORKSPACE),
        in_backward: replay.names.backwards.contains_key(&stacks.py)
            || stacks.purpose.phase() == ThreadPhase::Backward,
        largest_before: histories.iter().map(|of| of.largest).max(),
        allocations_before: histories.iter().map(|of| of.allocations).sum(),
    }
}

fn parts(replay: &Replay, follow: &Follow, live: &[Live]) -> Vec<Part> {
    let mut by_key: BTreeMap<KeyId, Figure> = BTreeMap::new();
    for Live { block, .. } in live {
        *by_key.entry(block.key).or_default() += Figure::block(block.bytes);
    }
    let mut parts: BTreeMap<(Owner, Category), Part> = BTreeMap::new();
    for (key, figure) in by_key {
        let stacks = replay.stacks(key);
        let owner = line_of(replay, stacks, follow.level);
        let category = stacks.purpose.category();
        let first = follow.history_of(replay, key).first;
        let part = parts.entry((owner.clone(), category)).or_insert(Part {
            owner,
            category,
            figure: Figure::default(),
            first,
        });
        part.figure += figure;
        part.first = part.first.min(first);
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by_key(|part| Reverse((part.figure.bytes, part.figure.blocks)));
    parts
}

/// Driver memory of the device that is not PyTorch's.
fn outside(replay: &Replay, follow: &Follow) -> Vec<Outside> {
    let device = follow.failure.event.device;
    let tensors = replay.levels.get(&(device, Level::TENSOR));
    let mut starts: Vec<u64> = tensors
        .into_iter()
        .flat_map(|row| row.live_blocks().map(|(address, _)| address))
        .collect();
    starts.sort_unstable();
    let row = replay.levels.get(&(device, Level::DRIVER));
    let mut all: BTreeMap<(Owner, Option<String>), Figure> = BTreeMap::new();
    for (address, block) in row.into_iter().flat_map(|row| row.live_blocks()) {
        let stacks = replay.stacks(block.key);
        let library = library(&replay.names, stacks, Level::DRIVER);
        let first = starts.partition_point(|start| *start < address);
        let end = address.saturating_add(block.bytes);
        let has_tensor = starts.get(first).is_some_and(|start| *start < end);
        if has_tensor
            || library.as_deref() == Some(PYTORCH_ALLOCATOR)
            || Backing::of(block.flags) == Backing::Unknown
        {
            continue;
        }
        let owner = line_of(replay, stacks, Level::DRIVER);
        *all.entry((owner, library)).or_default() += Figure::block(block.bytes);
    }
    let mut all: Vec<Outside> = all
        .into_iter()
        .map(|((owner, library), figure)| Outside {
            owner,
            library,
            figure,
        })
        .collect();
    all.sort_by_key(|of| Reverse(of.figure.bytes));
    all
}

/// How many rises in a row show a tensor that becomes longer.
const RISES: u64 = 2;

fn longer(replay: &Replay, follow: &Follow, live: &[Live]) -> Option<Longer> {
    let mut by_key: BTreeMap<KeyId, Figure> = BTreeMap::new();
    for Live { block, .. } in live {
        let key = replay.key_of_all_categories(block.key);
        *by_key.entry(key).or_default() += Figure::block(block.bytes);
    }
    // Each layer of a network has separate stacks.
    let mut lines: BTreeMap<Owner, Longer> = BTreeMap::new();
    for (key, figure) in by_key {
        let history = follow.history_of(replay, key);
        let (least, most) = history.rise;
        // The old and the new tensor of each layer.
        let of_a_rise = history.since.div_ceil(history.rises + 1);
        let is_replaced = figure.blocks <= 2 * of_a_rise;
        if history.rises < RISES || !is_replaced || most > least.saturating_mul(4) {
            continue;
        }
        // What a forward keeps for its backward grows with the batch.
        let path = follow.rounds.known_path(replay.stacks(key).py);
        let of_graph = path.is_some_and(|path| path.in_forward() || path.is_backward)
            && !replay.stacks(key).purpose.is_no_grad();
        if of_graph {
            continue;
        }
        let owner = line_of(replay, replay.stacks(key), follow.level);
        let of = lines.entry(owner.clone()).or_insert(Longer {
            owner,
            figure: Figure::default(),
            rises: history.rises,
            rise: history.rise,
        });
        of.figure += figure;
        of.rises = of.rises.min(history.rises);
        of.rise = (of.rise.0.min(least), of.rise.1.max(most));
    }
    lines.into_values().max_by_key(|of| of.figure.bytes)
}

/// The least number of tensors of one size.
const ALIKE: u64 = 3;

fn alike(replay: &Replay, follow: &Follow, live: &[Live]) -> Option<Alike> {
    let bytes = follow.failure.event.bytes;
    if follow.level != Level::TENSOR
        || bytes < 1 << 20
        || follow.failure.event.level != Level::TENSOR
    {
        return None;
    }
    // A block may be larger than its request by rounding.
    let is = |size: u64, of: u64| size >= of && size - of <= of / 64;
    let mut lines: BTreeMap<Owner, Figure> = BTreeMap::new();
    let mut figure = Figure::default();
    for Live { block, category } in live {
        let fits = is(block.bytes, bytes) || is(block.bytes, bytes / 2);
        if !fits
            || matches!(
                category,
                Category::Parameter | Category::OptimizerState | Category::Gradient
            )
        {
            continue;
        }
        let owner = line_of(replay, replay.stacks(block.key), follow.level);
        *lines.entry(owner).or_default() += Figure::block(block.bytes);
        figure += Figure::block(block.bytes);
    }
    let mut lines: Vec<(Owner, Figure)> = lines.into_iter().collect();
    lines.sort_by_key(|(_, figure)| Reverse(figure.bytes));
    (figure.blocks >= ALIKE).then_some(Alike {
        bytes,
        figure,
        lines,
    })
}

/// The least rounds before what is new counts.
const SETTLED: u64 = 4;

fn new(replay: &Replay, follow: &Follow, path: &Path, live: &[Live]) -> Option<New> {
    let loops = follow.rounds.loops().iter();
    let around = loops.filter(|of| of.round() >= SETTLED && !of.is_line && of.contains(path));
    let innermost = around.max_by_key(|of| (of.depth, of.first))?;
    let since = innermost
        .starts()
        .iter()
        .find(|start| start.round + 1 >= innermost.round())?
        .seq;
    let mut lines: BTreeMap<(Owner, Category), Figure> = BTreeMap::new();
    let mut figure = Figure::default();
    for Live { block, category } in live {
        // Optimizer state is allocated once, by lines that ran before for other parameters.
        let is_state = *category == Category::OptimizerState;
        if block.seq < since || !(is_state || follow.history_of(replay, block.key).first >= since) {
            continue;
        }
        let owner = line_of(replay, replay.stacks(block.key), follow.level);
        *lines.entry((owner, *category)).or_default() += Figure::block(block.bytes);
        figure += Figure::block(block.bytes);
    }
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|((owner, category), figure)| (owner, category, figure))
        .collect();
    lines.sort_by_key(|(_, _, figure)| Reverse(figure.bytes));
    (figure.bytes > 0).then_some(New {
        round: innermost.round(),
        figure,
        lines,
    })
}

/// Lines that hold the same amount as another line, outside of forwards and of an optimizer.
fn copies(parts: &[Part]) -> Vec<(Owner, Figure)> {
    let can = |part: &&Part| {
        matches!(
            part.category,
            Category::Parameter | Category::Other | Category::Input
        ) && part.figure.bytes >= 1 << 20
    };
    let all: Vec<&Part> = parts.iter().filter(can).collect();
    let is_same = |a: &Part, b: &Part| {
        a.owner != b.owner && a.figure.bytes.abs_diff(b.figure.bytes) <= b.figure.bytes / 64
    };
    let has_twin = |part: &&&Part| all.iter().any(|other| is_same(part, other));
    let found = all.iter().filter(has_twin);
    found
        .map(|part| (part.owner.clone(), part.figure))
        .collect()
}

impl Follow {
    /// Whether a module makes or converts its parameters in a stack.
    pub(crate) fn makes_weights(&self, replay: &Replay, stack: StackId) -> bool {
        let frames = replay.names.py_stacks.get(&stack);
        let frames = frames.map_or(&[][..], |(frames, _)| frames);
        frames.iter().any(|frame| {
            let code = replay.names.codes.get(&frame.code);
            code.is_some_and(|code| {
                let name = code.name.rsplit('.').next().unwrap_or_default();
                let file = code
                    .file
                    .rsplit_once("torch/nn/modules/")
                    .map(|(_, file)| file);
                match file {
                    Some("module.py") => name == "_apply",
                    Some(_) => matches!(name, "__init__" | "reset_parameters"),
                    None => false,
                }
            })
        })
    }

    /// Whether a function is the program's or a library's, not PyTorch's.
    pub(crate) fn is_the_programs(&self, replay: &Replay, code: CodeId) -> bool {
        let code = replay.names.codes.get(&code);
        !code.is_some_and(|code| code.file.contains("/site-packages/torch/"))
    }

    /// The line at an offset of a function.
    pub(crate) fn line_at(&self, replay: &Replay, code: CodeId, offset: i32) -> Option<Owner> {
        let frame = PyFrame {
            code,
            offset,
            entered_from_c: false,
        };
        let of = replay.names.codes.get(&code)?;
        let line = Line {
            file: replay.names.absolute_path(&of.file),
            relative: replay.names.relative_path(&of.file),
            line: replay.names.line(&frame)?,
            function: of.name.clone(),
        };
        Some(Owner::Line(line, None))
    }
}
