//! Matches the lines of two versions of a function, although edits moved them.

/// One line of a function: its number and what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The line's number.
    pub line: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// The maximum number of cells of the table. Otherwise, lines are matched by their numbers.
const MOST: usize = 1 << 20;

/// Matches lines of `base` and `head`, as indices; both are sorted by number.
///
/// If both have the same numbers, lines are matched by number. Otherwise, the lines moved: the match keeps the order
/// and has the least sum of changes. In both cases each line is in the result exactly once.
pub fn align(base: &[Held], head: &[Held]) -> Vec<(Option<usize>, Option<usize>)> {
    let numbers = |side: &[Held]| side.iter().map(|held| held.line).collect::<Vec<_>>();
    if numbers(base) == numbers(head) {
        return (0..base.len()).map(|at| (Some(at), Some(at))).collect();
    }
    if base.len().saturating_mul(head.len()) > MOST {
        return by_number(base, head);
    }
    in_order(base, head)
}

fn by_number(base: &[Held], head: &[Held]) -> Vec<(Option<usize>, Option<usize>)> {
    let of = |side: &[Held], line| side.binary_search_by_key(&line, |held| held.line).ok();
    let mut pairs: Vec<_> = (0..base.len())
        .map(|at| (Some(at), of(head, base[at].line)))
        .collect();
    let new = (0..head.len()).filter(|at| of(base, head[*at].line).is_none());
    pairs.extend(new.map(|at| (None, Some(at))));
    pairs
}

/// Changed bytes, then unmatched lines.
type Cost = (u128, usize);

fn in_order(base: &[Held], head: &[Held]) -> Vec<(Option<usize>, Option<usize>)> {
    let alone = |(bytes, gaps): Cost, held: &Held| (bytes + u128::from(held.bytes), gaps + 1);
    let paired = |(bytes, gaps): Cost, a: &Held, b: &Held| {
        (bytes + u128::from(a.bytes.abs_diff(b.bytes)), gaps)
    };
    let width = head.len() + 1;
    // The least cost of the first `row` lines of base and the first `column` of head.
    let mut costs: Vec<Cost> = vec![(0, 0); (base.len() + 1) * width];
    for row in 0..=base.len() {
        for column in 0..=head.len() {
            let at = row * width + column;
            costs[at] = match (row, column) {
                (0, 0) => (0, 0),
                (0, _) => alone(costs[at - 1], &head[column - 1]),
                (_, 0) => alone(costs[at - width], &base[row - 1]),
                _ => paired(costs[at - width - 1], &base[row - 1], &head[column - 1])
                    .min(alone(costs[at - width], &base[row - 1]))
                    .min(alone(costs[at - 1], &head[column - 1])),
            };
        }
    }
    let (mut row, mut column, mut pairs) = (base.len(), head.len(), Vec::new());
    while row > 0 || column > 0 {
        let at = row * width + column;
        let is_paired = row > 0
            && column > 0
            && costs[at] == paired(costs[at - width - 1], &base[row - 1], &head[column - 1]);
        if is_paired {
            (row, column) = (row - 1, column - 1);
            pairs.push((Some(row), Some(column)));
        } else if row > 0 && costs[at] == alone(costs[at - width], &base[row - 1]) {
            row -= 1;
            pairs.push((Some(row), None));
        } else {
            column -= 1;
            pairs.push((None, Some(column)));
        }
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[(u32, u64)]) -> Vec<Held> {
        of.iter()
            .map(|(line, bytes)| Held {
                line: *line,
                bytes: *bytes,
            })
            .collect()
    }

    #[test]
    fn equal_numbers_decide() {
        let pairs = align(&lines(&[(1, 10), (2, 20)]), &lines(&[(1, 20), (2, 10)]));
        assert_eq!(pairs, [(Some(0), Some(0)), (Some(1), Some(1))]);
    }

    #[test]
    fn lines_that_moved_keep_their_order() {
        // Two lines were inserted above; the second one grew.
        let pairs = align(
            &lines(&[(50, 100), (53, 10)]),
            &lines(&[(52, 100), (55, 58)]),
        );
        assert_eq!(pairs, [(Some(0), Some(0)), (Some(1), Some(1))]);
    }

    #[test]
    fn a_new_line_has_no_partner() {
        // The new line has the earlier number of another line.
        let pairs = align(
            &lines(&[(50, 100), (51, 7)]),
            &lines(&[(50, 100), (51, 48), (52, 7)]),
        );
        assert_eq!(
            pairs,
            [(Some(0), Some(0)), (None, Some(1)), (Some(1), Some(2))]
        );
    }

    #[test]
    fn each_line_is_there_once() {
        for (base, head) in [
            (lines(&[]), lines(&[(1, 1)])),
            (lines(&[(1, 1), (2, 0), (9, 4)]), lines(&[])),
            (lines(&[(1, 5), (2, 5), (3, 5)]), lines(&[(2, 5), (4, 9)])),
        ] {
            for pairs in [align(&base, &head), by_number(&base, &head)] {
                let mut left: Vec<_> = pairs.iter().filter_map(|pair| pair.0).collect();
                let mut right: Vec<_> = pairs.iter().filter_map(|pair| pair.1).collect();
                left.sort_unstable();
                right.sort_unstable();
                assert_eq!(left, (0..base.len()).collect::<Vec<_>>());
                assert_eq!(right, (0..head.len()).collect::<Vec<_>>());
            }
        }
    }
}
