//! The state of each scope, and its figures.
//!
//! A row of counters stores one maximum: the peak since the newest start of any scope; [`PeaksSince`]
//! has the earlier ones. So an event costs the same with no scope and with ten thousand of them.

use gpumem_capture::RowSnapshot;
use gpumem_replay::peaks_since::{PeaksSince, Since};
use rustc_hash::FxHashMap;

/// Maximum number of scopes, running or ended.
pub(super) const MOST: usize = 1 << 20;

/// The figures of a scope for one device and level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpumemScopeFigures {
    /// Bytes live when it began.
    pub start_bytes: u64,
    /// Bytes live now, or when it ended.
    pub live_bytes: u64,
    /// The peak of live bytes in between, including both ends.
    pub peak_bytes: u64,
    /// Allocations in between.
    pub allocations: u64,
    /// Releases in between.
    pub frees: u64,
}

/// A row at the start of a scope.
#[derive(Clone, Copy, Debug)]
struct Start {
    row: u8,
    live: u64,
    allocations: u64,
    frees: u64,
}

#[derive(Debug)]
enum State {
    /// It began before there was a capture: all counters are zero until there is one.
    Pending {
        thread: u32,
    },
    Open {
        since: Since,
        /// Zeros for rows without counts.
        start: Box<[Start]>,
    },
    Ended(Box<[(u8, GpumemScopeFigures)]>),
}

#[derive(Debug)]
struct Scope {
    state: State,
    name: Name,
}

/// The name of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// It has no number yet, because there was no capture.
    Text(Box<[u8]>),
    /// Its number in the capture.
    Known(u32),
}

/// A scope that waits for a capture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) name: Name,
    pub(super) thread: u32,
}

/// All scopes of a process.
#[derive(Debug, Default)]
pub(super) struct Table {
    scopes: FxHashMap<u64, Scope>,
    maxima: PeaksSince,
}

impl Table {
    pub(super) fn is_full(&self) -> bool {
        self.scopes.len() >= MOST
    }

