//! The state of a replay as bytes: a bounded capture's records of old, in so many words.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Seq, StackId};

use crate::circumstance::Circumstance;
use crate::coded::{Coded, coded};
use crate::ids::{KeyId, StackKey};
use crate::names::Names;
use crate::objects::Objects;
use crate::query::{Moment, Wanted};
use crate::readings::Reading;
use crate::replay::{OutOfMemory, Replay};
use crate::restored::Restored;

/// What stands first; other versions are not read.
const VERSION: u64 = 1;

coded! {
    OutOfMemory { seq, event, circumstance }
}

/// All but what only depends on what is wanted of a replay, and what can be worked out again.
impl Coded for Replay {
    fn put(&self, to: &mut Vec<u8>) {
        VERSION.put(to);
        self.names.put(to);
        self.rows.put(to);
        self.devices.put(to);
        self.keys.put(to);
        self.failures.put(to);
        self.failure_count.put(to);
        self.last.put(to);
        self.last_seq.put(to);
        self.events.put(to);
        self.calls.put(to);
        self.objects.put(to);
        self.course.put(to);
        self.newest.put(to);
        self.threads.put(to);
        self.let_go.put(to);
        self.then.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if u64::take(from)? != VERSION {
            return None;
        }
        let mut replay = Self {
            names: Names::take(from)?,
            rows: Coded::take(from)?,
            devices: Coded::take(from)?,
            keys: Coded::take(from)?,
            failures: Coded::take(from)?,
            failure_count: Coded::take(from)?,
            last: Coded::take(from)?,
            last_seq: Coded::take(from)?,
            events: Coded::take(from)?,
            calls: Coded::take(from)?,
            objects: Objects::take(from)?,
            course: Coded::take(from)?,
            newest: Coded::take(from)?,
            threads: Coded::take(from)?,
            let_go: Coded::take(from)?,
            then: Coded::take(from)?,
            ..Self::default()
        };
        replay.number_keys();
        from.is_empty().then_some(replay)
    }
}

impl Replay {
    /// A replay that keeps what each device's peak had.
    pub(crate) fn keeping() -> Self {
        Self::new(Wanted {
            peaks: true,
            ..Wanted::default()
        })
    }

    /// Takes the state in the place of all records before `seq`.
    pub(crate) fn restore(&mut self, seq: Seq, state: &[u8]) {
        let mut from = state;
        let restored = Self::take(&mut from);
        let is_readable = restored.is_some();
        let before = std::mem::replace(self, restored.unwrap_or_default());
        self.names.symbols = before.names.symbols;
        self.tallied = before.tallied;
        if self.tallied.step.is_some() {
            self.tallied.follow(self.course.steps, seq);
            self.rows.values_mut().for_each(crate::Row::count_anew);
        } else if !self.tallied.all_sizes() {
            let tallied = self.tallied;
            for row in self.rows.values_mut() {
                row.count_anew();
                row.count_live(&tallied);
            }
        }
        self.restored = Some(Restored {
            from: seq,
            steps: self.course.steps,
            last: self.last,
            is_readable,
        });
    }

    /// Whether what is wanted can be told: a state does not say how things stood before its end.
    pub fn can_tell(&self, wanted: Wanted) -> bool {
        let Some(restored) = self.restored else {
            return true;
        };
        let moment = match wanted.moment {
            Moment::At(seq) => Seq(seq.0.saturating_add(1)) >= restored.from,
            Moment::Time(time) => time >= restored.last,
            Moment::Step(step) => step > restored.steps,
            Moment::Peak | Moment::End => true,
        };
        let begun = |step| step > restored.steps.saturating_add(1);
        let sizes = wanted.sizes.are_all() || wanted.moment != Moment::Peak;
        moment && sizes && wanted.step.is_none_or(begun)
    }

