//! The state after the records read so far.

use std::collections::BTreeMap;

use gpumem_capture::{
    ApiId, CounterValues, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, Record, Seq,
    StackId, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::block::Block;
use crate::circumstance::Circumstance;
use crate::course::{Course, Work};
use crate::device::DevicePeak;
use crate::ids::{Caller, KeyId, StackKey};
use crate::names::Names;
use crate::objects::Objects;
use crate::query::{Moment, Wanted};
use crate::restored::{LetGo, Restored};
use crate::row::{Effect, Row};
use crate::tallied::Tallied;
use crate::tally::Figure;
use crate::then::DeviceThen;

/// An allocation that failed for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Which event.
    pub seq: Seq,
    /// The event itself: see [`EventKind::OUT_OF_MEMORY`].
    pub event: Event,
    /// What the program was at.
    pub circumstance: Circumstance,
}

/// How many failures are kept in full; all are counted.
const FAILURES_KEPT: usize = 100;

/// The state after the events read so far.
#[derive(Debug, Default)]
pub struct Replay {
    /// Definitions.
    pub names: Names,
    /// Every level of every device that had an event.
    pub rows: BTreeMap<(DeviceOrdinal, Level), Row>,
    /// Every device that had an event.
    pub devices: BTreeMap<DeviceOrdinal, DevicePeak>,
    /// Distinct pairs of stacks.
    pub keys: Vec<StackKey>,
    /// The first failures.
    pub failures: Vec<OutOfMemory>,
    /// All failures.
    pub failure_count: u64,
    /// Time of the last event.
    pub last: Nanos,
    /// Number of the last event.
    pub last_seq: Seq,
    /// Events fed.
    pub events: u64,
    /// Events below the tensor level by the function that was called, readings of NVML left out.
    pub calls: FxHashMap<ApiId, u64>,
    /// Mappings, address space, loads and contexts there are now.
    pub objects: Objects,
    /// Phases, ranges and steps.
    pub course: Course,
    pub(crate) tallied: Tallied,
    /// The newest event that was not a mark: its stacks and its thread.
    pub(crate) newest: Option<(KeyId, ThreadId)>,
    pub(crate) key_ids: FxHashMap<StackKey, KeyId>,
    /// The id of no stacks at all, once there is one.
    pub(crate) stackless: Option<KeyId>,
    pub(crate) threads: FxHashSet<ThreadId>,
    /// What was let go of, where the state has a limit.
    pub let_go: LetGo,
    /// If the first records came as a state.
    pub restored: Option<Restored>,
    /// Where it is wanted: what each device's peak had.
    pub(crate) then: Option<BTreeMap<DeviceOrdinal, DeviceThen>>,
    /// The counters before the record that they are wanted at.
    pub(crate) counted: CountersAt,
}

/// The counters of all rows as of one place in the order of records.
#[derive(Debug, Default)]
pub(crate) enum CountersAt {
    /// They are not wanted.
    #[default]
    Unwanted,
    /// No record from there on was seen yet.
    Before(Seq),
    /// The place lies before the first record that is known as itself.
    Unknown,
    Found(BTreeMap<(DeviceOrdinal, Level), CounterValues>),
}

impl Replay {
    /// An empty state. Figures by stack stop at the wanted moment if that is an event.
    pub fn new(wanted: impl Into<Wanted>) -> Self {
        let wanted = wanted.into();
        Self {
            tallied: Tallied::new(wanted),
            then: wanted.peaks.then(BTreeMap::new),
            ..Self::default()
        }
    }

    /// Has the counters as they are before the record `seq` kept for [`Replay::counters_compared`].
    pub fn compare_counters_at(&mut self, seq: Seq) {
        self.counted = CountersAt::Before(seq);
    }

    /// The counters of a device and level before the record that they were wanted at, which may be the end. None: they
    /// were not wanted, or that is not known any more.
    pub fn counters_compared(&self, device: DeviceOrdinal, level: Level) -> Option<CounterValues> {
        match &self.counted {
            CountersAt::Unwanted | CountersAt::Unknown => None,
            CountersAt::Before(_) => Some(self.counters(device, level)),
            CountersAt::Found(rows) => {
                Some(rows.get(&(device, level)).copied().unwrap_or_default())
            }
        }
    }

    #[cold]
    fn keep_counters(&mut self) {
        let rows = self.rows.iter().map(|(place, row)| (*place, row.counters));
        self.counted = CountersAt::Found(rows.collect());
    }

