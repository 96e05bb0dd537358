//! The state of a replay as bytes, which replaces the first records of a bounded capture.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Seq, StackId};

use crate::ids::{KeyId, StackKey};
use crate::key_ids::KeyIds;
use crate::later_growth::{Growth, LaterGrowth, concerns};
use crate::names::Names;
use crate::objects::Objects;
use crate::query::{At, Query};
use crate::readings::Reading;
use crate::replay::Replay;
use crate::restored::Restored;
use crate::sampling::{Sampled, Sampling};
use crate::serialize::Serialize;
use crate::span_context::SpanContext;

/// The version, which comes first. Version 1 lacks the growth of contexts and code after the peaks; other versions are
/// rejected.
const VERSION: u64 = 1;

/// Everything except what depends on the query and what can be computed again.
impl Serialize for Replay {
    fn put(&self, to: &mut Vec<u8>) {
        VERSION.put(to);
        self.names.put(to);
        self.levels.put(to);
        self.devices.put(to);
        self.keys.put(to);
        self.failures.put(to);
        self.last.put(to);
        self.last_seq.put(to);
        self.events.put(to);
        self.calls.put(to);
        self.objects.put(to);
        self.spans.put(to);
        self.newest.put(to);
        self.threads.put(to);
        self.evicted.put(to);
        self.peak_snapshots.put(to);
        self.newest_begun.put(to);
        self.categories.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if u64::take(from)? != VERSION {
            return None;
        }
        let mut replay = Self {
            names: Names::take(from)?,
            levels: Serialize::take(from)?,
            devices: Serialize::take(from)?,
            keys: Serialize::take(from)?,
            failures: Serialize::take(from)?,
            last: Serialize::take(from)?,
            last_seq: Serialize::take(from)?,
            events: Serialize::take(from)?,
            calls: Serialize::take(from)?,
            objects: Objects::take(from)?,
            spans: Serialize::take(from)?,
            newest: Serialize::take(from)?,
            threads: Serialize::take(from)?,
            evicted: Serialize::take(from)?,
            peak_snapshots: Serialize::take(from)?,
            newest_begun: Serialize::take(from)?,
            categories: Serialize::take(from)?,
            ..Self::default()
        };
        replay.sampling = Sampling::of(&replay.names);
        replay.number_keys();
        from.is_empty().then_some(replay)
    }
}

impl Replay {
    /// A replay that keeps each device's peak.
    pub(crate) fn keeping() -> Self {
        Self::new(Query::keeping_peaks())
    }

    /// Replaces all records before `seq` by the state.
    pub(crate) fn restore(&mut self, seq: Seq, state: &[u8]) {
        let mut from = state;
        let restored = Self::take(&mut from);
        let is_readable = restored.is_some();
        let before = std::mem::replace(self, restored.unwrap_or_default());
        self.names.symbols = before.names.symbols;
        self.window = before.window;
        self.no_categories = before.no_categories;
        self.trained_until = before.trained_until;
        if self.window.step.is_some() {
            self.window.follow(self.spans.steps, seq);
            self.levels
                .values_mut()
                .for_each(crate::LevelState::count_anew);
        } else if !self.window.all_sizes() {
            let window = self.window;
            let sampled = Sampled::new(self.sampling, &self.keys);
            for ((_, level), state) in &mut self.levels {
                state.count_anew();
                state.count_live(&window, sampled.at(*level));
            }
        }
        self.work_out_facts();
        self.restored = Some(Restored {
            from: seq,
            steps: self.spans.steps,
            last: self.last,
            is_readable,
        });
    }

    /// Whether a query can be answered: a state does not show what was live before its end.
    pub fn can_answer(&self, query: Query) -> bool {
        let Some(restored) = self.restored else {
            return true;
        };
        let moment = match query.moment {
            At::Event(seq) => Seq(seq.0.saturating_add(1)) >= restored.from,
            At::Time(time) => time >= restored.last,
            At::Step(step) => step > restored.steps,
            At::Peak | At::End | At::Failure => true,
        };
        let begun = |step| step > restored.steps.saturating_add(1);
        let sizes = query.sizes.are_all() || query.moment != At::Peak;
        moment && sizes && query.step.is_none_or(begun)
    }

    /// Computes the ids of the stacks again.
    pub(crate) fn number_keys(&mut self) {
        self.key_ids = KeyIds::of(&self.keys);
        self.stackless = self.key_ids.get(&StackKey::default());
    }

    /// The key with evicted stacks replaced by the one that stands for them.
    pub(crate) fn without_evicted(&self, key: StackKey) -> StackKey {
        if self.evicted.stacks == 0 {
            return key;
        }
        let py = match self.names.has_python(key.py) {
            true => key.py,
            false => StackId::EVICTED,
        };
        let native = match self.names.has_native(key.native) {
            true => key.native,
            false => StackId::EVICTED,
        };
        if (py, native) == (StackId::EVICTED, StackId::EVICTED) {
            return StackKey::EVICTED;
        }
        StackKey { py, native, ..key }
    }

