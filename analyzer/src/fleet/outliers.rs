//! Ranks of many runs that differ from their peers.
//!
//! The rows are those that `queries/outliers/` of the Python package selects from a dataset. Each run becomes a [`Job`], so
//! the rule is that of captures.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use gpumem_dataset::{Error, each_row, parquet_files};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::envelope::{Body, Form, Heads, View};
use crate::ranks::{Coordinates, End, Figures, Held, Job, Keys, Of, Outlier, RankRow, Steps};

/// Ranks of many runs that differ from their peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetOutliers {
    /// Number of captures that were compared.
    pub captures: u64,
    /// Number of their runs.
    pub runs: u64,
    /// Ranks that differ, the one with the largest sum of differences first.
    pub ranks: Vec<Outlying>,
}

/// A rank of a run that differs from its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outlying {
    /// Its run.
    pub run: String,
    /// Its number.
    pub rank: u64,
    /// The coordinates that its peers share, such as `pp=1`; empty if they share none.
    pub peers: String,
    /// The figures in which it differs. `differences` has the lines that account for each.
    pub outliers: Vec<Outlier>,
}

impl View for FleetOutliers {
    const FORM: Form = Form {
        name: "fleet-outliers",
        body: Body::Data,
        heads: Heads::None,
    };
}

impl FleetOutliers {
    /// Compares the ranks of each run; `most` is the maximum number of ranks in the result. A folder has the Parquet
    /// files of its runs' rows in `ranks/`, ordered by run, and in `steps/`, `held/` and `lines/`, which may be missing.
    /// Except for `ranks/`, all rows of a folder are in memory.
    ///
    /// # Errors
    /// Files that cannot be read, columns that are missing, and rows of `ranks/` that are not ordered by run.
    pub fn of(folders: &[PathBuf], most: usize) -> Result<Self, Error> {
        let (mut all, mut before) = (Self::default(), HashSet::new());
        for folder in folders {
            let mut rows = Rows::read(folder)?;
            let (mut run, mut figures) = (String::new(), Vec::new());
            for file in parquet_files(&folder.join("ranks"))? {
                each_row(
                    &file,
                    RANKS,
                    ["run", "coordinates"],
                    |numbers, [name, at]| {
                        let name = text(name)?;
                        if name != run {
                            if !before.insert(name.to_owned()) {
                                let why =
                                    format!("the rows of run {name} do not follow each other");
                                return Err(io::Error::other(why));
                            }
                            let run = mem::replace(&mut run, name.to_owned());
                            all.compare(run, mem::take(&mut figures), &rows.keys, most);
                        }
                        figures.push(rows.figures(numbers, Coordinates::parse(text(at)?)));
                        Ok(())
                    },
                )?;
            }
            all.compare(run, figures, &rows.keys, most);
        }
        Ok(all)
    }

    fn compare(&mut self, run: String, figures: Vec<Figures>, keys: &Keys, most: usize) {
        self.runs += u64::from(!figures.is_empty());
        self.captures += figures.len() as u64;
        // Only a mesh can be refused.
        let Ok(mut job) = Job::of(figures, keys, Vec::new(), None) else {
            return;
        };
        for of in &mut job.outliers {
            of.differences.retain(|row| of.metric.has(row.of));
        }
        for of in job.outliers.chunk_by(|a, b| a.rank == b.rank) {
            let rank = of.first().map_or(0, |of| of.rank);
            let mut groups = job.groups.iter();
            let group = groups.find(|group| group.ranks.contains(&rank));
            self.ranks.push(Outlying {
                run: run.clone(),
                rank,
                peers: group.map_or_else(String::new, |of| of.coordinates.to_string()),
                outliers: of.to_vec(),
            });
        }
        self.ranks.sort_by_cached_key(|of| {
            let off = of.outliers.iter().map(|of| of.off_bytes.unsigned_abs());
            (Reverse(off.sum::<u64>()), of.run.clone(), of.rank)
        });
        self.ranks.truncate(most);
    }
}

