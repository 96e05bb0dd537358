//! A cut through all counters at one place in the order of records: where scopes begin and end.
//!
//! The rows of counters each have a lock of their own, under which an event's place in the order is
//! reserved. Whoever holds the locks of all rows and reserves a place then knows the figures of all of
//! them as a replay finds them at that place. That takes some nanoseconds a row; rows in which nothing was
//! ever counted are left out, and become used only while nobody cuts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Writer;
use super::options::Lost;
use crate::{CounterValues, DeviceOrdinal, Event, Level, Seq, layout, slot};

const WORDS: usize = (layout::COUNTER_ROWS / 64) as usize;

/// Which rows anything is counted in.
pub(super) struct Used {
    bits: [AtomicU64; WORDS],
    /// Held while a row becomes used, and while all that are used are cut through.
    changing: Mutex<()>,
}

impl Used {
    pub(super) fn new() -> Self {
        Self {
            bits: [const { AtomicU64::new(0) }; WORDS],
            changing: Mutex::new(()),
        }
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row is about to be used for the first time.
    #[cold]
    pub(super) fn note(&self, row: u64) {
        let _held = self.hold();
        if let Some(word) = self.bits.get((row / 64) as usize) {
            word.fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }

    /// The rows that are used, ascending; to be asked while they are held.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let words = self.bits.iter().map(|word| word.load(Ordering::Relaxed));
        words.zip(0..).flat_map(|(word, number)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| 64 * number + bit)
        })
    }
}

/// A row of counters at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAtCut {
    /// Its number: by device and level, below 256.
    pub row: u8,
    /// Its figures.
    pub values: CounterValues,
    /// The most that was live at once since the newest cut before that began a new reckoning.
    pub since_cut: u64,
}

impl RowAtCut {
    /// The number of the row of a device and level; None for one that has no counters.
    pub fn number(device: DeviceOrdinal, level: Level) -> Option<u8> {
        u8::try_from(layout::row_number(device, level)?).ok()
    }
}

/// What a cut found.
#[derive(Debug)]
pub struct Cut {
    /// Its place in the order of records; [`Lost::RingFull`] if the event found no room. The figures are
    /// of one moment all the same.
    pub seq: Result<Seq, Lost>,
    /// Every row in which anything is counted, by their numbers.
    pub rows: Vec<RowAtCut>,
}

impl Writer {
    /// Records an event that changes no counter, and gives the figures of all devices and levels as they
    /// are just there in the order of records. With `anew`, [`RowAtCut::since_cut`] is reckoned from here on.
    ///
    /// Not for hooks: it may allocate, and holds up those who count while it looks.
    ///
    /// # Errors
    /// [`Lost::OtherProcess`] in a forked child, where nothing at all happens.
    pub fn cut(&self, event: &Event, anew: bool) -> Result<Cut, Lost> {
        if !self.is_own_process() {
            return Err(Lost::OtherProcess);
        }
        if CounterValues::counts(event) {
            debug_assert!(false, "the event counts");
            return Err(Lost::TooLarge);
        }
        let mut rows = Vec::with_capacity(layout::COUNTER_ROWS as usize);
        let mut held = Vec::with_capacity(layout::COUNTER_ROWS as usize);
        let mut may_wait = true;
        let seq = loop {
            // All waiting is done before any lock is taken.
            if may_wait && !self.ring.has_space(1) {
                may_wait = self.space.wait(&self.ring, 1, self.nudge());
            }
            let changing = self.used.hold();
            held.extend(self.used.rows().filter_map(|number| {
                let row = self.head.row(number)?;
                Some((number as u8, row.lock()))
            }));
            let reserved = self.ring.reserve(1);
            if reserved.is_some() || !may_wait {
                rows.extend(held.iter().map(|(row, locked)| RowAtCut {
                    row: *row,
                    values: locked.values(),
                    since_cut: locked.since_cut(),
                }));
                if anew {
                    held.iter().for_each(|(_, locked)| locked.cut());
                }
            }
            held.clear();
            drop(changing);
            match reserved {
                Some(seq) => break Some(seq),
                // Others took the space that was there a moment ago.
                None if may_wait => {}
                None => break None,
            }
        };
        let Some(seq) = seq else {
            let stall = self.ring.tail();
            self.losses
                .event(self.head, self.ring.checks(), event.time, stall);
            let seq = Err(Lost::RingFull);
            return Ok(Cut { seq, rows });
        };
        self.ring.commit(seq, &slot::event_words(event));
        self.wake_drain(seq, 1);
        let seq = Ok(Seq(seq));
        Ok(Cut { seq, rows })
    }

    /// One row as it is now; None if nothing was ever counted in it.
    pub fn row_now(&self, number: u8) -> Option<RowAtCut> {
        let locked = self.head.row(u64::from(number))?.lock();
        (!locked.is_unused()).then(|| RowAtCut {
            row: number,
            values: locked.values(),
            since_cut: locked.since_cut(),
        })
    }
}