    /// Objects are about to change; those of the peaks are copied.
    pub(crate) fn objects_change(&mut self, kind: EventKind) {
        let Some(snapshots) = self
            .peak_snapshots
            .as_mut()
            .filter(|_| Objects::changes(kind))
        else {
            return;
        };
        for of in snapshots.values_mut().filter(|of| of.objects.is_none()) {
            of.objects = Some(self.objects.clone());
        }
    }

    /// An event made a new peak of a device.
    pub(crate) fn new_peak(&mut self, seq: Seq, device: DeviceOrdinal) {
        let Some(snapshots) = &mut self.peak_snapshots else {
            return;
        };
        let of = snapshots.entry(device).or_default();
        of.objects = None;
        of.after.clear();
        of.later = LaterGrowth::default();
        of.newest_begun = self.newest_begun;
        let readings = self.devices.get(&device).map(|device| &device.readings);
        of.before = readings.and_then(|readings| readings.best());
        for level in [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL] {
            if let Some(state) = self.levels.get_mut(&(device, level)) {
                state.device_peak(seq);
            }
        }
    }

    /// Takes in a reading that is no new peak.
    pub(crate) fn reading_after(&mut self, event: &Event) {
        let device = self.devices.get(&event.device);
        let newest = device.and_then(|device| Some((device.moment?.0, device.readings.last?)));
        let (Some(snapshots), Some((peak, reading))) = (&mut self.peak_snapshots, newest) else {
            return;
        };
        if let Some(of) = snapshots
            .get_mut(&event.device)
            .filter(|_| reading.seq > peak)
        {
            of.reading(reading, event.kind == EventKind::SAMPLE);
        }
    }

    /// Takes in an event that is no reading, for the growth of contexts and modules after the peaks.
    pub(crate) fn growth_after(&mut self, seq: Seq, event: &Event, key: KeyId) {
        for (device, of) in self.peak_snapshots.iter_mut().flatten() {
            let concerned = event.kind != EventKind::RESIZE || *device == event.device;
            if concerned && of.is_open() {
                of.later.event(seq, event, key, &self.objects);
            }
        }
    }

    /// Takes in an event after a moment, right after it was fed.
    pub fn follow_growth(&self, later: &mut LaterGrowth, seq: Seq, event: &Event) {
        if let Some((key, _)) = self.newest.filter(|_| concerns(event)) {
            later.event(seq, event, key, &self.objects);
        }
    }

    /// The growth of contexts and modules after the device's peak, if it was kept.
    pub fn growth_after_peak_of(&self, device: DeviceOrdinal) -> &[Growth] {
        let snapshot = self
            .peak_snapshots
            .as_ref()
            .and_then(|all| all.get(&device));
        snapshot.map_or(&[], |of| of.later.all())
    }

    /// A device at its peak, and the readings that followed, each with whether it is a new one. The returned replay has
    /// no names and stacks; use those of `self`. `None` if the peak was not kept or nothing was held.
    pub fn at_peak_of(&self, device: DeviceOrdinal) -> Option<(Self, &[(Reading, bool)])> {
        let now = self.devices.get(&device)?;
        let (seq, time) = now.moment?;
        let snapshot = self.peak_snapshots.as_ref()?.get(&device)?;
        let at = now.at_peak;
        let mut levels = BTreeMap::new();
        for (level, live) in [
            (Level::TENSOR, at.tensor),
            (Level::DRIVER, at.driver),
            (Level::HOST, at.host),
            (Level::PHYSICAL, at.physical),
        ] {
            if let Some(state) = self.levels.get(&(device, level)) {
                let mut state = state.at_device_peak_state();
                state.counters.live = live;
                levels.insert((device, level), state);
            }
        }
        let mut peak = crate::DevicePeak {
            now: at,
            at_peak: at,
            moment: now.moment,
            span_context: now.span_context,
            ..crate::DevicePeak::default()
        };
        peak.readings.last = snapshot.before;
        let replay = Self {
            levels,
            devices: BTreeMap::from([(device, peak)]),
            last: time,
            last_seq: seq,
            newest_begun: snapshot.newest_begun,
            objects: snapshot.objects.as_ref().unwrap_or(&self.objects).clone(),
            ..Self::default()
        };
        Some((replay, &snapshot.after))
    }

    /// The span context of the newest event.
    pub fn span_context(&self) -> SpanContext {
        if let Some(kept) = self.kept_span_context() {
            return kept;
        }
        let (key, thread) = self.newest.unwrap_or_default();
        SpanContext::at(&self.names, &self.spans, self.stacks(key), thread)
    }

    /// The key of the newest event that was not a mark.
    pub fn newest_key(&self) -> KeyId {
        self.newest.unwrap_or_default().0
    }

    /// The innermost range at the newest event that was not a mark.
    pub fn range(&self) -> Option<u32> {
        match self.events > 0 && !self.spans.has_ranges {
            true => None,
            false => self.span_context().range,
        }
    }

    /// The span context of the newest event; for a device's peak from [`Replay::at_peak_of`], that of the peak.
    fn kept_span_context(&self) -> Option<SpanContext> {
        let only = self.devices.values().next().filter(|_| self.events == 0)?;
        Some(only.span_context)
    }
}
