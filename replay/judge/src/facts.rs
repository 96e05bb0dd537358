//! The facts of a failure. Each is exact, as far as the capture goes.

mod collect;
mod larger;
mod largest;
mod places;

pub(crate) use collect::sums;
pub use larger::{Larger, Longer};
pub(crate) use places::{begins, is_the_programs, line_at, makes_weights};

use gpumem_capture::{Level, PlacementId, ProcessKey, Seq, StackId};
use gpumem_replay::attribution::{Owner, Split, owner};
use gpumem_replay::{Block, Category, Figure, Replay, StackKey};

use collect::{alike, by_stack, copies, foreach, live, most, new, outside, parts, request, total};

use larger::{larger, longer};
use largest::largest;

use crate::cache::Cache;
use crate::follow::{Card, Follow, StepPeaks, cache_now};
use crate::holders::{Holder, Holders};
use crate::kept::{Kept, kept};
use crate::path::Path;
use crate::replays::Replays;

/// Where copy.deepcopy() is.
pub(crate) const COPY: &str = "/copy.py";

/// The request that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its bytes; 0 if unknown, for a context.
    pub bytes: u64,
    /// The event of its failure.
    pub seq: Seq,
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
    /// Whether an optimizer's function for all tensors at once made it.
    pub in_foreach: bool,
    /// Whether a module's forward made it.
    pub in_forward: bool,
    /// Whether a backward made it.
    pub in_backward: bool,
    /// Whether it is in a forward through which no backward ran, although steps of a training have ended: an evaluation,
    /// or a part of the model that is not trained.
    pub is_without_backward: bool,
    /// The largest block that the same stack got before; `None` if it got none.
    pub largest_before: Option<u64>,
    /// How many it got.
    pub allocations_before: u64,
    /// Whether copy.deepcopy() makes it.
    pub in_copy: bool,
    /// How many threads made parameters with this stack, if most of these are live.
    pub threads: u32,
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
}

/// A line that has most of the live memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most {
    /// The line.
    pub owner: Owner,
    /// Its memory.
    pub figure: Figure,
    /// How that splits.
    pub split: Split,
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

/// A line that holds as much as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The line.
    pub owner: Owner,
    /// Its memory.
    pub figure: Figure,
    /// Address and bytes of each block.
    pub(crate) blocks: Vec<(u64, u64)>,
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
    pub address: u64,
    pub block: Block,
    pub category: Category,
}

impl Live {
    pub fn figure(&self) -> Figure {
        Figure::block(self.block.bytes)
    }
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
    /// The line with most of the live memory, and how that splits; `None`: no line has so much.
    pub most: Option<Most>,
    /// Memory outside of the framework, the largest first.
    pub outside: Vec<Outside>,
    /// What earlier rounds of the loops around the request hold, the outermost loop first.
    pub kept: Vec<Kept>,
    /// The lines whose tensors become larger each time.
    pub longer: Vec<Longer>,
    /// The line of the largest tensor, if that was the first of its size.
    pub larger: Option<Larger>,
    /// Tensors of the request's size.
    pub alike: Option<Alike>,
    /// Lines that allocated for the first time in the newest two rounds of a loop, and that loop's round.
    pub new: Option<New>,
    /// Lines of which other lines hold the same amount.
    pub copies: Vec<Copied>,
    /// What the optimizer's functions for all tensors at once hold, without its state.
    pub foreach: u64,
    /// How many handles for other processes the program requested, if that is known.
    pub shared: u64,
    /// Steps that had ended.
    pub steps: u64,
    /// The peaks of the steps.
    pub peaks: StepPeaks,
    /// Whether a backward or an optimizer's step ran.
    pub trains: bool,
    /// Who kept the largest blocks, if the recorder looked for it.
    pub holders: Option<Holders>,
    /// What replays of the run under other settings gave, if there were any.
    pub replays: Option<Replays>,
    /// Whether the program went on afterwards.
    pub went_on: bool,
    /// The largest live blocks.
    pub(crate) largest: Vec<Large>,
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Large {
    pub address: u64,
    pub bytes: u64,
    /// Its allocation.
    pub seq: Seq,
    /// Its line's index in [`Facts::parts`].
    pub part: usize,
    /// Its Python stack.
    pub stack: StackId,
    /// Whether it belongs to the forward that runs.
    pub running: Running,
    /// Whether the round that runs made it, or the only one.
    pub is_of_round: bool,
}

/// Whether the forward that runs made a block, or, if none runs, a forward of the round that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// Another one did.
    No,
    /// A loop within the forward did, or another call of the same forward: their events are the same.
    Perhaps,
    /// It did.
    Yes,
}

