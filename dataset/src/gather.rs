//! Captures into parts: of each run what fits into one.
//!
//! Which captures are in a part depends on their order alone. If some parts are written already, the rest falls into the
//! same parts as if all were gathered at once.

use std::collections::BTreeMap;
use std::io;

use crate::part::Gathered;
use crate::staged::Capture;

/// Captures of a part.
const CAPTURES: usize = 1024;
/// Rows of a part, and of all that are gathered at once; a capture with more is a part by itself.
const ROWS: u64 = 1_000_000;

/// Parts that are not full yet.
pub struct Gatherer {
    runs: BTreeMap<String, Gathered>,
    captures: usize,
    rows: u64,
}

impl Default for Gatherer {
    fn default() -> Self {
        Self::bounded(CAPTURES, ROWS)
    }
}

impl Gatherer {
    /// With other bounds: captures of a part; rows of a part, and of all that are gathered at once.
    pub fn bounded(captures: usize, rows: u64) -> Self {
        let runs = BTreeMap::new();
        Self {
            runs,
            captures,
            rows,
        }
    }

    /// Takes in a capture. Returns the parts that are full now.
    ///
    /// # Errors
    /// The system's, where its events are put aside.
    pub fn add(&mut self, capture: Capture) -> io::Result<Vec<Gathered>> {
        let run = capture.rows.run.clone();
        let gathered = self
            .runs
            .entry(run.clone())
            .or_insert_with(|| Gathered::new(&run));
        gathered.add(capture)?;
        let is_full = gathered.captures() >= self.captures;
        let mut full = Vec::new();
        if is_full {
            full.extend(self.runs.remove(&run));
        }
        while self.runs.values().map(Gathered::rows).sum::<u64>() > self.rows {
            let largest = self.runs.iter().max_by_key(|(_, gathered)| gathered.rows());
            let Some(name) = largest.map(|(name, _)| name.clone()) else {
                break;
            };
            full.extend(self.runs.remove(&name));
        }
        Ok(full)
    }

    /// The parts that are left.
    pub fn finish(self) -> impl Iterator<Item = Gathered> {
        self.runs.into_values()
    }
}
