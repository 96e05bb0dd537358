//! Why a rank differs: its lines, categories and modules compared with the median of its peers.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::holders::{Held, Keys, Of, Place};

/// Bytes of one holder of memory in a rank that differs, and in its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Kind of the holder, and with it the memory that `bytes` counts.
    pub of: Of,
    /// Name of the holder: a line (`train.py:88`), a category, a module's qualified name, or a library.
    pub name: String,
    /// Bytes that the rank has of this holder at its peak; 0 if it has none. The peak is that of tensors for `line`,
    /// `category` and `module`, otherwise that of the driver level.
    pub bytes: u64,
    /// Median of the same bytes over all peers, the rank included, each at its own peak. Peers without the holder
    /// count as 0.
    pub median_bytes: u64,
    /// Source line of the holder; `None` if it is not a line.
    #[serde(skip)]
    pub place: Option<Place>,
}

impl Difference {
    /// Bytes that the rank has more than the median; negative: less.
    pub fn off(&self) -> i64 {
        self.bytes as i64 - self.median_bytes as i64
    }
}

/// The maximum number of holders of each kind that are shown.
const MOST: usize = 5;
/// Holders with less than 1 / `LEAST` of the difference are not shown.
const LEAST: u64 = 20;

/// The median of each holder that any peer has.
pub struct Medians(FxHashMap<u32, u64>);

impl Medians {
    /// Computes the medians of the holders of these peers.
    pub fn of(peers: &[&[Held]]) -> Self {
        let mut all: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        for peer in peers {
            for (key, bytes) in *peer {
                all.entry(*key).or_default().push(*bytes);
            }
        }
        let middle = peers.len().saturating_sub(1) / 2;
        let medians = all.into_iter().map(|(key, mut bytes)| {
            // Peers without it hold 0 bytes of it.
            let without = peers.len() - bytes.len();
            let at = middle.checked_sub(without);
            (key, at.map_or(0, |at| *bytes.select_nth_unstable(at).1))
        });
        Self(medians.collect())
    }

    /// The holders that explain a difference of about `off`, the largest of each kind first.
    pub fn differences(&self, held: &[Held], off: i64, keys: &Keys) -> Vec<Difference> {
        let own: FxHashMap<u32, u64> = held.iter().copied().collect();
        let others = self.0.keys().filter(|key| !own.contains_key(key));
        let both = own.keys().chain(others);
        let mut found: Vec<_> = both
            .filter_map(|key| {
                let (of, name) = keys.name(*key)?;
                Some(Difference {
                    of,
                    name: name.to_owned(),
                    bytes: own.get(key).copied().unwrap_or(0),
                    median_bytes: self.0.get(key).copied().unwrap_or(0),
                    place: keys.place_of(*key).cloned(),
                })
            })
            .filter(|row| row.off().unsigned_abs() > off.unsigned_abs() / LEAST)
            .collect();
        found.sort_by(|a, b| {
            let order = |row: &Difference| (row.of, Reverse(row.off().unsigned_abs()));
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
        });
        let mut shown = 0;
        let mut last = None;
        found.retain(|row| {
            shown = if last.replace(row.of) == Some(row.of) {
                shown + 1
            } else {
                1
            };
            shown <= MOST
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[(Of, &str)]) -> Keys {
        let mut keys = Keys::default();
        for (of, name) in names {
            keys.number(*of, (*name).to_owned());
        }
        keys
    }

    #[test]
    fn peers_that_do_not_have_something_hold_none_of_it() {
        let most: &[Held] = &[(0, 100), (1, 7)];
        let some: &[Held] = &[(0, 90)];
        let medians = Medians::of(&[most, most, some, some, &[]]);
        let keys = keys(&[
            (Of::Line, "a.py:1"),
            (Of::Line, "a.py:2"),
            (Of::Line, "a.py:3"),
        ]);
        let found = medians.differences(&[(2, 50)], -90, &keys);
        let rows: Vec<_> = found
            .iter()
            .map(|row| (&*row.name, row.bytes, row.median_bytes))
            .collect();
        assert_eq!(rows, [("a.py:1", 0, 90), ("a.py:3", 50, 0)]);
    }

    #[test]
    fn small_shares_and_the_sixth_of_a_kind_are_left_out() {
        let names: Vec<String> = (0..8).map(|line| format!("a.py:{line}")).collect();
        let mut all: Vec<_> = names.iter().map(|name| (Of::Line, &**name)).collect();
        all.push((Of::Category, "activation"));
        let held: Vec<Held> = (0..8)
            .map(|key| (key, 100 - u64::from(key)))
            .chain([(8, 20)])
            .collect();
        let found = Medians::of(&[&[], &[], &held]).differences(&held, 400, &keys(&all));
        let rows: Vec<_> = found.iter().map(|row| &*row.name).collect();
        assert_eq!(rows, ["a.py:0", "a.py:1", "a.py:2", "a.py:3", "a.py:4"]);
    }
}
