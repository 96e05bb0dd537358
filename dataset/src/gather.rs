//! Groups the captures of each run into parts.
//!
//! The captures of a part depend only on their order. If some parts are written already, the remaining captures form
//! the same parts as if all were gathered at once.

use std::collections::BTreeMap;
use std::io;

use crate::part::Gathered;
use crate::spool::Capture;

/// The most captures per part.
const CAPTURES: usize = 1024;
/// The most rows per part, and the most gathered at once; a capture with more rows is a part by itself.
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
    /// Sets other bounds: captures per part; and rows per part, also the bound for all that are gathered at once.
    pub fn bounded(captures: usize, rows: u64) -> Self {
        let runs = BTreeMap::new();
        Self {
            runs,
            captures,
            rows,
        }
    }

    /// Adds a capture. Returns the parts that are now full.
    ///
    /// # Errors
    /// Those of the system, when the events are written to a temporary file.
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

    /// The remaining parts.
    pub fn finish(self) -> impl Iterator<Item = Gathered> {
        self.runs.into_values()
    }
}
