//! The points in time of ledgers. The peaks of devices and the end are known after the first pass. Others need a
//! second pass, because the live blocks can be collected only when the event is known.

use std::collections::BTreeMap;
use std::iter;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq};

use super::Ledger;
use super::asked::{Asked, LedgerAt};
use super::categories;
use super::parts::{Parts, PieceId, Whole};
use crate::replay::{Effect, LaterGrowth, Reading, Replay};
use crate::watch::Watch;

/// How many readings after the point in time are considered to find one during which nothing moved.
const TRIES: u32 = 16;

/// The levels of device memory.
const LEVELS: [Level; 3] = [Level::TENSOR, Level::DRIVER, Level::PHYSICAL];

/// A device whose ledger is being computed.
struct Wanted {
    /// The event of the point in time.
    until: Seq,
    /// Its time, if it is already known.
    time: Option<Nanos>,
    whole: Whole,
    parts: Option<Parts>,
    after: Option<Reading>,
    tries: u32,
    /// Whether something moved during the first of these readings.
    moving: bool,
    /// Whether the first reading kept the point in time.
    kept: bool,
    /// The growth of contexts and modules after the point in time, and the part that is in `grown`.
    later: LaterGrowth,
    grown: Vec<(Seq, PieceId, u64)>,
}

impl Wanted {
    /// Considers a reading after the point in time: the first one during which nothing moved is used, or the first
    /// one.
    fn reading(&mut self, reading: Reading, fresh: bool) {
        self.tries += u32::from(fresh);
        self.moving |= self.tries == 1 && reading.estimated;
        let better = match self.after {
            None => true,
            Some(had) if had.seq == reading.seq => true,
            Some(had) => fresh && had.estimated && !reading.estimated && self.tries <= TRIES,
        };
        if better {
            self.after = Some(reading);
        }
    }

    /// Adds the bytes of contexts and code from the reading after the point in time. No call reports these bytes, so
    /// a context or module may have none until then. Returns that reading's time, if it added anything. If the
    /// physical level has not changed since the reading before, and no context or module began since, the reading
    /// before is already right.
    fn take_growth(&mut self) -> Option<Nanos> {
        let after = self.after?;
        let parts = self.parts.as_mut()?;
        let before = parts.before.filter(|before| !before.estimated);
        let same = before.is_some_and(|before| before.physical == parts.physical);
        if same && !parts.begun_since {
            return None;
        }
        let mut time = None;
        for (_, id, bytes) in self.grown.drain(..).filter(|(seq, ..)| *seq < after.seq) {
            parts.add_growth(id, bytes);
            time = Some(after.time);
        }
        time
    }

    /// The reading for the point in time. Readings are recorded only when they differ from the last one. So if the
    /// physical level has not changed since the last reading before, this one is used. Otherwise it is the one after,
    /// unless something moved during the first of those and the last good one before is nearer.
    fn belongs(&self) -> Option<Reading> {
        let parts = self.parts.as_ref()?;
        let before = parts.before.filter(|before| !before.estimated);
        let Some(after) = self.after else {
            return parts.before;
        };
        if before.is_some_and(|before| before.physical == parts.physical) {
            return before;
        }
        let apart = |reading: Reading| reading.time.0.abs_diff(parts.time.0);
        let nearer = parts
            .before
            .filter(|before| self.moving && !before.estimated && apart(*before) < apart(after));
        Some(nearer.unwrap_or(after))
    }
}

/// Follows a second pass for ledgers.
pub struct LedgerWatch<'a> {
    /// The first pass.
    first: &'a Replay,
    asked: Asked,
    wanted: BTreeMap<DeviceOrdinal, Wanted>,
    /// Whether the first pass did not keep one of the points in time.
    needs_pass: bool,
}

impl<'a> LedgerWatch<'a> {
    /// The ledgers of a capture that was read to its end as `first`.
    pub fn new(first: &'a Replay, asked: Asked) -> Self {
        let mut wanted = wanted(first, asked);
        take_kept(first, &mut wanted, asked);
        Self {
            first,
            asked,
            needs_pass: wanted.values().any(|wanted| wanted.parts.is_none()),
            wanted,
        }
    }

    /// Whether a second pass is needed.
    pub fn needs_pass(&self) -> bool {
        self.needs_pass
    }

    /// The ledgers; `last` is the second pass, which may have been needed for something else.
    pub fn finish(mut self, last: Option<&Replay>) -> Vec<Ledger> {
        if let (Some(last), true) = (last, self.needs_pass) {
            settle(last, &mut self.wanted, None);
        }
        ledgers(self.wanted, (self.first, last), self.asked)
    }
}

impl Watch for LedgerWatch<'_> {
    fn before(&mut self, replay: &Replay, record: &Record<'_>) {
        if let (Record::Event(seq, _), true) = (record, self.needs_pass) {
            settle(replay, &mut self.wanted, Some(*seq));
        }
    }

    fn after(&mut self, replay: &Replay, record: Record<'_>, _: Effect) {
        if let (Record::Event(seq, event), true) = (record, self.needs_pass) {
            feed(replay, &mut self.wanted, seq, event);
        }
    }
}

