//! What is known of each scope, and the figures that it has.
//!
//! A row of counters keeps one maximum: the most that was live since the newest beginning of a scope, of
//! whichever. The time between two beginnings is a *segment*. Of the segments before, each row keeps the
//! maxima here, the oldest first and each above the next: one that a later segment has reached tells
//! nothing. The peak of a scope is the first maximum since its beginning, or the row's newest. So an event
//! costs the same with no scope and with ten thousand of them.

use std::collections::BTreeSet;

use gpumem_capture::RowAtCut;
use rustc_hash::FxHashMap;

/// Scopes that are known at once, whether they go on or have ended.
pub(super) const MOST: usize = 1 << 20;

/// What a scope says of one device and level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpumemScopeFigures {
    /// Bytes live when it began.
    pub start_bytes: u64,
    /// Bytes live now, or when it ended.
    pub live_bytes: u64,
    /// Most bytes that were live at once in between, both ends included.
    pub peak_bytes: u64,
    /// Allocations in between.
    pub allocations: u64,
    /// Releases in between.
    pub frees: u64,
}

/// A row at the beginning of a scope.
#[derive(Clone, Copy, Debug)]
struct Start {
    row: u8,
    live: u64,
    allocations: u64,
    frees: u64,
}

#[derive(Debug)]
enum State {
    /// It began before there was a capture: all counters were zero, and are until there is one.
    Pending {
        thread: u32,
    },
    Open {
        /// The number of the segment that began with it.
        since: u64,
        /// Of rows in which nothing was counted by then there is none: zeros.
        start: Box<[Start]>,
    },
    Ended(Box<[(u8, GpumemScopeFigures)]>),
}

#[derive(Debug)]
struct Scope {
    state: State,
    name: Name,
}

/// What a scope is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// It has no number yet: there was no capture.
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
    /// The number of the newest segment.
    segment: u64,
    /// The segments that began with the scopes that are open.
    open: BTreeSet<u64>,
    /// By row: closed segments with their maxima, these falling from the oldest on.
    maxima: Vec<Vec<(u64, u64)>>,
}

impl Table {
    pub(super) fn is_full(&self) -> bool {
        self.scopes.len() >= MOST
    }

    /// A scope begins, or begins anew, of which no capture can tell yet.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        let Waiting {
            number,
            name,
            thread,
        } = waiting;
        let state = State::Pending { thread };
        self.scopes.insert(number, Scope { state, name });
    }

    /// Those that wait for a capture, in the order in which they began.
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

    pub(super) fn is_open(&self, number: u64) -> bool {
        let scope = self.scopes.get(&number);
        scope.is_some_and(|scope| matches!(scope.state, State::Open { .. }))
    }

    /// A scope begins, or begins anew, where the rows have been cut anew.
    pub(super) fn begin(&mut self, number: u64, name: u32, rows: &[RowAtCut]) {
        self.close(number);
        self.begin_segment(rows);
        let start = rows.iter().map(|row| Start {
            row: row.row,
            live: row.values.live,
            allocations: row.values.allocations,
            frees: row.values.frees,
        });
        let state = State::Open {
            since: self.segment,
            start: start.collect(),
        };
        self.open.insert(self.segment);
        let name = Name::Known(name);
        self.scopes.insert(number, Scope { state, name });
    }

    /// A scope that is open ends where the rows have been cut.
    pub(super) fn end(&mut self, number: u64, rows: &[RowAtCut]) {
        let figures = |row: &RowAtCut| Some((row.row, self.figures(number, row.row, Some(*row))?));
        let frozen = rows.iter().filter_map(figures).collect();
        self.close(number);
        if let Some(scope) = self.scopes.get_mut(&number) {
            scope.state = State::Ended(frozen);
        }
    }

    /// A scope that waits for a capture ends: it is of zeros.
    pub(super) fn end_waiting(&mut self, number: u64) {
        if let Some(scope) = self.scopes.get_mut(&number)
            && matches!(scope.state, State::Pending { .. })
        {
            scope.state = State::Ended(Box::default());
        }
    }

    /// Gives a scope's place back; whether there was one.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        self.close(number);
        self.scopes.remove(&number).is_some()
    }

    /// What a scope says of a row that is now so; None if there is no such scope.
    pub(super) fn figures(
        &self,
        number: u64,
        row: u8,
        now: Option<RowAtCut>,
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
        let peak = self.most_since(row, since).max(now.since_cut).max(live);
        Some(GpumemScopeFigures {
            start_bytes: live,
            live_bytes: now.values.live,
            peak_bytes: peak,
            allocations: now.values.allocations.wrapping_sub(allocations),
            // A release that was taken back may be one of before.
            frees: now.values.frees.saturating_sub(frees),
        })
    }

    /// The most of a row in the segments that have closed, from one of them on.
    fn most_since(&self, row: u8, since: u64) -> u64 {
        let Some(maxima) = self.maxima.get(usize::from(row)) else {
            return 0;
        };
        let first = maxima.partition_point(|(segment, _)| *segment < since);
        maxima.get(first).map_or(0, |(_, most)| *most)
    }

    /// A scope is no longer among those that are open.
    fn close(&mut self, number: u64) {
        if let Some(scope) = self.scopes.get(&number)
            && let State::Open { since, .. } = &scope.state
        {
            self.open.remove(since);
        }
    }

    /// The newest segment has ended, with what the rows say of it.
    fn begin_segment(&mut self, rows: &[RowAtCut]) {
        let closed = self.segment;
        self.segment += 1;
        let room = 2 * self.open.len() + 64;
        for row in rows {
            let place = usize::from(row.row);
            if self.maxima.len() <= place {
                self.maxima.resize_with(place + 1, Vec::new);
            }
            let Some(maxima) = self.maxima.get_mut(place) else {
                continue;
            };
            if self.open.is_empty() {
                maxima.clear();
                continue;
            }
            while maxima
                .last()
                .is_some_and(|(_, most)| *most <= row.since_cut)
            {
                maxima.pop();
            }
            maxima.push((closed, row.since_cut));
            if maxima.len() > room {
                drop_unasked(maxima, &self.open);
            }
        }
    }
}