    /// Takes in a record; says what an event did to the live blocks.
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
                Effect::None
            }
        }
    }

    fn event(&mut self, seq: Seq, event: &Event) -> Effect {
        self.events += 1;
        self.tallied.pass(seq, event.time);
        self.last = self.last.max(event.time);
        self.last_seq = self.last_seq.max(seq);
        if self.newest.is_none_or(|(_, thread)| thread != event.thread) {
            self.threads.insert(event.thread);
        }
        if self.course.mark(event) {
            self.tallied.follow(self.course.steps, seq);
            return Effect::None;
        }
        let key = StackKey {
            py: event.py_stack,
            native: event.native_stack,
            caller: self.caller(event),
            work: self.work(event),
        };
        let key = self.key(key);
        self.newest = Some((key, event.thread));
        if event.kind == EventKind::OUT_OF_MEMORY {
            self.failure_count += 1;
            if self.failures.len() < FAILURES_KEPT {
                let (event, circumstance) = (*event, self.circumstance());
                self.failures.push(OutOfMemory {
                    seq,
                    event,
                    circumstance,
                });
            }
        }
        let reading = matches!(event.kind, EventKind::SAMPLE | EventKind::CARD);
        if !reading && event.level != Level::TENSOR {
            *self.calls.entry(event.api).or_default() += 1;
        }
        if !matches!(event.kind, EventKind::ALLOC | EventKind::FREE) {
            self.objects_change(event.kind);
            self.objects.update(event, key, &self.names);
        }
        let device = self.devices.entry(event.device).or_default();
        let mut effect = Effect::None;
        if matches!(
            event.kind,
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL | EventKind::RESIZE
        ) {
            let row = self.rows.entry((event.device, event.level)).or_default();
            effect = row.apply(seq, event, key, device.clock, &self.tallied);
            let now = &mut device.now;
            match event.level {
                Level::TENSOR => now.tensor = row.counters.live,
                Level::DRIVER => now.driver = row.counters.live,
                Level::HOST => now.host = row.counters.live,
                Level::PHYSICAL => now.physical = row.counters.live,
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
        }
        if device.update(seq, event, key, self.tallied.at(seq)) {
            let stacks = self.keys[key.0 as usize];
            device.circumstance = Circumstance::at(&self.names, &self.course, stacks, event.thread);
            self.new_peak(seq, event.device);
        } else if reading && self.then.is_some() {
            self.reading_after(event);
        }
        effect
    }

    /// What an event was for.
    fn work(&mut self, event: &Event) -> Work {
        match event.kind {
            EventKind::FREE | EventKind::SAMPLE | EventKind::CARD => Work::default(),
            _ => {
                let python = event.py_stack != StackId::NONE;
                let workspace =
                    event.flags.contains(EventFlags::WORKSPACE) && event.level == Level::TENSOR;
                Work::new(self.course.stage(event.thread, python), workspace)
            }
        }
    }

    /// The module that made an event's call, where the event says.
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

    fn key(&mut self, key: StackKey) -> KeyId {
        // Frees mostly have no stacks.
        if key == StackKey::default() {
            if let Some(id) = self.stackless {
                return id;
            }
            self.stackless = Some(KeyId(self.keys.len() as u32));
        }
        if let Some(id) = self.key_ids.get(&key) {
            return *id;
        }
        let key = self.without_let_go(key);
        *self.key_ids.entry(key).or_insert_with(|| {
            self.keys.push(key);
            KeyId(self.keys.len() as u32 - 1)
        })
    }

    /// The stacks that an id stands for.
    pub fn stacks(&self, key: KeyId) -> StackKey {
        self.keys.get(key.0 as usize).copied().unwrap_or_default()
    }

    /// Threads that recorded an event.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// A level's figures; zeros where it had no event.
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        self.rows
            .get(&(device, level))
            .map(|row| row.counters)
            .unwrap_or_default()
    }

    /// Figures by stack of a level at a moment, zeros left out, in no particular order.
    pub fn figures(
        &self,
        device: DeviceOrdinal,
        level: Level,
        moment: Moment,
    ) -> Vec<(StackKey, Figure)> {
        let Some(row) = self.rows.get(&(device, level)) else {
            return Vec::new();
        };
        match moment {
            Moment::Peak => self.named(row.at_peak()),
            _ => self.named(row.live()),
        }
    }

    /// Figures by stack of a level at the device's peak (see [`DevicePeak`]), zeros left out.
    pub fn figures_at_device_peak(
        &self,
        device: DeviceOrdinal,
        level: Level,
    ) -> Vec<(StackKey, Figure)> {
        let clock = self
            .devices
            .get(&device)
            .map(|device| device.clock)
            .unwrap_or_default();
        self.rows
            .get(&(device, level))
            .map(|row| self.named(row.at_device_peak(clock)))
            .unwrap_or_default()
    }

    fn named(&self, figures: impl Iterator<Item = (KeyId, Figure)>) -> Vec<(StackKey, Figure)> {
        figures
            .filter(|(_, figure)| figure.blocks > 0 || figure.bytes > 0)
            .map(|(key, figure)| (self.stacks(key), figure))
            .collect()
    }

    /// The last event that counts for the figures by stack, where the moment is one before the end: of a
    /// time or a step, the one that it turned out to be.
    pub fn until(&self) -> Option<Seq> {
        self.tallied.until()
    }

    /// Whether blocks of all sizes are among the figures by stack.
    pub fn tells_all_sizes(&self) -> bool {
        self.tallied.all_sizes()
    }

    /// A level's own figure at a moment, or a wanted step's: what the figures by stack must sum to, if
    /// blocks of all sizes are wanted.
    pub fn total(&self, device: DeviceOrdinal, level: Level, moment: Moment) -> u64 {
        let Some(row) = self.rows.get(&(device, level)) else {
            return 0;
        };
        match moment {
            Moment::Peak if self.tallied.step.is_some() => row.made_peak,
            _ if self.tallied.step.is_some() => row.made_live,
            Moment::Peak => row.counters.peak,
            Moment::End => row.counters.live,
            Moment::At(_) | Moment::Time(_) | Moment::Step(_) => row.live_at_moment,
        }
    }
}

impl Replay {
    /// The circumstance of the newest event.
    pub fn circumstance(&self) -> Circumstance {
        if let Some(kept) = self.kept_circumstance() {
            return kept;
        }
        let (key, thread) = self.newest.unwrap_or_default();
        Circumstance::at(&self.names, &self.course, self.stacks(key), thread)
    }
}
