//! The part of the head that changes while the process runs. Each field is used only if other data confirms it.

use std::io;

use super::input::Input;
use super::integrity::{Integrity, LossRange};
use crate::checksum::Checks;
use crate::layout::{self, LOSS_RANGES, dynamic};
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, index};

/// The facts of a clean exit. Other threads may have continued after it.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) time: u64,
    /// Every record before this one was committed.
    pub(super) committed: u64,
}

/// A copy of the ring in the capture's file.
#[derive(Clone, Copy)]
pub(super) struct Journal {
    /// When it was written.
    pub(super) time: u64,
    /// Its offset; 0 without a journal.
    pub(super) offset: u64,
    /// Whether it has all records of the ring at the end.
    pub(super) is_complete: bool,
}

/// The fields of the dynamic header. `Err(())`: damaged.
pub(super) struct Dynamic {
    /// Every record before this is committed. None if damaged; the same applies to the next two fields.
    pub(super) known: Option<u64>,
    pub(super) tail: Option<u64>,
    pub(super) pages_end: Option<u64>,
    /// For a capture whose ring is elsewhere: the journal according to the capture's file.
    pub(super) journal: Result<Option<Journal>, ()>,
    /// The clean exit, if there was one.
    pub(super) ended: Result<Option<Ended>, ()>,
    /// errno and time of the first failure, if the drain cannot write now.
    drain_error: Result<Option<(i32, u64)>, ()>,
    /// Both copies of: events, definitions, number of updates.
    lost: [Result<Option<[u64; 3]>, ()>; 2],
    /// Offset and content of each used entry of the table of losses.
    losses: Vec<(u64, Result<LossRange, ()>)>,
}

impl Dynamic {
    pub(super) fn read(input: &Input, checks: &Checks) -> io::Result<Self> {
        let nonce = checks.nonce;
        let mut bytes = [0; layout::DYNAMIC_BYTES as usize];
        input.fill(layout::DYNAMIC_OFFSET, &mut bytes)?;
        let word = |offset: u64| word_at(&bytes, offset - layout::DYNAMIC_OFFSET);
        // Three fields and their checksum; all zeros if never written.
        let checked = |place: u64| -> Result<Option<[u64; 3]>, ()> {
            let facts = [word(place), word(place + 8), word(place + 16)];
            match word(place + 24) {
                0 if facts == [0; 3] => Ok(None),
                check if check == checks.words(place, &facts) => Ok(Some(facts)),
                _ => Err(()),
            }
        };
        let losses = (0..LOSS_RANGES as u64)
            .map(|n| dynamic::LOSS_TABLE + 32 * n)
            .filter_map(|place| {
                let range = checked(place).transpose()?;
                let range = range.map(|[first, last, events]| LossRange {
                    first: Nanos(first),
                    last: Nanos(last),
                    events,
                });
                Some((place, range))
            })
            .collect();
        Ok(Self {
            known: index::open(word(dynamic::KNOWN), nonce),
            tail: index::open(word(dynamic::TAIL), nonce),
            pages_end: index::open(word(dynamic::PAGES_END), nonce),
            journal: checked(dynamic::JOURNAL).map(|facts| {
                facts.map(|[time, offset, complete]| Journal {
                    time,
                    offset,
                    is_complete: complete == 1,
                })
            }),
            ended: checked(dynamic::END).map(|facts| {
                let [state, time, committed] = facts?;
                (state == 1).then_some(Ended { time, committed })
            }),
            drain_error: checked(dynamic::DRAIN_ERROR).map(|facts| {
                facts.and_then(|[errno, _, time]| (errno != 0).then_some((errno as i32, time)))
            }),
            lost: [dynamic::LOST, dynamic::LOST + 32].map(checked),
            losses,
        })
    }

    /// The current end of the pages; None if damaged.
    pub(super) fn pages_end(input: &Input, nonce: u64) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        input.fill(dynamic::PAGES_END, &mut bytes)?;
        Ok(index::open(u64::from_le_bytes(bytes), nonce))
    }

    /// Adds the header's facts to the account.
    pub(super) fn report(&self, integrity: &mut Integrity) {
        match self.ended {
            Ok(ended) => integrity.clean_exit = ended.is_some(),
            Err(()) => integrity.damaged(dynamic::END, "how the process ended is damaged"),
        }
        match self.drain_error {
            Ok(Some((errno, time))) => {
                let error = io::Error::from_raw_os_error(errno);
                let seconds = time as f64 / 1e9;
                integrity.drain_error =
                    Some(format!("could not write from {seconds:.3} s on: {error}"));
            }
            Ok(None) => {}
            Err(()) => integrity.damaged(dynamic::DRAIN_ERROR, "the drain's error is damaged"),
        }
        for (index, offset, what) in [
            (
                self.known,
                dynamic::KNOWN,
                "up to where records are committed is damaged",
            ),
            (self.tail, dynamic::TAIL, "the ring's tail is damaged"),
            (
                self.pages_end,
                dynamic::PAGES_END,
                "where the pages end is damaged",
            ),
        ] {
            if index.is_none() {
                integrity.damaged(offset, what);
            }
        }
        if self.journal.is_err() {
            integrity.damaged(dynamic::JOURNAL, "where the journal is is damaged");
        }
        self.report_losses(integrity);
    }

    /// The end of the records that cannot be in flight.
    pub(super) fn committed(&self) -> u64 {
        let ended = match self.ended {
            Ok(Some(ended)) => ended.committed,
            _ => 0,
        };
        self.known.unwrap_or(0).max(ended)
    }

    /// A loss is stored first in the table, then in the older of the two copies of the totals. A process that
    /// dies in between leaves the totals one update behind, or one copy half written.
    fn report_losses(&self, integrity: &mut Integrity) {
        let mut sum = 0_u64;
        for (offset, range) in &self.losses {
            match range {
                Ok(range) => {
                    sum = sum.saturating_add(range.events);
                    integrity.loss_ranges.push(*range);
                }
                Err(()) => integrity.damaged(*offset, "an entry of the table of losses is damaged"),
            }
        }
        let newest = self
            .lost
            .iter()
            .filter_map(|copy| copy.ok()?)
            .max_by_key(|copy| copy[2]);
        let [total, definitions, stored] = newest.unwrap_or_default();
        integrity.definitions_lost = definitions;
        integrity.events_lost = total.max(sum);
        let both_fit = self.lost.iter().all(|copy| match copy {
            Ok(None) => stored <= 1,
            Ok(Some([_, _, other])) => stored - other <= 1,
            Err(()) => false,
        });
        if !both_fit {
            integrity.damaged(dynamic::LOST, "the totals of lost records are damaged");
        }
        if sum.abs_diff(total) > 1 || total > sum {
            let what = format!("lost events: {total} in total, but {sum} in the table");
            integrity.damaged(dynamic::LOST, what);
        }
    }
}

