//! One row for each event: what tables are made of.

use std::rc::Rc;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Seq};
use rustc_hash::FxHashMap;

use crate::account::phase_of;
use crate::attribution::{Owner, owner};
use crate::names::Names;
use crate::replay::{Effect, Replay, Sizes, StackKey};
use crate::session::Session;
use crate::views::Select;

/// Which events are wanted. Where files, functions, libraries or sizes are asked for, only events of
/// blocks are.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this level.
    pub level: Option<Level>,
    /// Only what such lines own, on such a device.
    pub select: Select,
    /// Only blocks of these sizes.
    pub sizes: Sizes,
}

/// Whose an event is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Whose {
    /// File of the line that owns it.
    pub file: Option<String>,
    /// The line's number.
    pub line: Option<u32>,
    /// The line's function; `(not sampled)` where stacks are sampled and this one was not taken.
    pub function: Option<String>,
    /// The class of the autograd node that allocated.
    pub node: Option<String>,
    /// The library, where no line is known.
    pub library: Option<String>,
    /// The phase of the training in which the allocation was made.
    pub phase: Option<&'static str>,
}

/// An event as tables have it. What it means is documented in docs/commands/export.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// Its number.
    pub seq: u64,
    /// When: nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// What happened.
    pub kind: &'static str,
    /// At which level, if at one.
    pub level: Option<&'static str>,
    /// On which device, if on one.
    pub device: Option<u8>,
    /// Address or handle.
    pub ptr: u64,
    /// Bytes.
    pub bytes: u64,
    /// The level's live bytes on that device after the event, if it changes live blocks.
    pub live_bytes: Option<u64>,
    /// The allocation that made the block which this event is about.
    pub block_seq: Option<u64>,
    /// The thread.
    pub thread: u32,
    /// The function that was called.
    pub api: Option<&'a str>,
    /// Whose it is: of a free, whose the block was.
    pub whose: Rc<Whose>,
    /// The stacks that say so.
    pub stacks: Option<StackKey>,
    /// The step that was under way, from 1, if the capture has steps.
    pub step: Option<u64>,
    /// The innermost range.
    pub range: Option<&'a str>,
    /// What the tensor's block was for that the event ended: it is known only then.
    pub category: Option<&'static str>,
}

/// Makes rows of events. Memory is bounded by the distinct stacks.
pub struct Events<'a> {
    replay: &'a Replay,
    filter: Filter,
    known: FxHashMap<(StackKey, Level), Known>,
    nobody: Rc<Whose>,
}

#[derive(Clone)]
struct Known {
    whose: Rc<Whose>,
    taken: bool,
}

impl<'a> Events<'a> {
    /// Of a capture that was read to its end as `session`: only then is it known what its events mean.
    pub fn new(session: &'a Session, filter: Filter) -> Self {
        Self {
            replay: &session.replay,
            filter,
            known: FxHashMap::default(),
            nobody: Rc::default(),
        }
    }

