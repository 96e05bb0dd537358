//! Rank by time: the memory of each rank in each column of a heatmap.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::clocks::Clock;
use super::course::{Course, Parts, join};

/// Memory of all ranks over time, in columns of equal width that all ranks share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Heatmap {
    /// Start of the first column, in nanoseconds since 1970-01-01 UTC; 0 if there are no columns.
    pub from_unix_ns: u64,
    /// Width of a column in nanoseconds, a power of two; 0 if there are no columns.
    pub column_ns: u64,
    /// Number of columns; 0 if no rank held memory.
    pub columns: usize,
    /// One row per rank, in the order of the ranks.
    pub ranks: Vec<HeatRow>,
}

/// Memory of one rank over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeatRow {
    /// Number of the rank.
    pub rank: u64,
    /// Column, counted from 0, in which the rank's figures begin.
    pub first_column: usize,
    /// One entry per column, from `first_column` to the rank's end: the maxima in bytes of tensors, of memory reserved
    /// by PyTorch's allocator, and of the process. Empty if the rank held no memory.
    pub greatest: Vec<Parts>,
}

impl HeatRow {
    /// The memory in a column; `None` before the rank's start and after its end.
    pub fn at(&self, column: usize) -> Option<&Parts> {
        self.greatest.get(column.checked_sub(self.first_column)?)
    }
}

impl Heatmap {
    /// Puts ranks with their machines and courses on one axis with a maximum number of columns. Wrong clocks are
    /// corrected to within half a column.
    pub fn of<'a>(
        ranks: impl Iterator<Item = (u64, Option<&'a str>, &'a Course)>,
        clocks: &[Clock],
        most: usize,
    ) -> Self {
        let ahead: BTreeMap<&str, i64> = clocks
            .iter()
            .map(|clock| (&*clock.host, clock.ahead_ns))
            .collect();
        let ranks: Vec<_> = ranks
            .map(|(rank, host, course)| {
                let ahead = host.and_then(|host| ahead.get(host)).copied();
                (rank, course, ahead.unwrap_or(0))
            })
            .collect();
        let with_any = || {
            ranks
                .iter()
                .filter(|(_, course, _)| !course.greatest.is_empty())
        };
        let mut shift = with_any().map(|(_, course, _)| course.shift).max();
        let (first, last) = loop {
            let Some(wide) = shift else {
                let ranks = ranks.iter().map(|(rank, ..)| HeatRow {
                    rank: *rank,
                    ..HeatRow::default()
                });
                return Self {
                    ranks: ranks.collect(),
                    ..Self::default()
                };
            };
            let first = with_any().map(|of| column(of, 0, wide)).min();
            let last = with_any()
                .map(|of| column(of, of.1.greatest.len() - 1, wide))
                .max();
            let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
            if last - first < most.max(1) as u64 {
                break (first, last);
            }
            shift = Some(wide + 1);
        };
        let shift = shift.unwrap_or(0);
        let rows = ranks.iter().map(|of| {
            let mut greatest: Vec<Parts> = Vec::new();
            let begin = column(of, 0, shift);
            for (index, parts) in of.1.greatest.iter().enumerate() {
                match greatest.get_mut((column(of, index, shift) - begin) as usize) {
                    Some(cell) => join(cell, *parts),
                    None => greatest.push(*parts),
                }
            }
            HeatRow {
                rank: of.0,
                first_column: begin.saturating_sub(first) as usize,
                greatest,
            }
        });
        Self {
            from_unix_ns: first << shift,
            column_ns: 1 << shift,
            columns: (last - first + 1) as usize,
            ranks: rows.collect(),
        }
    }

    /// End of the last column, in nanoseconds since 1970-01-01 UTC.
    pub fn to_unix_ns(&self) -> u64 {
        let long = self.column_ns.saturating_mul(self.columns as u64);
        self.from_unix_ns.saturating_add(long)
    }

    /// The maximum of each part.
    pub fn most(&self) -> Parts {
        let mut most = Parts::default();
        for cell in self.ranks.iter().flat_map(|row| &row.greatest) {
            join(&mut most, *cell);
        }
        most
    }
}

/// The column, counted from 1970, of a course's bucket. The width of a column is 2 to the power of `shift`.
fn column((_, course, ahead): &(u64, &Course, i64), index: usize, shift: u32) -> u64 {
    let at = (course.first + index as u64) >> (shift - course.shift).min(63);
    let half = if shift == 0 {
        0
    } else {
        1_i64 << (shift - 1).min(62)
    };
    // The offset is a whole number of columns, so that the buckets of a column stay together.
    let off = ahead.saturating_add(half) >> shift.min(63);
    at.saturating_add_signed(-off)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(shift: u32, first: u64, tensors: &[u64]) -> Course {
        Course {
            shift,
            first,
            greatest: tensors.iter().map(|of| [*of, 0, 0]).collect(),
        }
    }

    fn tensors(row: &HeatRow) -> Vec<u64> {
        row.greatest.iter().map(|[of, ..]| *of).collect()
    }

    #[test]
    fn courses_of_other_widths_stand_on_one_axis() {
        let (fine, coarse) = (course(20, 80, &[1, 2, 3, 4, 9]), course(21, 42, &[7, 8]));
        let ranks = [(0, None, &fine), (1, None, &coarse)];
        let map = Heatmap::of(ranks.into_iter(), &[], 64);
        assert_eq!(
            (map.from_unix_ns, map.column_ns, map.columns),
            (80 << 20, 1 << 21, 4)
        );
        assert_eq!(tensors(&map.ranks[0]), [2, 4, 9]);
        assert_eq!(
            (map.ranks[1].first_column, tensors(&map.ranks[1])),
            (2, vec![7, 8])
        );
        assert_eq!(
            (map.ranks[0].at(3), map.ranks[1].at(1), map.ranks[1].at(3)),
            (None, None, Some(&[8, 0, 0]))
        );
        let narrow = Heatmap::of(ranks.into_iter(), &[], 2);
        assert_eq!(narrow.columns, 2);
        assert_eq!(narrow.most()[0], 9);
        assert_eq!(tensors(&narrow.ranks[0]), [4, 9]);
    }

    #[test]
    fn a_machine_whose_clock_is_off_is_moved() {
        let (even, late) = (course(20, 100, &[1, 5, 1]), course(20, 107, &[1, 5, 1]));
        let clock = Clock {
            host: "b".into(),
            ahead_ns: (7 << 20) + 1000,
            scatter_ns: 0,
            steps: 9,
        };
        let ranks = [(0, Some("a"), &even), (1, Some("b"), &late)];
        let apart = Heatmap::of(ranks.into_iter(), &[], 64);
        assert_eq!((apart.columns, apart.ranks[1].first_column), (10, 7));
        let map = Heatmap::of(ranks.into_iter(), std::slice::from_ref(&clock), 64);
        assert_eq!((map.columns, map.ranks[1].first_column), (3, 0));
        let behind = Clock {
            ahead_ns: -(7 << 20),
            host: "a".into(),
            ..clock
        };
        let map = Heatmap::of(ranks.into_iter(), &[behind], 64);
        assert_eq!((map.columns, map.ranks[0].first_column), (3, 0));
    }

    #[test]
    fn ranks_that_held_nothing_have_empty_rows() {
        let none = Course::default();
        let map = Heatmap::of([(3, None, &none)].into_iter(), &[], 64);
        assert_eq!((map.columns, map.ranks.len(), map.ranks[0].rank), (0, 1, 3));
    }
}
