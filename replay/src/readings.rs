//! NVML's readings, and the bytes in them that our own figures do not explain.

use gpumem_capture::{Event, EventFlags, Nanos, Seq};

use crate::ids::KeyId;
use crate::serialize::serialize;

/// A reading of the whole card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Used bytes, those that the driver reserves included.
    pub used: u64,
    /// Reserved by the driver, if NVML reports it.
    pub reserved: Option<u64>,
    /// The card's memory.
    pub total: u64,
}

/// A reading of NVML on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The event's number.
    pub seq: Seq,
    /// The time.
    pub time: Nanos,
    /// This process's figure, if NVML reports it.
    pub process: Option<u64>,
    /// All other processes' figures, if NVML reports them.
    pub others: Option<u64>,
    /// The physical level at that moment.
    pub physical: u64,
    /// Managed memory at that moment, wherever it resided.
    pub managed: u64,
    /// Whether memory moved during the reading, or a figure was derived from others.
    pub estimated: bool,
    /// The card at that time.
    pub card: Option<Card>,
}

serialize! {
    Card { used, reserved, total }
    Reading { seq, time, process, others, physical, managed, estimated, card }
    Jump { from, time, seq, bytes, key }
    Readings { last, last_settled, count, jumps, card }
}

impl Reading {
    /// NVML's figure for this process minus the physical level; managed memory is included. Without a figure for the
    /// process, it is derived from the card's.
    pub fn beyond(&self) -> Option<i64> {
        let process = self.process.or_else(|| {
            let card = self.card?;
            let known = card
                .reserved
                .unwrap_or(0)
                .saturating_add(self.others.unwrap_or(0));
            Some(card.used.saturating_sub(known))
        })?;
        Some(difference(process, self.physical))
    }

    /// The most that managed memory can explain of [`Reading::beyond`]: where managed memory resides is unknown.
    pub fn managed_at_most(&self) -> Option<u64> {
        Some((self.beyond()?.max(0) as u64).min(self.managed))
    }

    /// The part that nothing explains.
    pub fn unexplained(&self) -> Option<i64> {
        Some(self.beyond()? - self.managed_at_most()? as i64)
    }
}

/// `a - b`, signed.
fn difference(a: u64, b: u64) -> i64 {
    (i128::from(a) - i128::from(b)).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// A change of the unexplained bytes between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The earlier reading; the capture's start for the first.
    pub from: Nanos,
    /// The later reading.
    pub time: Nanos,
    /// The later reading's event.
    pub seq: Seq,
    /// The change.
    pub bytes: i64,
    /// The stacks of the device's event nearest before.
    pub key: Option<KeyId>,
}

/// How many jumps are kept: the largest.
const JUMPS: usize = 16;

/// The readings of a device so far.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// The newest.
    pub last: Option<Reading>,
    /// The newest one during which nothing moved.
    pub last_settled: Option<Reading>,
    /// Their number.
    pub count: u64,
    /// The largest changes of the unexplained bytes, largest first.
    pub jumps: Vec<Jump>,
    card: Option<Card>,
}

impl Readings {
    /// The most reliable reading: the newest one during which nothing moved, else the newest.
    pub fn best(&self) -> Option<Reading> {
        self.last_settled.or(self.last)
    }

    /// Takes in a SAMPLE. `nearest` is the stacks of the device's event before it.
    pub(crate) fn sample(&mut self, seq: Seq, event: &Event, managed: u64, nearest: Option<KeyId>) {
        let before = self.last;
        let reading = Reading {
            seq,
            time: event.time,
            process: told(event.bytes),
            others: told(event.aux),
            physical: event.ptr,
            managed,
            estimated: event.flags.contains(EventFlags::ESTIMATED),
            card: self.card,
        };
        self.count += 1;
        self.set(reading);
        if reading.process.is_none() {
            return;
        }
        let was = before.and_then(|before| before.unexplained()).unwrap_or(0);
        let bytes = reading.unexplained().unwrap_or(0).saturating_sub(was);
        if bytes != 0 {
            self.jumps.push(Jump {
                from: before.map_or(Nanos(0), |before| before.time),
                time: event.time,
                seq,
                bytes,
                key: nearest,
            });
            self.jumps
                .sort_by_key(|jump| (std::cmp::Reverse(jump.bytes.unsigned_abs()), jump.seq));
            self.jumps.truncate(JUMPS);
        }
    }

    /// Takes in a CARD, which belongs to the newest SAMPLE.
    pub(crate) fn card(&mut self, event: &Event) {
        let card = Card {
            used: event.bytes,
            reserved: told(event.aux),
            total: event.ptr,
        };
        self.card = Some(card);
        if let Some(last) = self.last {
            self.set(Reading {
                card: Some(card),
                ..last
            });
        }
    }

    fn set(&mut self, reading: Reading) {
        self.last = Some(reading);
        if !reading.estimated {
            self.last_settled = Some(reading);
        }
    }
}

fn told(bytes: u64) -> Option<u64> {
    (bytes != u64::MAX).then_some(bytes)
}