/// The number of attempts to read mismatching counters again, because a running process may be writing them.
const LOOKS_IF_RUNNING: usize = 400;
const LOOKS_IF_GONE: usize = 20;

/// A row of counters; `Err(())`: damaged.
type Row = (DeviceOrdinal, Level, Result<CounterValues, ()>);

/// The counters at one position in the order of records.
pub(super) struct Counted {
    /// They cover the records before this one. None if they were never written, or the process died while writing
    /// them.
    pub(super) of: Option<u64>,
    /// All rows that were ever used.
    pub(super) rows: Vec<Row>,
    /// Whether the position itself is damaged.
    pub(super) is_damaged: bool,
}

impl Counted {
    /// Reads them; again if a running process is writing them.
    pub(super) fn read(
        input: &Input,
        checks: &Checks,
        is_running: impl Fn() -> bool,
    ) -> io::Result<Self> {
        let mut looks = None;
        loop {
            let before = counted(input, checks)?;
            let rows = rows(input, checks)?;
            let after = counted(input, checks)?;
            let fits = before == after
                && matches!(after, Ok(Some(_)))
                && rows.iter().all(|(_, _, row)| row.is_ok());
            let left = looks.get_or_insert_with(|| match is_running() {
                _ if fits => 0,
                true => LOOKS_IF_RUNNING,
                false => LOOKS_IF_GONE,
            });
            if fits || *left == 0 {
                return Ok(Self {
                    of: after.ok().flatten().filter(|_| before == after),
                    rows,
                    is_damaged: after.is_err(),
                });
            }
            *left -= 1;
            std::thread::yield_now();
        }
    }
}

/// The position that the counters cover.
fn counted(input: &Input, checks: &Checks) -> io::Result<Result<Option<u64>, ()>> {
    let mut bytes = [0; 32];
    input.fill(dynamic::COUNTED, &mut bytes)?;
    let words = [0, 8, 16, 24].map(|offset| word_at(&bytes, offset));
    let [seq, time, zero, check] = words;
    Ok(match check {
        0 if words == [0; 4] => Ok(None),
        _ if check == checks.words(dynamic::COUNTED, &[seq, time, zero]) => Ok(Some(seq)),
        _ => Err(()),
    })
}

fn rows(input: &Input, checks: &Checks) -> io::Result<Vec<Row>> {
    let mut bytes = vec![0; (layout::COUNTER_ROWS * layout::ROW_BYTES) as usize];
    input.fill(layout::COUNTERS_OFFSET, &mut bytes)?;
    let rows = (0..).zip(bytes.chunks_exact(layout::ROW_BYTES as usize));
    Ok(rows
        .filter_map(|(number, row)| {
            let (device, level) = layout::row_owner(number);
            let values = row_values(row, checks, layout::row_offset(number))?;
            Some((device, level, values))
        })
        .collect())
}

/// One row; None if it was never used.
fn row_values(bytes: &[u8], checks: &Checks, offset: u64) -> Option<Result<CounterValues, ()>> {
    let values = CounterValues {
        live: word_at(bytes, 0),
        peak: word_at(bytes, 8),
        allocations: word_at(bytes, 16),
        frees: word_at(bytes, 24),
        allocated_bytes: word_at(bytes, 32),
    };
    let (version, check) = (word_at(bytes, 40) as u32, word_at(bytes, 48));
    if version == 0 && check == 0 && values.is_zero() {
        return None;
    }
    let [a, b, c, d, e] = values.words();
    let words = [a, b, c, d, e, u64::from(version)];
    Some(match check == checks.words(offset, &words) {
        true => Ok(values),
        false => Err(()),
    })
}

fn word_at(bytes: &[u8], offset: u64) -> u64 {
    let mut le = [0; 8];
    if let Some(from) = bytes.get(offset as usize..offset as usize + 8) {
        le.copy_from_slice(from);
    }
    u64::from_le_bytes(le)
}