/// Columns of `ranks/` with numbers.
const RANKS: [&str; 9] = [
    "capture",
    "device",
    "rank",
    "started",
    "ended",
    "tensor_peak_bytes",
    "reserved_peak_bytes",
    "process_peak_bytes",
    "unexplained_bytes",
];

/// A GPU of a capture, by the capture's key and its number.
type Gpu = (i64, i64);

/// The rows of a folder, by GPU.
#[derive(Default)]
struct Rows {
    points: FxHashMap<Gpu, Vec<(u64, u64, u64)>>,
    held: FxHashMap<Gpu, Vec<Held>>,
    keys: Keys,
}

impl Rows {
    fn read(folder: &Path) -> Result<Self, Error> {
        let mut rows = Self::default();
        let files = |name| match folder.join(name) {
            folder if folder.exists() => parquet_files(&folder),
            _ => Ok(Vec::new()),
        };
        let steps = ["capture", "device", "first_step", "steps", "bytes"];
        for file in files("steps")? {
            each_row(
                &file,
                steps,
                [],
                |[capture, device, first, steps, bytes], []| {
                    let points = rows.points.entry(gpu(capture, device)).or_default();
                    points.push((amount(first), amount(steps), amount(bytes)));
                    Ok(())
                },
            )?;
        }
        let mut labels = FxHashMap::default();
        for file in files("lines")? {
            each_row(&file, ["line_key"], ["label"], |[key], [label]| {
                labels.insert(key, text(label)?.to_owned());
                Ok(())
            })?;
        }
        let mut numbers = FxHashMap::default();
        let held = ["capture", "device", "line_key", "bytes"];
        for file in files("held")? {
            each_row(
                &file,
                held,
                ["level"],
                |[capture, device, line, bytes], [level]| {
                    let of = match level {
                        Some(b"tensor") => Of::Line,
                        Some(b"pool") => Of::Pool,
                        _ => Of::Outside,
                    };
                    let number = *numbers.entry((of, line)).or_insert_with(|| {
                        let label = labels.get(&line).cloned();
                        rows.keys.number(of, label.unwrap_or_default())
                    });
                    let held = rows.held.entry(gpu(capture, device)).or_default();
                    held.push((number, amount(bytes)));
                    Ok(())
                },
            )?;
        }
        Ok(rows)
    }

    /// The figures of a capture.
    fn figures(&mut self, of: [Option<i64>; 9], coordinates: Option<Coordinates>) -> Figures {
        let [
            capture,
            device,
            rank,
            started,
            ended,
            tensors,
            reserved,
            process,
            unexplained,
        ] = of;
        let gpu = gpu(capture, device);
        let mut held = self.held.remove(&gpu).unwrap_or_default();
        // A line has a row for each category and module.
        held.sort_unstable();
        held.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        Figures {
            row: RankRow {
                rank: amount(rank),
                is_numbered: true,
                coordinates,
                tensor_peak_bytes: amount(tensors),
                reserved_peak_bytes: amount(reserved),
                device_peak_bytes: amount(process),
                unexplained_bytes: unexplained,
                end: End {
                    at_unix_ns: amount(ended).saturating_mul(1000),
                    ..End::default()
                },
                ..RankRow::default()
            },
            started_unix_ns: amount(started).saturating_mul(1000),
            steps: Steps::of_points(self.points.remove(&gpu).unwrap_or_default()),
            held,
            ..Figures::default()
        }
    }
}

fn gpu(capture: Option<i64>, device: Option<i64>) -> Gpu {
    (capture.unwrap_or_default(), device.unwrap_or_default())
}

/// Bytes, steps or microseconds, which are never negative.
fn amount(number: Option<i64>) -> u64 {
    number.map_or(0, |number| number.max(0).unsigned_abs())
}

fn text(text: Option<&[u8]>) -> io::Result<&str> {
    str::from_utf8(text.unwrap_or_default()).map_err(io::Error::other)
}
