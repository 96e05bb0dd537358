//! The part of the head that changes while the process runs. Nothing in it is believed that nothing
//! else bears out.

use std::io;

use super::super::input::Input;
use super::super::{Integrity, LossRange};
use crate::checksum::words_check;
use crate::counters::row_check;
use crate::layout::{self, LOSS_RANGES, dynamic};
use crate::{CounterValues, DeviceOrdinal, Level, Nanos};

/// The dynamic header's facts. `Err(())`: damaged.
pub(super) struct Dynamic {
    pub(super) head: u64,
    pub(super) tail: u64,
    pub(super) pages_end: u64,
    /// Time of the clean exit, if there was one.
    pub(super) ended: Result<Option<u64>, ()>,
    /// errno and time of the first failure, if the drain cannot write now.
    drain_error: Result<Option<(i32, u64)>, ()>,
    events_lost: u64,
    definitions_lost: u64,
    /// Offset and content of each used entry of the table of losses.
    losses: Vec<(u64, Result<LossRange, ()>)>,
}

impl Dynamic {
    pub(super) fn read(input: &Input, nonce: u64) -> io::Result<Self> {
        let mut bytes = [0; layout::DYNAMIC_BYTES as usize];
        input.fill(layout::DYNAMIC_OFFSET, &mut bytes)?;
        let word = |offset: u64| word_at(&bytes, offset - layout::DYNAMIC_OFFSET);
        // Three facts and their check; all zero: never written.
        let checked = |place: u64| -> Result<Option<[u64; 3]>, ()> {
            let facts = [word(place), word(place + 8), word(place + 16)];
            let [a, b, c] = facts;
            match word(place + 24) {
                0 if facts == [0; 3] => Ok(None),
                check if check == words_check(nonce, place, [a, b, c, 0, 0, 0, 0]) => {
                    Ok(Some(facts))
                }
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
            head: word(dynamic::HEAD),
            tail: word(dynamic::TAIL),
            pages_end: word(dynamic::PAGES_END),
            ended: checked(dynamic::END)
                .map(|facts| facts.and_then(|[state, time, _]| (state == 1).then_some(time))),
            drain_error: checked(dynamic::DRAIN_ERROR).map(|facts| {
                facts.and_then(|[errno, _, time]| (errno != 0).then_some((errno as i32, time)))
            }),
            events_lost: word(dynamic::LOST),
            definitions_lost: word(dynamic::LOST + 8),
            losses,
        })
    }

    /// Enters what the header says into the account.
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
        integrity.definitions_lost = self.definitions_lost;
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
        // The total is stored after its range: a process that dies in between leaves them one apart.
        integrity.events_lost = self.events_lost.max(sum);
        if self.events_lost > sum || sum - self.events_lost > 1 {
            let (total, offset) = (self.events_lost, dynamic::LOST);
            let what = format!("lost events: {total} in total, but {sum} in the table");
            integrity.damaged(offset, what);
            // Neither can be believed alone; the greater errs on the safe side unless it is absurd.
            if self.events_lost > self.head.saturating_mul(1 << 20) {
                integrity.events_lost = sum;
            }
        }
    }
}

/// What a counter row looks like.
pub(super) enum RowState {
    Good(CounterValues),
    InUpdate,
    /// Its offset.
    Damaged(u64),
}

/// All rows that were ever used.
pub(super) fn rows(input: &Input, nonce: u64) -> Vec<(DeviceOrdinal, Level, RowState)> {
    (0..layout::COUNTER_ROWS)
        .filter_map(|number| {
            let (device, level) = layout::row_owner(number);
            Some((
                device,
                level,
                row(input, nonce, layout::row_offset(number))?,
            ))
        })
        .collect()
}

/// One row; None if it was never used. A running process may be changing it: then look again.
fn row(input: &Input, nonce: u64, offset: u64) -> Option<RowState> {
    let mut state = None;
    for _ in 0..100 {
        let mut bytes = [0; layout::ROW_BYTES as usize];
        if input.fill(offset, &mut bytes).is_err() {
            return Some(RowState::Damaged(offset));
        }
        let values = CounterValues {
            live: word_at(&bytes, 0),
            peak: word_at(&bytes, 8),
            allocations: word_at(&bytes, 16),
            frees: word_at(&bytes, 24),
            allocated_bytes: word_at(&bytes, 32),
        };
        let (version, check) = (word_at(&bytes, 40) as u32, word_at(&bytes, 48));
        if version == 0 && check == 0 && values.is_zero() {
            return None;
        }
        if version & 1 == 1 {
            state = Some(RowState::InUpdate);
        } else if check == row_check(nonce, offset, &values, version) {
            return Some(RowState::Good(values));
        } else {
            state = Some(RowState::Damaged(offset));
        }
        std::thread::yield_now();
    }
    state
}

fn word_at(bytes: &[u8], offset: u64) -> u64 {
    let mut le = [0; 8];
    if let Some(from) = bytes.get(offset as usize..offset as usize + 8) {
        le.copy_from_slice(from);
    }
    u64::from_le_bytes(le)
}
