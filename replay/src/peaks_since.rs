//! The most that was live since any of several moments, at the price of one maximum.
//!
//! Whoever counts keeps the most since the newest moment. The time between two moments is a *segment*. Of
//! the segments before, each row of counters keeps the maxima here, the oldest first and each above the next:
//! one that a later segment has reached tells nothing. What was the most since a moment is the first of
//! these from there on, or the newest of all. PeaksSince between which nobody asks for a moment are dropped now and
//! then, so there are at most some more than open moments.

use std::collections::BTreeSet;

/// A moment since which somebody wants to know the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since(u64);

/// The maxima of closed segments, by rows.
#[derive(Debug, Default)]
pub struct PeaksSince {
    /// The number of the newest segment.
    segment: u64,
    /// The segments that began with moments that are asked for.
    open: BTreeSet<u64>,
    rows: Vec<Vec<(u64, u64)>>,
}

impl PeaksSince {
    /// A moment, with the most of each row since the one before, which closes.
    pub fn begin(&mut self, closed: impl IntoIterator<Item = (usize, u64)>) -> Since {
        let room = 2 * self.open.len() + 64;
        for (row, most) in closed {
            if self.rows.len() <= row {
                self.rows.resize_with(row + 1, Vec::new);
            }
            let Some(maxima) = self.rows.get_mut(row) else {
                continue;
            };
            if self.open.is_empty() {
                maxima.clear();
                continue;
            }
            while maxima.last().is_some_and(|(_, lower)| *lower <= most) {
                maxima.pop();
            }
            maxima.push((self.segment, most));
            if maxima.len() > room {
                drop_unasked(maxima, &self.open);
            }
        }
        self.segment += 1;
        self.open.insert(self.segment);
        Since(self.segment)
    }

    /// A moment is asked for no more.
    pub fn end(&mut self, moment: Since) {
        self.open.remove(&moment.0);
    }

    /// The most of a row in the segments that have closed since a moment; 0 if none has.
    pub fn since(&self, row: usize, moment: Since) -> u64 {
        let Some(maxima) = self.rows.get(row) else {
            return 0;
        };
        let first = maxima.partition_point(|(segment, _)| *segment < moment.0);
        maxima.get(first).map_or(0, |(_, most)| *most)
    }

    /// Moments that are asked for.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

/// Leaves out the maxima that tell nothing: no moment is asked for between them and the one before.
fn drop_unasked(maxima: &mut Vec<(u64, u64)>, open: &BTreeSet<u64>) {
    let mut from = 0;
    maxima.retain(|(segment, _)| {
        let asked = open.range(from..=*segment).next().is_some();
        if asked {
            from = segment + 1;
        }
        asked
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter as whoever counts keeps it.
    #[derive(Default)]
    struct Row {
        live: u64,
        most: u64,
    }

    impl Row {
        fn change(&mut self, by: i64) {
            self.live = self.live.saturating_add_signed(by);
            self.most = self.most.max(self.live);
        }

        fn cut(&mut self) -> u64 {
            core::mem::replace(&mut self.most, self.live)
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

    /// Moments at random over two rows; each is followed change by change besides.
    fn at_random(seed: u64, begins: u64) {
        let mut random = Random(seed);
        let (mut maxima, mut rows) = (PeaksSince::default(), [Row::default(), Row::default()]);
        let mut followed: Vec<(Since, [u64; 2])> = Vec::new();
        for _ in 1..=4000 {
            match random.below(begins) {
                0 => {
                    let live = [rows[0].live, rows[1].live];
                    let moment = maxima.begin([(0, rows[0].cut()), (1, rows[1].cut())]);
                    followed.push((moment, live));
                }
                1 if !followed.is_empty() => {
                    let at = random.below(followed.len() as u64) as usize;
                    maxima.end(followed.swap_remove(at).0);
                }
                _ => {
                    let row = random.below(2) as usize;
                    // More falls than rises, so that old maxima stay.
                    rows[row].change(random.below(1000) as i64 - 600);
                    if random.below(20) == 0 {
                        rows[row].change(random.below(20_000) as i64);
                    }
                    for (_, most) in &mut followed {
                        most[row] = most[row].max(rows[row].live);
                    }
                }
            }
            assert_eq!(maxima.open(), followed.len());
            for (moment, most) in &followed {
                for row in [0, 1] {
                    let found = maxima.since(row, *moment).max(rows[row].most);
                    assert_eq!(found, most[row]);
                }
            }
        }
    }

    #[test]
    fn they_are_those_of_whoever_looks_at_each_change() {
        for seed in 1..40 {
            at_random(seed, 2 + seed % 9);
        }
    }

    #[test]
    fn what_nobody_asks_for_goes() {
        let (mut maxima, mut row) = (PeaksSince::default(), Row::default());
        row.change(1_000_000);
        let first = maxima.begin([(0, row.cut())]);
        for _ in 2..100_000 {
            row.change(-1);
            let moment = maxima.begin([(0, row.cut())]);
            maxima.end(moment);
        }
        assert!(maxima.rows[0].len() < 200, "{}", maxima.rows[0].len());
        assert_eq!(maxima.since(0, first), 1_000_000);
    }
}