    /// Works out the ids of the stacks again.
    pub(crate) fn number_keys(&mut self) {
        let ids = self.keys.iter().zip(0..);
        self.key_ids = ids.map(|(key, id)| (*key, KeyId(id))).collect();
        self.stackless = self.key_ids.get(&StackKey::default()).copied();
    }

    /// A key whose stacks' definitions were let go of stands for others.
    pub(crate) fn without_let_go(&self, key: StackKey) -> StackKey {
        if self.let_go.stacks == 0 {
            return key;
        }
        let py = match self.names.has_python(key.py) {
            true => key.py,
            false => StackId::LET_GO,
        };
        let native = match self.names.has_native(key.native) {
            true => key.native,
            false => StackId::LET_GO,
        };
        if (py, native) == (StackId::LET_GO, StackId::LET_GO) {
            return StackKey::LET_GO;
        }
        StackKey { py, native, ..key }
    }

    /// Objects are about to change: what the peaks had is put aside.
    pub(crate) fn objects_change(&mut self, kind: EventKind) {
        let Some(then) = self.then.as_mut().filter(|_| Objects::changes(kind)) else {
            return;
        };
        for of in then.values_mut().filter(|of| of.objects.is_none()) {
            of.objects = Some(self.objects.clone());
        }
    }

    /// An event made a new peak of a device.
    pub(crate) fn new_peak(&mut self, seq: Seq, device: DeviceOrdinal) {
        let Some(then) = &mut self.then else {
            return;
        };
        let of = then.entry(device).or_default();
        of.objects = None;
        of.after.clear();
        let readings = self.devices.get(&device).map(|device| &device.readings);
        of.before = readings.and_then(|readings| readings.best());
        for level in [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL] {
            if let Some(row) = self.rows.get_mut(&(device, level)) {
                row.device_peak(seq);
            }
        }
    }

    /// A reading came that made no peak.
    pub(crate) fn reading_after(&mut self, event: &Event) {
        let device = self.devices.get(&event.device);
        let newest = device.and_then(|device| Some((device.moment?.0, device.readings.last?)));
        let (Some(then), Some((peak, reading))) = (&mut self.then, newest) else {
            return;
        };
        if let Some(of) = then.get_mut(&event.device).filter(|_| reading.seq > peak) {
            of.reading(reading, event.kind == EventKind::SAMPLE);
        }
    }

    /// A device at its peak, and the readings that followed, each with whether it is a new one. Names and
    /// stacks are not among it: those are this replay's own. `None`: it was not kept, or nothing was held.
    pub fn at_peak_of(&self, device: DeviceOrdinal) -> Option<(Self, &[(Reading, bool)])> {
        let now = self.devices.get(&device)?;
        let (seq, time) = now.moment?;
        let then = self.then.as_ref()?.get(&device)?;
        let at = now.at_peak;
        let mut rows = BTreeMap::new();
        for (level, live) in [
            (Level::TENSOR, at.tensor),
            (Level::DRIVER, at.driver),
            (Level::HOST, at.host),
            (Level::PHYSICAL, at.physical),
        ] {
            if let Some(row) = self.rows.get(&(device, level)) {
                let mut row = row.at_device_peak_row();
                row.counters.live = live;
                rows.insert((device, level), row);
            }
        }
        let mut peak = crate::DevicePeak {
            now: at,
            at_peak: at,
            moment: now.moment,
            circumstance: now.circumstance,
            ..crate::DevicePeak::default()
        };
        peak.readings.last = then.before;
        let replay = Self {
            rows,
            devices: BTreeMap::from([(device, peak)]),
            last: time,
            last_seq: seq,
            objects: then.objects.as_ref().unwrap_or(&self.objects).clone(),
            ..Self::default()
        };
        Some((replay, &then.after))
    }

    /// What the program was at at the newest event: of a device's peak that [`Replay::at_peak_of`] gave,
    /// the peak's.
    pub(crate) fn kept_circumstance(&self) -> Option<Circumstance> {
        let only = self.devices.values().next().filter(|_| self.events == 0)?;
        Some(only.circumstance)
    }
}
