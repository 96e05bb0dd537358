//! The state of the drain.

use std::time::Duration;

use super::bounded::Log;
use super::rows::RowSnapshot;
use crate::page;

/// A write that has not returned for this time is stuck.
const STUCK: Duration = Duration::from_secs(1);
/// The most of a turn that counts: somewhat more than the drain sleeps.
const TURN: Duration = Duration::from_millis(60);
/// The state that the drain keeps from page to page.
#[derive(Default)]
pub(super) struct State {
    pub(super) builder: Option<page::Builder>,
    /// For a bounded capture: the drain's position in it.
    pub(super) log: Option<Log>,
    pub(super) payload: Vec<u8>,
    /// The end of the pages.
    pub(super) pages_end: u64,
    pub(super) failures: u64,
    pub(super) first_failure: u64,
    pub(super) failing: bool,
    /// All records before this are committed.
    pub(super) known: u64,
    /// The number of checks that found the record at `known` unfinished.
    pub(super) looks: u32,
    /// Counters at a position whose records are not all known to be committed.
    pub(super) counted: Option<(u64, Vec<RowSnapshot>)>,
    /// The position of the newest published counters.
    pub(super) published: Option<u64>,
    pub(super) write: Write,
}

/// The write to the file that was in progress at the last check. Its duration is the sum of the drain's turns since, each
/// cut to [`TURN`], because the process can be stopped meanwhile, or the clock of its machine move.
#[derive(Default)]
pub(super) struct Write {
    pub(super) number: Option<u64>,
    lasted: Duration,
    pub(super) is_told: bool,
}

impl Write {
    /// A turn of the drain has passed.
    pub(super) fn passed(&mut self, turn: Duration) {
        self.lasted += turn.min(TURN);
    }

    /// Whether the write in progress has now lasted for [`STUCK`]: true once for each.
    pub(super) fn is_stuck(&mut self, in_progress: Option<u64>) -> bool {
        if in_progress.is_none() || in_progress != self.number {
            *self = Self {
                number: in_progress,
                ..Self::default()
            };
        }
        let is_stuck = self.lasted >= STUCK;
        is_stuck && !std::mem::replace(&mut self.is_told, is_stuck)
    }
}

/// The drain's state, kept from one run to the next.
#[derive(Default)]
pub(super) struct Drain(Option<Box<State>>);

impl Drain {
    pub(super) fn get_or_insert_with(&mut self, new: impl FnOnce() -> Box<State>) -> &mut State {
        self.0.get_or_insert_with(new)
    }
}
