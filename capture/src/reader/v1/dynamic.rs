//! The part of the head that changes while the process runs. Nothing in it is believed that nothing
//! else bears out.

use std::io;

use super::super::input::Input;
use super::super::{Integrity, LossRange};
use crate::checksum::Checks;
use crate::layout::{self, LOSS_RANGES, dynamic};
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, index};

/// What the process said at a clean exit. Other threads may have gone on.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) time: u64,
    /// Every record before this one was committed. As good as all of them if nothing was said.
    pub(super) committed: u64,
}

/// The dynamic header's facts. `Err(())`: damaged.
pub(super) struct Dynamic {
    /// None: damaged. So with the next two.
    pub(super) head: Option<u64>,
    pub(super) tail: Option<u64>,
    pub(super) pages_end: Option<u64>,
    /// Slots of definitions that threads were about to write; 0 if that cannot be told.
    pub(super) defining: u64,
    /// The clean exit, if there was one.
    pub(super) ended: Result<Option<Ended>, ()>,
    /// errno and time of the first failure, if the drain cannot write now.
    drain_error: Result<Option<(i32, u64)>, ()>,
    /// Both copies of: events, definitions, how often stored.
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
        // Three facts and their check; all zero: never written.
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
            head: index::open(word(dynamic::HEAD), nonce),
            tail: index::open(word(dynamic::TAIL), nonce),
            pages_end: index::open(word(dynamic::PAGES_END), nonce),
            defining: index::open(word(dynamic::DEFINING), nonce).unwrap_or(0),
            ended: checked(dynamic::END).map(|facts| {
                let [state, time, committed] = facts?;
                let committed = if committed == 0 { u64::MAX } else { committed };
                (state == 1).then_some(Ended { time, committed })
            }),
            drain_error: checked(dynamic::DRAIN_ERROR).map(|facts| {
                facts.and_then(|[errno, _, time]| (errno != 0).then_some((errno as i32, time)))
            }),
            lost: [dynamic::LOST, dynamic::LOST + 32].map(checked),
            losses,
        })
    }

    /// Where the pages end now; None: damaged.
    pub(super) fn pages_end(input: &Input, nonce: u64) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        input.fill(dynamic::PAGES_END, &mut bytes)?;
        Ok(index::open(u64::from_le_bytes(bytes), nonce))
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
        for (index, offset, what) in [
            (self.head, dynamic::HEAD, "the ring's head is damaged"),
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
        self.report_losses(integrity);
    }

    /// A loss is stored first in the table, then in the older of the two copies of the totals. A
    /// process that dies in between leaves the totals one behind, or one copy half written.
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

/// How often a row that does not fit is looked at again.
const LOOKS_AT_A_ROW: usize = 100;
/// The same of all rows together: each look lets others run, which takes long on a busy machine, and of a
/// damaged file no row may fit. Where the process seems to be gone it may still run on another host.
const LOOKS_IF_RUNNING: usize = 4 * LOOKS_AT_A_ROW;
const LOOKS_IF_GONE: usize = 20;

/// What a counter row looks like.
pub(super) enum RowState {
    Good(CounterValues),
    /// A thread holds it, and it is neither as before nor as after the change. Its version.
    InUpdate(u32),
    Damaged,
}

/// All rows that were ever used.
pub(super) fn rows(
    input: &Input,
    checks: &Checks,
    is_running: impl Fn() -> bool,
) -> io::Result<Vec<(DeviceOrdinal, Level, RowState)>> {
    let mut bytes = vec![0; (layout::COUNTER_ROWS * layout::ROW_BYTES) as usize];
    input.fill(layout::COUNTERS_OFFSET, &mut bytes)?;
    let (mut rows, mut looks) = (Vec::new(), None);
    for (number, row) in (0..).zip(bytes.chunks_exact_mut(layout::ROW_BYTES as usize)) {
        let (device, level) = layout::row_owner(number);
        let offset = layout::row_offset(number);
        let mut state = row_state(row, checks, offset);
        // A running process may be changing it: then look again.
        for _ in 0..LOOKS_AT_A_ROW {
            if matches!(state, None | Some(RowState::Good(_))) {
                break;
            }
            let looks = looks.get_or_insert_with(|| match is_running() {
                true => LOOKS_IF_RUNNING,
                false => LOOKS_IF_GONE,
            });
            if *looks == 0 {
                break;
            }
            *looks -= 1;
            std::thread::yield_now();
            input.fill(offset, row)?;
            state = row_state(row, checks, offset);
        }
        rows.extend(state.map(|state| (device, level, state)));
    }
    Ok(rows)
}

/// One row; None if it was never used.
fn row_state(bytes: &[u8], checks: &Checks, offset: u64) -> Option<RowState> {
    let values = CounterValues {
        live: word_at(bytes, 0),
        peak: word_at(bytes, 8),
        allocations: word_at(bytes, 16),
        frees: word_at(bytes, 24),
        allocated_bytes: word_at(bytes, 32),
    };
    let (version, check) = (word_at(bytes, 40) as u32, word_at(bytes, 48));
    // A writer that died holding the row may not have begun to change it, or may have been done.
    let [a, b, c, d, e] = values.words();
    let fits = |version: u32| {
        let words = [a, b, c, d, e, u64::from(version)];
        check == checks.words(offset, &words)
    };
    let is_held = version & 1 == 1;
    if version == 0 && check == 0 && values.is_zero() {
        None
    } else if fits(version) || is_held && (fits(version - 1) || fits(version.wrapping_add(1))) {
        Some(RowState::Good(values))
    } else if is_held && (check != 0 || version == 1) {
        // Only a row's first change finds no check.
        Some(RowState::InUpdate(version))
    } else {
        Some(RowState::Damaged)
    }
}

fn word_at(bytes: &[u8], offset: u64) -> u64 {
    let mut le = [0; 8];
    if let Some(from) = bytes.get(offset as usize..offset as usize + 8) {
        le.copy_from_slice(from);
    }
    u64::from_le_bytes(le)
}
