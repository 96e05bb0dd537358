//! The captures of one job in a folder, each followed on its own thread, and the ranks that differ from their peers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpumem_analyzer::ranks::{Metric, Spread, groups, least, middle};

use crate::folder_rank::{RankNow, RankWatch};
use crate::place::Place;

/// The depth of nested folders that are searched.
const DEPTH: usize = 8;
/// The most captures that are followed.
const MOST: usize = 512;

/// A difference of a rank from its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The figure.
    pub metric: Metric,
    /// Its distance from the peers' median.
    pub off_bytes: i64,
    /// The number of peers, including the rank itself.
    pub peers: usize,
}

/// One row.
#[derive(Clone, Debug)]
pub struct FolderRow {
    /// The capture.
    pub file: PathBuf,
    /// The rank; `None` if nothing has been read yet.
    pub now: Option<Arc<RankNow>>,
    /// The figures that differ most from its peers', the largest difference first.
    pub differs: Vec<Differs>,
}

struct Member {
    watch: RankWatch,
    /// The file that it follows.
    file: Option<(u64, u64)>,
}

/// A folder of captures.
pub struct Folder {
    path: PathBuf,
    every: Duration,
    members: BTreeMap<PathBuf, Member>,
    /// Files that are not captures, by their length and time when they were checked: they may become captures.
    refused: HashMap<PathBuf, (u64, Option<SystemTime>)>,
    /// The number of captures beyond the limit.
    beyond: usize,
    /// The error of reading the folder.
    error: Option<String>,
}

