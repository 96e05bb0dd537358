//! The moments of ledgers: a device's peak and the end come out of the one reading, others need a second
//! one, up to the moment that the first one found.

use std::collections::BTreeMap;
use std::path::Path;

use gpumem_capture::{
    DeviceOrdinal, Event, EventKind, Level, Nanos, Progress, Reader, Record, Seq,
};

use super::Ledger;
use super::asked::{Asked, LedgerAt};
use super::categories;
use super::parts::{Parts, PieceId, Whole};
use crate::replay::{At, LaterGrowth, Reading, Replay};
use crate::session::{Error, Session};

/// How many readings after the moment are looked at for one during which nothing moved.
const TRIES: u32 = 16;

/// Where device memory is counted.
const LEVELS: [Level; 3] = [Level::TENSOR, Level::DRIVER, Level::PHYSICAL];

/// A device on its way to its ledger.
struct Wanted {
    /// The moment: just after this event.
    until: Seq,
    /// Its time, where that is known already.
    time: Option<Nanos>,
    whole: Whole,
    parts: Option<Parts>,
    after: Option<Reading>,
    tries: u32,
    /// Whether something moved during the first of them.
    moving: bool,
    /// Whether the first reading kept the moment.
    kept: bool,
    /// What contexts and modules grew by after the moment, and how much of that `grown` has.
    later: LaterGrowth,
    grown: Vec<(Seq, PieceId, u64)>,
}

impl Wanted {
    /// A reading came after the moment: the first during which nothing moved is taken, or the first.
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

    /// Charges contexts and code as the reading after the moment has them: no call says what they take, so a
    /// context or module of the moment may be without its bytes until then. Returns that reading's time, if
    /// anything came by it. Where the card has given the same since the reading before, and no context or
    /// module began since, that one is right as it is.
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

    /// The reading that belongs to the moment. Readings are recorded when they differ from the last one:
    /// if the card has given the same since, the last one before still holds. Else it is the one after,
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

impl Ledger {
    /// The ledgers that are asked for, of a capture that was read to its end as `session`. Unless that kept
    /// the moment it is read again, for what was live then can only be told once it is known which moment
    /// that is: `started` is given a handle that tells how far reading has come.
    ///
    /// # Errors
    /// Only where nothing can be read.
    pub fn read(
        path: &Path,
        session: &Session,
        asked: Asked,
        started: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Self>, Error> {
        let first = &session.replay;
        let mut wanted = wanted(first, asked);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        take_kept(first, &mut wanted, asked);
        if wanted.values().any(|wanted| wanted.parts.is_none()) {
            let mut reader = Reader::open(path)?;
            started(reader.progress());
            let mut replay = Replay::new(At::End);
            reader.read(&mut |record| feed(&mut replay, &mut wanted, record))?;
            settle(&replay, &mut wanted, None);
        }
        Ok(ledgers(wanted, first, asked))
    }

    /// The same, of records at hand.
    #[cfg(test)]
    pub(super) fn of_events(first: &Replay, events: &[(Seq, Event)], asked: Asked) -> Vec<Self> {
        let mut wanted = wanted(first, asked);
        take_kept(first, &mut wanted, asked);
        let mut replay = Replay::new(At::End);
        for (seq, event) in events {
            feed(&mut replay, &mut wanted, Record::Event(*seq, event));
        }
        settle(&replay, &mut wanted, None);
        ledgers(wanted, first, asked)
    }
}

fn ledgers(wanted: BTreeMap<DeviceOrdinal, Wanted>, first: &Replay, asked: Asked) -> Vec<Ledger> {
    let build = |(device, mut wanted): (DeviceOrdinal, Wanted)| {
        let grown_at = wanted.take_growth();
        let reading = wanted.belongs();
        let parts = wanted.parts.take()?;
        let facts = (first, &wanted.whole);
        let mut ledger = Ledger::new(parts, reading, asked.at, asked.by, facts, device);
        ledger.contexts_and_code_ns = grown_at.map(|time| time.0);
        ledger.categories = categories::of(first, &ledger);
        Some(ledger)
    };
    wanted.into_iter().filter_map(build).collect()
}

/// Takes the devices at the end, or at their peaks if the first reading kept those.
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

/// Takes in a record of the second reading.
fn feed(replay: &mut Replay, wanted: &mut BTreeMap<DeviceOrdinal, Wanted>, record: Record<'_>) {
    let Record::Event(seq, event) = record else {
        replay.feed(record);
        return;
    };
    settle(replay, wanted, Some(seq));
    replay.feed(record);
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

/// Takes in an event after moments that are over: contexts and modules may grow by it.
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

/// Takes the parts of each device whose moment is over when `next` comes; at the end of all.
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

/// The devices to tell of, each with its moment.
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

/// The device that the process works on: the one that held most.
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
