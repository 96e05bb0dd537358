//! The captures of one job in a folder, and the ranks that differ from their peers.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpumem_analyzer::captures::Search;
use gpumem_analyzer::ranks::{Differs, differing};

use super::captures::{Captures, Limits};
use super::frame::Frame;

/// The most captures that are followed.
const MOST: usize = 512;
/// The interval of frames.
const EVERY: Duration = Duration::from_millis(500);
/// The interval of searching for new captures.
const SCAN_EVERY: Duration = Duration::from_secs(1);

/// One row.
#[derive(Clone, Debug)]
pub struct FolderRow {
    /// The capture.
    pub file: PathBuf,
    /// Its figures; `None` if nothing has been read yet.
    pub now: Option<Arc<Frame>>,
    /// The figures that differ most from its peers', the largest difference first.
    pub differs: Vec<Differs>,
}

impl FolderRow {
    /// By rank; captures without a rank come last, by name.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        let rank = self.now.as_ref().and_then(|now| now.rank());
        (rank.is_none(), rank, self.file.clone())
    }
}

/// A folder of captures.
pub struct Folder {
    path: PathBuf,
    search: Search,
    captures: Captures,
    scanned: Instant,
    error: Option<String>,
}

impl Folder {
    /// Follows the captures below `path`.
    pub fn new(path: &Path) -> Self {
        let mut folder = Self {
            path: path.to_owned(),
            search: Search::default(),
            captures: Captures::new(Limits {
                captures: MOST,
                keep: None,
                every: EVERY,
                has_table: false,
            }),
            scanned: Instant::now(),
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
    pub fn beyond(&self) -> u64 {
        self.captures.counts().beyond
    }

    /// The error of reading the folder.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn scan(&mut self) {
        let found = self.search.find(std::slice::from_ref(&self.path));
        self.captures.update(&found);
        let own = format!("{}: ", self.path.display());
        let own = found.unreadable.iter().find_map(|of| of.strip_prefix(&own));
        self.error = own.map(str::to_owned);
        self.scanned = Instant::now();
    }

    /// All current rows, by rank. New captures are followed, at most a second after they appear.
    pub fn rows(&mut self) -> Vec<FolderRow> {
        if self.scanned.elapsed() >= SCAN_EVERY {
            self.scan();
        }
        let mut rows: Vec<FolderRow> = self
            .captures
            .now()
            .into_iter()
            .map(|now| FolderRow {
                file: now.path,
                now: now.frame,
                differs: Vec::new(),
            })
            .collect();
        rows.sort_by_cached_key(FolderRow::order);
        let known = rows.iter().enumerate();
        let known = known.filter_map(|(at, row)| Some((at, row.now.clone()?)));
        let (places, frames): (Vec<usize>, Vec<_>) = known.unzip();
        let compared: Vec<_> = frames.iter().map(|frame| &*frame.row).collect();
        for of in differing(&compared) {
            let row = places.get(of.at).and_then(|at| rows.get_mut(*at));
            row.into_iter().for_each(|row| row.differs.push(of));
        }
        for row in &mut rows {
            row.differs
                .sort_by_key(|of| Reverse(of.off_bytes.unsigned_abs()));
        }
        rows
    }
}