    /// Begins or restarts a scope before there is a capture.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        let Waiting {
            number,
            name,
            thread,
        } = waiting;
        let state = State::Pending { thread };
        self.scopes.insert(number, Scope { state, name });
    }

    /// The scopes that wait for a capture, in the order of their starts.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let mut found: Vec<_> = self
            .scopes
            .iter()
            .filter_map(|(number, scope)| match &scope.state {
                State::Pending { thread } => Some(Waiting {
                    number: *number,
                    name: scope.name.clone(),
                    thread: *thread,
                }),
                _ => None,
            })
            .collect();
        found.sort_by_key(|waiting| waiting.number);
        found
    }

    /// A scope's name, if there is such a scope.
    pub(super) fn name(&self, number: u64) -> Option<&Name> {
        self.scopes.get(&number).map(|scope| &scope.name)
    }

    /// Whether it waits for a capture.
    pub(super) fn is_waiting(&self, number: u64) -> bool {
        let scope = self.scopes.get(&number);
        scope.is_some_and(|scope| matches!(scope.state, State::Pending { .. }))
    }

    pub(super) fn is_open(&self, number: u64) -> bool {
        let scope = self.scopes.get(&number);
        scope.is_some_and(|scope| matches!(scope.state, State::Open { .. }))
    }

    /// Begins or restarts a scope at a snapshot that resets the peaks.
    pub(super) fn begin(&mut self, number: u64, name: u32, rows: &[RowSnapshot]) {
        self.close(number);
        let closed = rows
            .iter()
            .map(|row| (usize::from(row.row), row.since_snapshot));
        let since = self.maxima.begin(closed);
        let start = rows.iter().map(|row| Start {
            row: row.row,
            live: row.values.live,
            allocations: row.values.allocations,
            frees: row.values.frees,
        });
        let state = State::Open {
            since,
            start: start.collect(),
        };
        let name = Name::Known(name);
        self.scopes.insert(number, Scope { state, name });
    }

    /// Ends an open scope at a snapshot.
    pub(super) fn end(&mut self, number: u64, rows: &[RowSnapshot]) {
        let figures =
            |row: &RowSnapshot| Some((row.row, self.figures(number, row.row, Some(*row))?));
        let frozen = rows.iter().filter_map(figures).collect();
        self.close(number);
        if let Some(scope) = self.scopes.get_mut(&number) {
            scope.state = State::Ended(frozen);
        }
    }

    /// Ends a scope that waits for a capture: its figures are zeros.
    pub(super) fn end_waiting(&mut self, number: u64) {
        if let Some(scope) = self.scopes.get_mut(&number)
            && matches!(scope.state, State::Pending { .. })
        {
            scope.state = State::Ended(Box::default());
        }
    }

    /// Frees a scope's slot; returns whether there was one.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        self.close(number);
        self.scopes.remove(&number).is_some()
    }

    /// The figures of a scope for a row with these current values; None if there is no such scope.
    pub(super) fn figures(
        &self,
        number: u64,
        row: u8,
        now: Option<RowSnapshot>,
    ) -> Option<GpumemScopeFigures> {
        let (since, start) = match &self.scopes.get(&number)?.state {
            State::Pending { .. } => return Some(GpumemScopeFigures::default()),
            State::Ended(frozen) => {
                let found = frozen.iter().find(|(of, _)| *of == row);
                return Some(found.map(|(_, figures)| *figures).unwrap_or_default());
            }
            State::Open { since, start } => (*since, start),
        };
        let Some(now) = now else {
            return Some(GpumemScopeFigures::default());
        };
        let start = start.iter().find(|start| start.row == row);
        let (live, allocations, frees) = start.map_or((0, 0, 0), |start| {
            (start.live, start.allocations, start.frees)
        });
        let before = self.maxima.since(usize::from(row), since);
        let peak = before.max(now.since_snapshot).max(live);
        Some(GpumemScopeFigures {
            start_bytes: live,
            live_bytes: now.values.live,
            peak_bytes: peak,
            allocations: now.values.allocations.wrapping_sub(allocations),
            // A reverted release may be one from before the scope.
            frees: now.values.frees.saturating_sub(frees),
        })
    }

    /// Removes a scope from the open ones.
    fn close(&mut self, number: u64) {
        if let Some(scope) = self.scopes.get(&number)
            && let State::Open { since, .. } = &scope.state
        {
            self.maxima.end(*since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumem_capture::CounterValues;

    /// A row of counters in the writer.
    #[derive(Default)]
    struct Row {
        values: CounterValues,
        since_snapshot: u64,
    }

    impl Row {
        fn change(&mut self, by: i64) {
            let live = &mut self.values.live;
            *live = live.saturating_add_signed(by);
            self.since_snapshot = self.since_snapshot.max(*live);
        }

        fn now(&self, row: u8) -> RowSnapshot {
            RowSnapshot {
                row,
                values: self.values,
                since_snapshot: self.since_snapshot,
                changes: 1,
            }
        }
    }

    #[test]
    fn a_scope_that_waits_has_zeros() {
        let mut table = Table::default();
        let waiting = |number| Waiting {
            number,
            name: Name::Text(b"early"[..].into()),
            thread: 1,
        };
        table.wait(waiting(2));
        table.wait(waiting(1));
        table.wait(waiting(3));
        table.end_waiting(3);
        assert_eq!(table.waiting(), [waiting(1), waiting(2)]);
        for number in 1..=3 {
            assert_eq!(
                table.figures(number, 7, None),
                Some(GpumemScopeFigures::default())
            );
        }
        table.begin(1, 5, &[]);
        assert!(table.is_open(1) && !table.is_open(2) && !table.is_open(3));
        let mut row = Row::default();
        row.change(10);
        row.change(-4);
        let of = table.figures(1, 7, Some(row.now(7))).expect("is known");
        assert_eq!((of.start_bytes, of.live_bytes, of.peak_bytes), (0, 6, 10));
        assert_eq!(table.figures(4, 7, None), None);
        assert!(table.forget(1) && !table.forget(1) && table.maxima.open() == 0);
    }
}
