//! One row for each event: the input of all tables.

use std::rc::Rc;

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventKind, Level, Seq};
use rustc_hash::FxHashMap;

use super::kinds;
use crate::account::phase_of;
use crate::attribution::{Owner, owner};
use crate::names::Names;
use crate::replay::{Category, Effect, KeyId, Replay, Sizes, StackKey};
use crate::views::Select;

/// Which events are wanted. A filter by files, functions, libraries or sizes selects only events of blocks.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this level.
    pub level: Option<Level>,
    /// Only the bytes of these lines, on this device.
    pub select: Select,
    /// Only blocks of these sizes.
    pub sizes: Sizes,
}

/// The owner of an event.
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

/// An event as a row of tables. docs/commands/export.md describes the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// Its number.
    pub seq: u64,
    /// Nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// What happened.
    pub kind: &'static str,
    /// Its level, if it has one.
    pub level: Option<&'static str>,
    /// Its device, if it has one.
    pub device: Option<u8>,
    /// Address or handle.
    pub ptr: u64,
    /// Bytes.
    pub bytes: u64,
    /// The level's live bytes on that device after the event, if it changes live blocks.
    pub live_bytes: Option<u64>,
    /// The allocation that made the event's block.
    pub block_seq: Option<u64>,
    /// The thread.
    pub thread: u32,
    /// The function that was called.
    pub api: Option<&'a str>,
    /// The event's owner; of a free, the block's owner.
    pub whose: Rc<Whose>,
    /// The stacks of the owner.
    pub stacks: Option<StackKey>,
    /// The current step, from 1, if the capture has steps.
    pub step: Option<u64>,
    /// The innermost range.
    pub range: Option<&'a str>,
    /// The category of the tensor's block that the event freed: it is known only then.
    pub category: Option<&'static str>,
}

/// An event's row without names: all that is known without the capture's definitions.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Its number.
    pub seq: u64,
    /// Nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// The level in the event, even if its kind has none.
    pub of_level: Level,
    /// Its level, if it has one.
    pub level: Option<Level>,
    /// Its device, if it has one.
    pub device: Option<u8>,
    /// Address or handle.
    pub ptr: u64,
    /// Bytes.
    pub bytes: u64,
    /// See [`EventRow::live_bytes`].
    pub live_bytes: Option<u64>,
    /// See [`EventRow::block_seq`].
    pub block_seq: Option<u64>,
    /// The thread.
    pub thread: u32,
    /// The function that was called.
    pub api: ApiId,
    /// The stacks of the owner, and their number in the replay.
    pub stacks: Option<(KeyId, StackKey)>,
    /// The current step, from 1, if the capture has steps.
    pub step: Option<u64>,
    /// The innermost range.
    pub range: Option<u32>,
    /// See [`EventRow::category`].
    pub category: Option<Category>,
}

/// Makes rows of events. Memory is bounded by the number of distinct stacks.
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
    /// For a capture that was read to its end, or surveyed, as `replay`: the meaning of its events is known only
    /// then.
    pub fn new(replay: &'a Replay, filter: Filter) -> Self {
        Self {
            replay,
            filter,
            known: FxHashMap::default(),
            nobody: Rc::default(),
        }
    }

    /// The row of an event, after the replay of this second reading has applied it; `None` if the event is not
    /// wanted.
    pub fn row(
        &mut self,
        now: &Replay,
        seq: Seq,
        event: &Event,
        effect: Effect,
    ) -> Option<EventRow<'a>> {
        let of = self.numbers(now, seq, event, effect)?;
        let names: &'a Names = &self.replay.names;
        let stacks = of.stacks.map(|(_, stacks)| stacks);
        Some(EventRow {
            seq: of.seq,
            time_ns: of.time_ns,
            kind: kinds::word(of.kind),
            level: of.level.map(Level::name),
            device: of.device,
            ptr: of.ptr,
            bytes: of.bytes,
            live_bytes: of.live_bytes,
            block_seq: of.block_seq,
            thread: of.thread,
            api: names.apis.get(&of.api).map(String::as_str),
            whose: match stacks {
                Some(stacks) => self.known(stacks, of.of_level).whose,
                None => Rc::clone(&self.nobody),
            },
            stacks,
            step: of.step,
            range: of
                .range
                .and_then(|range| names.ranges.get(&range))
                .map(String::as_str),
            category: of.category.map(Category::name),
        })
    }

    /// The same without names. No stack is looked up unless the filter selects by owner.
    pub fn numbers(
        &mut self,
        now: &Replay,
        seq: Seq,
        event: &Event,
        effect: Effect,
    ) -> Option<Numbers> {
        let level = kinds::has_level(event.kind).then_some(event.level);
        let of_block = kinds::is_of_block(event.kind);
        let filter = &self.filter;
        // Roles have no rows: they are shown as the block's category.
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
        let key = match block {
            Some(block) => Some(block.key),
            None if kinds::has_stacks(event.kind) => Some(now.newest_key()),
            None => None,
        };
        let stacks = key.map(|key| (key, now.stacks(key)));
        if !self.filter.select.is_whole() {
            let taken = stacks.is_some_and(|(_, stacks)| self.known(stacks, event.level).taken);
            if !(of_block && taken) {
                return None;
            }
        }
        let mark = event.kind == EventKind::STEP;
        let steps = now.spans.steps.saturating_add(u64::from(!mark));
        let changes = of_block || event.kind == EventKind::RESIZE;
        Some(Numbers {
            seq: seq.0,
            time_ns: event.time.0,
            kind: event.kind,
            of_level: event.level,
            level,
            device: (event.device != DeviceOrdinal::NONE).then_some(event.device.0),
            ptr: event.ptr,
            bytes: event.bytes,
            live_bytes: changes.then(|| now.counters(event.device, event.level).live),
            block_seq: block.map(|block| block.seq.0),
            thread: event.thread.0,
            api: event.api,
            stacks,
            step: (self.replay.spans.steps > 0).then_some(steps),
            range: match kinds::is_mark(event.kind) {
                true => None,
                false => now.range(),
            },
            category: match effect {
                Effect::Gone(_) if event.level == Level::TENSOR => Some(now.newest_ended),
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

pub(super) fn whose(replay: &Replay, stacks: StackKey, owner: &Owner) -> Whose {
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
