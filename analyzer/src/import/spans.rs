//! Ranges of address space, as expandable segments map and unmap them, of any size.

use std::collections::BTreeMap;

/// Ranges that do not overlap, each with a value.
#[derive(Debug)]
pub(super) struct Spans<T> {
    /// By start address: the end and the value.
    spans: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self {
            spans: BTreeMap::new(),
        }
    }
}

impl<T: Copy> Spans<T> {
    /// Adds a range that overlaps no other: see [`Spans::remove`].
    pub fn add(&mut self, start: u64, end: u64, of: T) {
        if start < end {
            self.spans.insert(start, (end, of));
        }
    }

    /// Removes all addresses of a range. Returns the ranges that it overlapped, unchanged; their parts outside the
    /// range are kept.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<(u64, u64, T)> {
        if start >= end {
            return Vec::new();
        }
        let before = self.spans.range(..start).next_back();
        let reaches = before.filter(|(_, (until, _))| *until > start);
        let first = reaches.map_or(start, |(first, _)| *first);
        let touched: Vec<(u64, u64, T)> = self
            .spans
            .range(first..end)
            .map(|(from, (until, of))| (*from, *until, *of))
            .collect();
        for (from, until, of) in &touched {
            self.spans.remove(from);
            self.add(*from, start.min(*until), *of);
            self.add(end.max(*from), *until, *of);
        }
        touched
    }

    /// The parts of a range that no other covers.
    pub fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let before = self.spans.range(..=start).next_back();
        let mut at = before.map_or(start, |(_, (until, _))| start.max(*until));
        for (from, (until, _)) in self.spans.range(start..end) {
            if at < *from {
                gaps.push((at, *from));
            }
            at = at.max(*until);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// All, by address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, T)> {
        self.spans
            .iter()
            .map(|(from, (until, of))| (*from, *until, *of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spans: &Spans<char>) -> Vec<(u64, u64, char)> {
        spans.iter().collect()
    }

    #[test]
    fn what_is_taken_away_leaves_the_rest() {
        let mut spans = Spans::default();
        spans.add(10, 20, 'a');
        spans.add(20, 40, 'b');
        assert_eq!(spans.remove(15, 25), [(10, 20, 'a'), (20, 40, 'b')]);
        assert_eq!(all(&spans), [(10, 15, 'a'), (25, 40, 'b')]);
        assert_eq!(spans.remove(30, 35), [(25, 40, 'b')]);
        assert_eq!(all(&spans), [(10, 15, 'a'), (25, 30, 'b'), (35, 40, 'b')]);
        assert_eq!(spans.remove(15, 25), []);
        assert_eq!(spans.remove(0, 100).len(), 3);
        assert_eq!(all(&spans), []);
    }

    #[test]
    fn gaps_are_what_is_not_there() {
        let mut spans = Spans::default();
        spans.add(10, 20, 'a');
        spans.add(30, 40, 'b');
        assert_eq!(spans.gaps(0, 50), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(spans.gaps(15, 35), [(20, 30)]);
        assert_eq!(spans.gaps(10, 20), []);
        assert_eq!(spans.gaps(42, 45), [(42, 45)]);
    }
}