impl Folder {
    /// Follows the captures below `path`; each rank's row is updated after every `every`.
    pub fn new(path: &Path, every: Duration) -> Self {
        let mut folder = Self {
            path: path.to_owned(),
            every,
            members: BTreeMap::new(),
            refused: HashMap::new(),
            beyond: 0,
            error: None,
        };
        folder.scan();
        folder
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of captures beyond the 512 that are followed.
    pub fn beyond(&self) -> usize {
        self.beyond
    }

    /// The error of reading the folder.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Follows captures that are new or were replaced.
    pub fn scan(&mut self) {
        let mut files = Vec::new();
        let found = list(&self.path, DEPTH, &mut files);
        self.error = found.err().map(|error| error.to_string());
        files.sort();
        self.beyond = 0;
        for path in files {
            self.take_up(path);
        }
    }

    fn take_up(&mut self, path: PathBuf) {
        let file = Place::of(&path).file;
        match self.members.get(&path) {
            Some(member) if file.is_none() || member.file == file => return,
            None if self.members.len() >= MOST => {
                self.beyond += 1;
                return;
            }
            _ => {}
        }
        let Ok(metadata) = path.metadata() else {
            return;
        };
        let stamp = (metadata.len(), metadata.modified().ok());
        if self.refused.get(&path) == Some(&stamp) {
            return;
        }
        match RankWatch::start(&path, self.every) {
            Ok(watch) => {
                self.refused.remove(&path);
                self.members.insert(path, Member { watch, file });
            }
            Err(_) => drop(self.refused.insert(path, stamp)),
        }
    }

    /// All current rows, by rank; captures without a rank come last, by name.
    pub fn rows(&self) -> Vec<FolderRow> {
        let mut rows: Vec<FolderRow> = self
            .members
            .iter()
            .map(|(path, member)| FolderRow {
                file: path.clone(),
                now: member.watch.now(),
                differs: Vec::new(),
            })
            .collect();
        rows.sort_by_key(|row| {
            let rank = row.now.as_ref().and_then(|now| now.rank);
            (rank.is_none(), rank, row.file.clone())
        });
        compare(&mut rows);
        rows
    }
}

/// Files below a folder. Unreadable entries within it are skipped.
fn list(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)?.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            Ok(kind) if kind.is_file() => files.push(path),
            Ok(kind) if kind.is_dir() && depth > 0 => {
                // It may have been removed meanwhile.
                let _ = list(&path, depth - 1, files);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The compared figures: of those that `ranks` compares, the ones that are known while a program runs.
const COMPARED: [Metric; 3] = [Metric::Tensors, Metric::Cache, Metric::Outside];

fn figure(metric: Metric, of: &RankNow) -> u64 {
    match metric {
        Metric::Tensors => of.tensor_peak,
        Metric::Cache => of.reserved_peak.saturating_sub(of.tensor_peak),
        _ => of
            .process_peak
            .saturating_sub(of.reserved_peak.max(of.tensor_peak)),
    }
}

fn whole(metric: Metric, of: &RankNow) -> u64 {
    match metric {
        Metric::Tensors => of.tensor_peak,
        Metric::Cache => of.reserved_peak,
        _ => of.process_peak,
    }
}

/// Marks ranks that differ from their peers, by the rule of `ranks`. Without ranks all captures are peers.
pub(crate) fn compare(rows: &mut [FolderRow]) {
    let has_ranks = rows.iter().any(|row| number(row).is_some());
    // If a rank has several captures, the one that held most is compared: the others come from its child processes.
    let mut one_each: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(now) = &row.now else { continue };
        let key = match has_ranks {
            true => match now.rank {
                Some(rank) => rank,
                None => continue,
            },
            false => at as u64,
        };
        let held = |at: &usize| rows[*at].now.as_ref().map_or(0, |of| of.process_peak);
        let other = one_each.entry(key).or_insert(at);
        if held(&at) > held(other) {
            *other = at;
        }
    }
    let places: Vec<_> = one_each
        .iter()
        .filter_map(|(key, at)| Some((*key, rows[*at].now.as_ref()?.coordinates.clone())))
        .collect();
    for keys in groups(&places).into_values() {
        let peers: Vec<(usize, Arc<RankNow>)> = keys
            .iter()
            .filter_map(|key| one_each.get(key))
            .filter_map(|at| Some((*at, rows[*at].now.clone()?)))
            .collect();
        for metric in COMPARED {
            mark(metric, &peers, rows);
        }
    }
    for row in rows {
        row.differs
            .sort_by_key(|of| std::cmp::Reverse(of.off_bytes.unsigned_abs()));
    }
}

fn number(row: &FolderRow) -> Option<u64> {
    row.now.as_ref().and_then(|now| now.rank)
}

fn mark(metric: Metric, peers: &[(usize, Arc<RankNow>)], rows: &mut [FolderRow]) {
    let mut wholes: Vec<u64> = peers.iter().map(|(_, of)| whole(metric, of)).collect();
    let least = least(middle(&mut wholes).unwrap_or(0));
    let figures = peers.iter().map(|(_, of)| figure(metric, of) as i64);
    let Some(spread) = Spread::of(&mut figures.collect::<Vec<_>>(), least) else {
        return;
    };
    for (at, of) in peers {
        let off = spread.off(figure(metric, of) as i64);
        if let (Some(off_bytes), Some(row)) = (off, rows.get_mut(*at)) {
            row.differs.push(Differs {
                metric,
                off_bytes,
                peers: peers.len(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumem_analyzer::ranks::Coordinates;

    use crate::frame::State;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn row(rank: Option<u64>, tensors: u64) -> FolderRow {
        let now = RankNow {
            rank,
            local_rank: rank,
            host: None,
            pid: 1,
            coordinates: Coordinates::default(),
            state: State::Running,
            device: None,
            card: None,
            tensors,
            tensor_peak: tensors,
            reserved: None,
            reserved_peak: tensors,
            process: tensors,
            process_peak: tensors,
            nvml: None,
            steps: 0,
            failures: 0,
            events: 1,
        };
        FolderRow {
            file: "report.bin".into(),
            now: Some(Arc::new(now)),
            differs: Vec::new(),
        }
    }

    fn marked(mut rows: Vec<FolderRow>) -> Vec<i64> {
        compare(&mut rows);
        let of = |row: &FolderRow| row.differs.first().map_or(0, |of| of.off_bytes);
        rows.iter().map(of).collect()
    }

    #[test]
    fn a_rank_that_holds_more_is_marked_and_its_child_and_what_has_no_rank_are_not() {
        let rows = vec![
            row(Some(0), 100 * MIB),
            row(Some(0), MIB),
            row(Some(1), 101 * MIB),
            row(Some(2), 140 * MIB),
            row(None, MIB),
        ];
        assert_eq!(marked(rows), [0, 0, 0, 39 * MIB as i64, 0]);
    }

    #[test]
    fn without_ranks_all_captures_are_peers() {
        let rows = [100, 100, 50].map(|mib| row(None, mib * MIB));
        assert_eq!(marked(rows.to_vec()), [0, 0, -50 * MIB as i64]);
    }
}
