//! One row for each event: what tables are made of.

use std::rc::Rc;

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventKind, Level, Seq};
use rustc_hash::FxHashMap;

use super::kinds;
use crate::account::phase_of;
use crate::attribution::{Owner, owner};
use crate::names::Names;
use crate::replay::{Category, Effect, KeyId, Replay, Sizes, StackKey};
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

/// An event's row before its names: all that is known without the capture's definitions.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Its number.
    pub seq: u64,
    /// When: nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// The level that the event names, whether or not its kind has one.
    pub of_level: Level,
    /// At which level, if at one.
    pub level: Option<Level>,
    /// On which device, if on one.
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
    /// The stacks that say whose it is, and their number in the replay.
    pub stacks: Option<(KeyId, StackKey)>,
    /// The step that was under way, from 1, if the capture has steps.
    pub step: Option<u64>,
    /// The innermost range.
    pub range: Option<u32>,
    /// See [`EventRow::category`].
    pub category: Option<Category>,
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
    /// Of a capture that was read to its end, or surveyed, as `replay`: only then is it known what its events mean.
    pub fn new(replay: &'a Replay, filter: Filter) -> Self {
        Self {
            replay,
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

    /// The same without names, for which no stack is looked up unless the filter asks for owners.
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