fn ledgers(
    wanted: BTreeMap<DeviceOrdinal, Wanted>,
    (first, last): (&Replay, Option<&Replay>),
    asked: Asked,
) -> Vec<Ledger> {
    let build = |(device, mut wanted): (DeviceOrdinal, Wanted)| {
        let grown_at = wanted.take_growth();
        let reading = wanted.belongs();
        let parts = wanted.parts.take()?;
        let facts = (first, &wanted.whole);
        let mut ledger = Ledger::new(parts, reading, asked.at, asked.by, facts, device);
        ledger.contexts_and_code_ns = grown_at.map(|time| time.0);
        let of = |replay| categories::of(replay, &ledger);
        let mut passes = iter::once(first).chain(last).map(of);
        let categories = passes.find(|categories| !categories.is_empty());
        ledger.categories = categories.unwrap_or_default();
        Some(ledger)
    };
    wanted.into_iter().filter_map(build).collect()
}

/// Takes the devices at the end, or at their peaks if the first reading kept these.
fn take_kept(first: &Replay, wanted: &mut BTreeMap<DeviceOrdinal, Wanted>, asked: Asked) {
    match asked.at {
        LedgerAt::End => return settle(first, wanted, None),
        LedgerAt::Peak => {}
        LedgerAt::PeakOf(_) | LedgerAt::At(_) => return,
    }
    for (device, wanted) in wanted {
        let Some((then, after)) = first.at_peak_of(*device) else {
            continue;
        };
        wanted.parts = Some(Parts::at(&then, first, *device, &wanted.whole));
        for growth in first.growth_after_peak_of(*device) {
            let id = Parts::of_growth(growth, (&then, first), *device, &wanted.whole);
            wanted.grown.push((growth.seq, id, growth.bytes));
        }
        wanted.kept = true;
        for (reading, fresh) in after {
            wanted.reading(*reading, *fresh);
        }
    }
}

/// Takes in an event of the second pass, after the replay has.
fn feed(replay: &Replay, wanted: &mut BTreeMap<DeviceOrdinal, Wanted>, seq: Seq, event: &Event) {
    if !matches!(event.kind, EventKind::SAMPLE | EventKind::CARD) {
        follow_growth(replay, wanted, seq, event);
        return;
    }
    let last = replay
        .devices
        .get(&event.device)
        .and_then(|device| device.readings.last);
    let waiting = wanted
        .get_mut(&event.device)
        .filter(|wanted| wanted.parts.is_some() && !wanted.kept);
    if let (Some(waiting), Some(last)) = (waiting, last)
        && last.seq > waiting.until
    {
        waiting.reading(last, event.kind == EventKind::SAMPLE);
    }
}

/// Observes an event after points in time that have passed: contexts and modules may grow with it.
fn follow_growth(
    replay: &Replay,
    wanted: &mut BTreeMap<DeviceOrdinal, Wanted>,
    seq: Seq,
    event: &Event,
) {
    for (device, wanted) in wanted {
        let concerned = event.kind != EventKind::RESIZE || *device == event.device;
        if wanted.parts.is_none() || wanted.kept || wanted.tries > TRIES || !concerned {
            continue;
        }
        replay.follow_growth(&mut wanted.later, seq, event);
        for growth in &wanted.later.all()[wanted.grown.len()..] {
            let id = Parts::of_growth(growth, (replay, replay), *device, &wanted.whole);
            wanted.grown.push((growth.seq, id, growth.bytes));
        }
    }
}

/// Takes the parts of each device whose point in time has passed when `next` comes, or at the end.
fn settle(replay: &Replay, wanted: &mut BTreeMap<DeviceOrdinal, Wanted>, next: Option<Seq>) {
    for (device, wanted) in wanted {
        let over = next.is_none_or(|next| next > wanted.until);
        if over && wanted.parts.is_none() {
            let mut parts = Parts::at(replay, replay, *device, &wanted.whole);
            parts.time = wanted.time.unwrap_or(parts.time);
            wanted.parts = Some(parts);
        }
    }
}

/// The wanted devices, each with its point in time.
fn wanted(first: &Replay, asked: Asked) -> BTreeMap<DeviceOrdinal, Wanted> {
    let main = main_device(first);
    let devices = first.devices.iter().filter(|(device, _)| {
        **device != DeviceOrdinal::NONE && asked.device.is_none_or(|only| only == **device)
    });
    devices
        .filter_map(|(device, peak)| {
            let has = |level| first.levels.contains_key(&(*device, level));
            let (until, time) = match asked.at {
                LedgerAt::Peak => peak.moment.map(|(seq, time)| (seq, Some(time)))?,
                LedgerAt::PeakOf(level) => {
                    let row = first.levels.get(&(*device, level));
                    let peak = row.filter(|row| row.counters.peak > 0)?.peak;
                    (peak.0, Some(peak.1))
                }
                LedgerAt::End | LedgerAt::At(_) if !LEVELS.into_iter().any(has) => return None,
                LedgerAt::End => (first.last_seq, None),
                LedgerAt::At(seq) => (seq, None),
            };
            let whole = Whole {
                tensors: has(Level::TENSOR),
                physical: has(Level::PHYSICAL),
                main: main.filter(|main| main != device),
            };
            let wanted = Wanted {
                until,
                time,
                whole,
                parts: None,
                after: None,
                tries: 0,
                moving: false,
                kept: false,
                later: LaterGrowth::default(),
                grown: Vec::new(),
            };
            Some((*device, wanted))
        })
        .collect()
}

/// The main device of the process: the one with most memory.
fn main_device(replay: &Replay) -> Option<DeviceOrdinal> {
    let devices = replay
        .devices
        .keys()
        .filter(|device| **device != DeviceOrdinal::NONE);
    devices.copied().max_by_key(|device| {
        let peak = |level| replay.counters(*device, level).peak;
        (
            peak(Level::TENSOR),
            peak(Level::DRIVER),
            std::cmp::Reverse(*device),
        )
    })
}