/// Leaves out the maxima that tell nothing: between which and the one before no open scope began.
fn drop_unasked(maxima: &mut Vec<(u64, u64)>, open: &BTreeSet<u64>) {
    let mut before = None;
    maxima.retain(|(segment, _)| {
        let asked = match before {
            None => open.range(..=segment).next().is_some(),
            Some(before) => open.range(before + 1..=*segment).next().is_some(),
        };
        if asked {
            before = Some(*segment);
        }
        asked
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumem_capture::CounterValues;

    /// A row of counters as the writer keeps it.
    #[derive(Default)]
    struct Row {
        values: CounterValues,
        since_cut: u64,
    }

    impl Row {
        fn change(&mut self, by: i64) {
            let live = &mut self.values.live;
            *live = live.saturating_add_signed(by);
            self.since_cut = self.since_cut.max(*live);
        }

        fn now(&self, row: u8) -> RowAtCut {
            RowAtCut {
                row,
                values: self.values,
                since_cut: self.since_cut,
            }
        }

        fn cut(&mut self, row: u8) -> RowAtCut {
            let now = self.now(row);
            self.since_cut = self.values.live;
            now
        }
    }

    /// The same numbers for ever.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    /// Scopes at random over two rows; each open one is followed event by event besides.
    fn at_random(seed: u64, begins: u64) -> Table {
        let mut random = Random(seed);
        let (mut table, mut rows) = (Table::default(), [Row::default(), Row::default()]);
        let mut followed: Vec<(u64, [u64; 2], [u64; 2])> = Vec::new();
        for number in 1..=4000 {
            match random.below(begins) {
                0 => {
                    let live = [rows[0].values.live, rows[1].values.live];
                    let cut = [rows[0].cut(0), rows[1].cut(1)];
                    table.begin(number, 0, &cut);
                    followed.push((number, live, live));
                }
                1 if !followed.is_empty() => {
                    let at = random.below(followed.len() as u64) as usize;
                    let (number, start, most) = followed.swap_remove(at);
                    table.end(number, &[rows[0].now(0), rows[1].now(1)]);
                    for row in [0, 1] {
                        let of = table.figures(number, row as u8, None).expect("is known");
                        assert_eq!((of.start_bytes, of.peak_bytes), (start[row], most[row]));
                        assert_eq!(of.live_bytes, rows[row].values.live);
                    }
                    assert!(table.forget(number));
                }
                _ => {
                    let row = random.below(2) as usize;
                    // More falls than rises, so that old maxima stay.
                    rows[row].change(random.below(1000) as i64 - 600);
                    if random.below(20) == 0 {
                        rows[row].change(random.below(20_000) as i64);
                    }
                    for (_, _, most) in &mut followed {
                        most[row] = most[row].max(rows[row].values.live);
                    }
                }
            }
            for (number, start, most) in &followed {
                for row in [0, 1] {
                    let now = rows[row].now(row as u8);
                    let of = table
                        .figures(*number, row as u8, Some(now))
                        .expect("is known");
                    assert_eq!((of.start_bytes, of.peak_bytes), (start[row], most[row]));
                }
            }
        }
        table
    }

    #[test]
    fn peaks_are_those_of_whoever_looks_at_each_event() {
        for seed in 1..40 {
            let table = at_random(seed, 2 + seed % 9);
            assert_eq!(table.scopes.len(), table.open.len());
        }
    }

    #[test]
    fn maxima_that_nobody_asks_for_go() {
        let (mut table, mut row) = (Table::default(), Row::default());
        row.change(1_000_000);
        table.begin(1, 0, &[row.cut(0)]);
        for number in 2..100_000 {
            row.change(-1);
            table.begin(number, 0, &[row.cut(0)]);
            table.end(number, &[row.now(0)]);
            table.forget(number);
        }
        assert!(table.maxima[0].len() < 200, "{}", table.maxima[0].len());
        let of = table.figures(1, 0, Some(row.now(0))).expect("is known");
        assert_eq!((of.start_bytes, of.peak_bytes), (1_000_000, 1_000_000));
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
        assert!(table.forget(1) && !table.forget(1) && table.open.is_empty());
    }
}