    /// The row of an event, after the replay of this second reading has taken it in; `None` if it is not
    /// wanted.
    pub fn row(
        &mut self,
        now: &Replay,
        seq: Seq,
        event: &Event,
        effect: Effect,
    ) -> Option<EventRow<'a>> {
        let level = has_level(event.kind).then_some(event.level);
        let of_block = matches!(
            event.kind,
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL
        );
        let filter = &self.filter;
        // What a role says stands as the block's category.
        if matches!(event.kind, EventKind::ROLE | EventKind::ALLOCATOR)
            || filter.level.is_some_and(|only| level != Some(only))
            || !filter.select.takes_device(event.device)
            || !(filter.sizes.are_all() || of_block && filter.sizes.take(event.bytes))
        {
            return None;
        }
        let block = match effect {
            Effect::Live(block) | Effect::Gone(block) => Some(block),
            Effect::None => None,
        };
        let stacks = match block {
            Some(block) => Some(now.stacks(block.key)),
            None if has_stacks(event.kind) => Some(now.span_context().stacks),
            None => None,
        };
        let known = stacks.map(|stacks| self.known(stacks, event.level));
        let taken = of_block && known.as_ref().is_some_and(|known| known.taken);
        if !(taken || self.filter.select.is_whole()) {
            return None;
        }
        let names: &'a Names = &self.replay.names;
        let mark = event.kind == EventKind::STEP;
        let steps = now.spans.steps.saturating_add(u64::from(!mark));
        let changes = of_block || event.kind == EventKind::RESIZE;
        let range = match is_mark(event.kind) {
            true => None,
            false => now.span_context().range,
        };
        Some(EventRow {
            seq: seq.0,
            time_ns: event.time.0,
            kind: kind(event.kind),
            level: level.map(Level::name),
            device: (event.device != DeviceOrdinal::NONE).then_some(event.device.0),
            ptr: event.ptr,
            bytes: event.bytes,
            live_bytes: changes.then(|| now.counters(event.device, event.level).live),
            block_seq: block.map(|block| block.seq.0),
            thread: event.thread.0,
            api: names.apis.get(&event.api).map(String::as_str),
            whose: known.map_or_else(|| Rc::clone(&self.nobody), |known| known.whose),
            stacks,
            step: (self.replay.spans.steps > 0).then_some(steps),
            range: range
                .and_then(|range| names.ranges.get(&range))
                .map(String::as_str),
            category: match effect {
                Effect::Gone(_) if event.level == Level::TENSOR => Some(now.newest_ended.name()),
                _ => None,
            },
        })
    }

    fn known(&mut self, stacks: StackKey, level: Level) -> Known {
        let (replay, select) = (self.replay, &self.filter.select);
        let known = self.known.entry((stacks, level)).or_insert_with(|| {
            let owner = owner(&replay.names, stacks, level);
            Known {
                taken: select.takes(replay, stacks, level, &owner),
                whose: Rc::new(whose(replay, stacks, &owner)),
            }
        });
        known.clone()
    }
}

fn whose(replay: &Replay, stacks: StackKey, owner: &Owner) -> Whose {
    let line = owner.line();
    Whose {
        file: line.map(|line| line.file.clone()),
        line: line.map(|line| line.line),
        function: match stacks.is_not_sampled() {
            true => Some("(not sampled)".into()),
            false => line.map(|line| line.function.clone()),
        },
        node: owner.node().map(str::to_owned),
        library: owner.library(),
        phase: phase_of(replay, stacks).map(|phase| phase.word()),
    }
}

/// Whether it is a mark: of a scope, a step, a range, a phase.
fn is_mark(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::SCOPE_BEGIN
            | EventKind::SCOPE_END
            | EventKind::STEP
            | EventKind::RANGE_BEGIN
            | EventKind::RANGE_END
            | EventKind::PHASE_BEGIN
            | EventKind::PHASE_END
            | EventKind::MARK
    )
}

fn has_level(kind: EventKind) -> bool {
    !is_mark(kind) && kind != EventKind::SAMPLE && kind != EventKind::CARD
}

/// Whether an event that is about no live block says whose it is. Of frees the stack is not kept.
fn has_stacks(kind: EventKind) -> bool {
    has_level(kind) && kind != EventKind::FREE
}

/// The word for what happened.
fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::ALLOC => "alloc",
        EventKind::FREE => "free",
        EventKind::CANCEL => "cancel",
        EventKind::MAP => "map",
        EventKind::UNMAP => "unmap",
        EventKind::OUT_OF_MEMORY => "out_of_memory",
        EventKind::CONTEXT => "context",
        EventKind::CONTEXT_END => "context_end",
        EventKind::MODULE_LOAD => "module_load",
        EventKind::MODULE_UNLOAD => "module_unload",
        EventKind::SCOPE_BEGIN => "scope_begin",
        EventKind::SCOPE_END => "scope_end",
        EventKind::STEP => "step",
        EventKind::SAMPLE => "sample",
        EventKind::ALIAS => "alias",
        EventKind::ALIAS_END => "alias_end",
        EventKind::RESIZE => "resize",
        EventKind::CARD => "card",
        EventKind::ADDRESS => "address",
        EventKind::ADDRESS_END => "address_end",
        EventKind::NODE => "node",
        EventKind::RANGE_BEGIN => "range_begin",
        EventKind::RANGE_END => "range_end",
        EventKind::PHASE_BEGIN => "phase_begin",
        EventKind::PHASE_END => "phase_end",
        EventKind::MARK => "mark",
        _ => "unknown",
    }
}