/// The smallest page of the card.
const PAGE: u64 = 2 << 20;
/// The bytes that PyTorch's expandable segments map and unmap at once, for requests that are not small.
pub(crate) const EXPANDABLE_PAGE: u64 = 20 << 20;
/// The largest of its small requests.
const SMALL: u64 = 1 << 20;

/// Bytes in whole pages of the card, at least one.
pub(crate) fn whole_pages(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

/// The owner of a stack as a whole line.
pub(crate) fn line_of(replay: &Replay, stacks: StackKey, level: Level) -> Owner {
    owner(&replay.names, stacks, level).whole()
}

impl Facts {
    /// The free memory that the request needs on the card: whole pages, at least one. If its size is unknown, it is
    /// more than there was.
    pub fn needed(&self) -> u64 {
        let settings = self.settings.as_deref().unwrap_or_default();
        let is_expandable = settings.contains("expandable_segments:True");
        let bytes = self.request.bytes;
        match (self.request.has_no_size, self.card.free()) {
            (true, Some(free)) => free.saturating_add(1),
            _ if is_expandable && self.request.level == Level::TENSOR && bytes > SMALL => bytes
                .checked_next_multiple_of(EXPANDABLE_PAGE)
                .unwrap_or(bytes),
            _ => whole_pages(bytes),
        }
    }

    /// The holder of a block.
    pub(crate) fn holder_of(&self, large: &Large) -> Option<usize> {
        self.holders.as_ref()?.blocks.get(&large.address).copied()
    }

    /// Whether a variable of the function that made the request has it.
    pub(crate) fn is_of_request(&self, holder: &Holder) -> bool {
        let place = holder.place.strip_prefix("local of ");
        let function = place.and_then(|of| of.split(' ').next());
        function.is_some() && function == self.request.owner.line().map(|line| &*line.function)
    }

    /// Blocks of a category.
    pub(crate) fn largest_of(&self, category: Category) -> impl Iterator<Item = &Large> + Clone {
        let category_of = |of: &Large| self.parts.get(of.part).map(|of| of.category);
        let all = self.largest.iter();
        all.filter(move |of| category_of(of) == Some(category))
    }

    /// Live memory of a category.
    pub(crate) fn of_category(&self, category: Category) -> Figure {
        let all = self.parts.iter().filter(|of| of.category == category);
        all.map(|of| of.figure).sum()
    }

    /// Who kept blocks; empty if the recorder did not look for it.
    pub(crate) fn all_holders(&self) -> &[Holder] {
        self.holders.as_ref().map_or(&[], |of| &of.all)
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
        let by_stack = by_stack(&live);
        let all_parts = parts(replay, follow, &by_stack);
        let placement = match event.level {
            Level::TENSOR => event.placement,
            _ => PlacementId::DEFAULT,
        };
        Self {
            request: request(replay, follow, &path),
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
            largest: largest(replay, follow, &path, &all_parts, &live),
            parts: all_parts.clone(),
            most: most(replay, follow, &all_parts, &by_stack),
            outside: outside(replay, follow),
            kept: kept(replay, follow, &path, &live),
            longer: longer(replay, follow, &live),
            larger: larger(replay, follow, &live),
            alike: alike(replay, follow, &live),
            new: new(replay, follow, &path, &live),
            copies: copies(replay, follow, &all_parts, &live),
            foreach: foreach(replay, &by_stack),
            shared: 0,
            steps: failure.span_context.steps,
            peaks: follow.peaks,
            trains: replay.spans.trains,
            holders: None,
            replays: None,
            went_on: false,
        }
    }
}
