//! The state after the records read so far.

use std::collections::BTreeMap;

use gpumem_capture::{
    ApiId, CounterValues, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos,
    Record, Seq, StackId, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::library;
use crate::block::{Block, Made};
use crate::categories::Categories;
use crate::category::Category;
use crate::device::DevicePeak;
use crate::failures::Failures;
use crate::ids::{Caller, KeyId, StackKey};
use crate::key_ids::KeyIds;
use crate::later_growth::concerns;
use crate::level_state::{Effect, LevelState};
use crate::names::Names;
use crate::objects::Objects;
use crate::peak_snapshot::DevicePeakSnapshot;
use crate::purpose::Purpose;
use crate::query::{At, Query};
use crate::restored::{Evicted, Restored};
use crate::sampling::{Sampled, Sampling};
use crate::span_context::SpanContext;
use crate::spans::Spans;
use crate::window::Window;

/// The state after the events read so far.
#[derive(Debug, Default)]
pub struct Replay {
    /// Definitions.
    pub names: Names,
    /// Every level of every device that had an event.
    pub levels: BTreeMap<(DeviceOrdinal, Level), LevelState>,
    /// Every device that had an event.
    pub devices: BTreeMap<DeviceOrdinal, DevicePeak>,
    /// Distinct pairs of stacks.
    pub keys: Vec<StackKey>,
    /// Allocations that failed with an out-of-memory error.
    pub failures: Failures,
    /// Time of the last event.
    pub last: Nanos,
    /// Number of the last event.
    pub last_seq: Seq,
    /// Events fed.
    pub events: u64,
    /// Events below the tensor level by the function that was called, without NVML readings.
    pub calls: FxHashMap<ApiId, u64>,
    /// The mappings, address space, loads and contexts that exist now.
    pub objects: Objects,
    /// The newest start of a context or module.
    pub newest_begun: Option<Seq>,
    /// Phases, ranges and steps.
    pub spans: Spans,
    /// How stacks were sampled, if they were; figures by stack are then estimates.
    pub sampling: Option<Sampling>,
    /// The state for the categories of tensor blocks.
    pub(crate) categories: Categories,
    /// See [`Query::no_categories`].
    pub(crate) no_categories: bool,
    /// The category of the newest block that ended.
    pub newest_ended: Category,
    /// The last event of a training, if the recorder stored it.
    pub(crate) trained_until: Option<Seq>,
    pub(crate) window: Window,
    /// The newest event that was not a mark: its stacks and its thread.
    pub(crate) newest: Option<(KeyId, ThreadId)>,
    pub(crate) key_ids: KeyIds,
    /// The id of the key without stacks, once there is one.
    pub(crate) stackless: Option<KeyId>,
    pub(crate) threads: FxHashSet<ThreadId>,
    /// The evicted entries, if the state has a limit.
    pub evicted: Evicted,
    /// Set if the capture's first records were replaced by a state.
    pub restored: Option<Restored>,
    /// Each device's peak, if the query requests it.
    pub(crate) peak_snapshots: Option<BTreeMap<DeviceOrdinal, DevicePeakSnapshot>>,
    /// The counters before a queried record.
    pub(crate) counted: CountersAt,
}

/// The counters of all levels at one position in the order of records.
#[derive(Debug, Default)]
pub(crate) enum CountersAt {
    /// No counters are requested.
    #[default]
    Unwanted,
    /// No record at or after the position was read yet.
    Before(Seq),
    /// The position is before the first record that the capture still has.
    Unknown,
    Found(BTreeMap<(DeviceOrdinal, Level), CounterValues>),
}

impl Replay {
    /// An empty state. Figures by stack stop at the query's point in time if that is an event.
    pub fn new(query: impl Into<Query>) -> Self {
        let query = query.into();
        Self {
            window: Window::new(query),
            no_categories: query.no_categories,
            peak_snapshots: query.peaks.then(BTreeMap::new),
            ..Self::default()
        }
    }

    /// Makes room for the live blocks of a level that has some.
    pub fn reserve(&mut self, device: DeviceOrdinal, level: Level, blocks: usize) {
        let level = self.levels.entry((device, level)).or_default();
        level.blocks.reserve(blocks);
    }

    /// Sets the last event of the training. Later events count as after it.
    pub fn set_trained_until(&mut self, last: Option<Seq>) {
        self.trained_until = last;
    }

    /// Whether a module was called.
    pub fn has_modules(&self) -> bool {
        self.categories.has_modules
    }

    /// Takes in a record; returns how an event changed the live blocks.
    pub fn feed(&mut self, record: Record<'_>) -> Effect {
        match record {
            Record::State(seq, state) => {
                self.restore(seq, state);
                if matches!(self.counted, CountersAt::Before(at) if at < seq) {
                    self.counted = CountersAt::Unknown;
                }
                Effect::None
            }
            Record::Event(seq, event) => {
                if matches!(self.counted, CountersAt::Before(at) if seq >= at) {
                    self.keep_counters();
                }
                self.event(seq, event)
            }
            Record::Definition(_, definition) => {
                self.names.define(definition);
                if matches!(definition, Definition::Process { .. }) {
                    self.sampling = Sampling::of(&self.names);
                }
                Effect::None
            }
        }
    }

    fn event(&mut self, seq: Seq, event: &Event) -> Effect {
        self.events += 1;
        self.window.pass(seq, event.time);
        self.last = self.last.max(event.time);
        self.last_seq = self.last_seq.max(seq);
        if self.newest.is_none_or(|(_, thread)| thread != event.thread) {
            self.threads.insert(event.thread);
        }
        if self.spans.mark(event) {
            self.categories.mark(event);
            self.window.follow(self.spans.steps, seq);
            return Effect::None;
        }
        let key = StackKey {
            py: event.py_stack,
            native: event.native_stack,
            caller: self.caller(event),
            purpose: self.purpose(event),
        };
        let mut made = Made {
            key: self.key(key),
            ..Made::default()
        };
        if event.level == Level::TENSOR {
            match event.kind {
                EventKind::ROLE if self.no_categories => return Effect::None,
                _ if self.no_categories => {}
                EventKind::ALLOC => made = self.tensor_made(made.key, event),
                EventKind::FREE => self.tensor_ends(event),
                EventKind::ROLE => {
                    self.tensor_has_role(event);
                    return Effect::None;
                }
                EventKind::OUT_OF_MEMORY => self.settle_categories(),
                _ => {}
            }
        }
        let key = made.key;
        self.newest = Some((key, event.thread));
        if event.kind == EventKind::OUT_OF_MEMORY {
            let span_context = self.span_context();
            self.failures.failed(seq, event, span_context);
        } else if self.failures.are_undecided()
            && (event.kind, event.level) == (EventKind::ALLOC, Level::TENSOR)
        {
            self.failures.made(event);
        }
        let reading = matches!(event.kind, EventKind::SAMPLE | EventKind::CARD);
        if !reading && event.level != Level::TENSOR {
            *self.calls.entry(event.api).or_default() += 1;
        }
        if !matches!(event.kind, EventKind::ALLOC | EventKind::FREE) {
            self.objects_change(event.kind);
            self.objects.update(event, key, &self.names);
            if matches!(event.kind, EventKind::CONTEXT | EventKind::MODULE_LOAD) {
                self.newest_begun = Some(seq);
            }
        }
        let device = self.devices.entry(event.device).or_default();
        let mut effect = Effect::None;
        if matches!(
            event.kind,
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL | EventKind::RESIZE
        ) {
            let state = self.levels.entry((event.device, event.level)).or_default();
            let sampled = Sampled::new(self.sampling, &self.keys).at(event.level);
            effect = state.apply(seq, event, made, device.clock, &self.window, sampled);
            let now = &mut device.now;
            match event.level {
                Level::TENSOR => now.tensor = state.counters.live,
                Level::DRIVER => now.driver = state.counters.live,
                Level::HOST => now.host = state.counters.live,
                Level::PHYSICAL => now.physical = state.counters.live,
                _ => {}
            }
            let managed = |block: Block| {
                let counts = event.level == Level::DRIVER;
                if counts && block.flags.contains(EventFlags::MANAGED) {
                    block.bytes
                } else {
                    0
                }
            };
            match effect {
                Effect::Live(block) => now.managed = now.managed.saturating_add(managed(block)),
                Effect::Gone(block) => now.managed = now.managed.saturating_sub(managed(block)),
                Effect::None => {}
            }
            if let Effect::Gone(block) = effect
                && event.level != Level::TENSOR
            {
                let stacks = self.keys[block.key.0 as usize];
                self.newest_ended = stacks.purpose.category();
                if event.level == Level::DRIVER {
                    device.gives_back(block, || library(&self.names, stacks, event.level));
                }
            }
        }
        if device.update(seq, event, key, self.window.at(seq)) {
            let stacks = self.keys[key.0 as usize];
            device.span_context = SpanContext::at(&self.names, &self.spans, stacks, event.thread);
            self.new_peak(seq, event.device);
        } else if reading && self.peak_snapshots.is_some() {
            self.reading_after(event);
        } else if concerns(event) {
            self.growth_after(seq, event, key);
        }
        if event.level != Level::TENSOR || self.no_categories {
            return effect;
        }
        match effect {
            Effect::Live(block) if event.kind == EventKind::ALLOC => Effect::Live(Block {
                key: made.base,
                ..block
            }),
            Effect::Live(block) => Effect::Live(self.of_all_categories(block)),
            Effect::Gone(block) => {
                self.newest_ended = self.category(block);
                Effect::Gone(self.of_all_categories(block))
            }
            Effect::None => Effect::None,
        }
    }

    /// The purpose of an event.
    fn purpose(&mut self, event: &Event) -> Purpose {
        match event.kind {
            EventKind::FREE
            | EventKind::SAMPLE
            | EventKind::CARD
            | EventKind::ROLE
            | EventKind::ALLOCATOR => Purpose::default(),
            _ => {
                let python = event.py_stack != StackId::NONE;
                let workspace =
                    event.flags.contains(EventFlags::WORKSPACE) && event.level == Level::TENSOR;
                let purpose = Purpose::new(self.spans.phase(event.thread, python), workspace);
                let purpose = match self.trained_until {
                    Some(last) if self.last_seq > last => purpose.after_training(),
                    _ => purpose,
                };
                match event.flags.contains(EventFlags::NO_GRAD) {
                    true => purpose.no_grad(),
                    false => purpose,
                }
            }
        }
    }

    /// The module that made an event's call, if the event has it.
    fn caller(&self, event: &Event) -> Caller {
        let says = match event.kind {
            EventKind::ALLOC => event.level == Level::DRIVER || event.level == Level::HOST,
            EventKind::CONTEXT | EventKind::MODULE_LOAD => true,
            _ => false,
        };
        let address = if says { event.aux } else { 0 };
        Caller::of(
            address
                .checked_sub(1)
                .and_then(|call| self.names.module_at(call)),
        )
    }

    pub(crate) fn key(&mut self, key: StackKey) -> KeyId {
        // Frees usually have no stacks.
        if key == StackKey::default() {
            if let Some(id) = self.stackless {
                return id;
            }
            self.stackless = Some(KeyId(self.keys.len() as u32));
        }
        self.key_ids
            .again(&key, &self.keys)
            .unwrap_or_else(|| self.new_key(key))
    }

    #[cold]
    fn new_key(&mut self, key: StackKey) -> KeyId {
        let key = self.without_evicted(key);
        let next = KeyId(self.keys.len() as u32);
        let id = self.key_ids.get_or_insert(key, next);
        if id == next {
            self.keys.push(key);
        }
        id
    }

    /// The stacks that an id stands for.
    pub fn stacks(&self, key: KeyId) -> StackKey {
        self.keys.get(key.0 as usize).copied().unwrap_or_default()
    }

    /// Threads that recorded an event.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// A level's figures; zeros if it had no event.
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        self.levels
            .get(&(device, level))
            .map(|state| state.counters)
            .unwrap_or_default()
    }

    /// The last event that counts for the figures by stack, if it is before the end. For a time or a step, this is the
    /// event found for it.
    pub fn until(&self) -> Option<Seq> {
        self.window.until()
    }

    /// Whether the figures by stack include blocks of all sizes.
    pub fn tells_all_sizes(&self) -> bool {
        self.window.all_sizes()
    }

    /// A level's own figure at a point in time, or that of the queried step. The figures by stack add up to it if the
    /// query includes blocks of all sizes.
    pub fn total(&self, device: DeviceOrdinal, level: Level, moment: At) -> u64 {
        let Some(state) = self.levels.get(&(device, level)) else {
            return 0;
        };
        match moment {
            At::Peak if self.window.step.is_some() => state.made_peak,
            _ if self.window.step.is_some() => state.made_live,
            At::Peak => state.counters.peak,
            At::End => state.counters.live,
            At::Event(_) | At::Failure | At::Time(_) | At::Step(_) => state.live_at_moment,
        }
    }
}
