//! Peaks over commits.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::judge::Comparison;

/// A workload's peak at a commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PastPeak {
    /// The commit's hash.
    pub commit: String,
    /// The workload.
    pub workload: String,
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The level's name.
    pub level: String,
    /// The commit's time: seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// The peak.
    pub peak_bytes: u64,
    /// Whether the capture was exact.
    pub exact: bool,
}

impl PastPeak {
    /// The key of a row: commit, workload, device and level. It is unique.
    pub fn key(&self) -> (&str, &str, Option<u8>, &str) {
        (&self.commit, &self.workload, self.device, &self.level)
    }
}

/// The head's peaks as rows of the history.
pub fn past_peaks(comparison: &Comparison, commit: &str, seconds: i64) -> Vec<PastPeak> {
    let workloads = comparison.workloads.iter().map(|judged| &judged.workload);
    let rows = workloads.filter_map(|of| Some((of, of.head.as_ref()?)));
    let rows = rows.flat_map(|(of, quality)| {
        let peaks = of
            .devices
            .iter()
            .filter_map(|row| Some((row.device, row.head_bytes?)));
        peaks.map(move |(device, peak_bytes)| PastPeak {
            commit: commit.to_owned(),
            workload: of.name.clone(),
            device,
            level: of.level.name().to_owned(),
            seconds,
            peak_bytes,
            exact: quality.missing.is_empty(),
        })
    });
    rows.collect()
}

/// A commit of a trend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrendCommit {
    /// Its time: seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Its hash.
    pub hash: String,
}

/// One workload's peaks on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The workload, with its device and level if it has several.
    pub name: String,
    /// The peak of each commit and whether it is exact; `None` if the commit has none.
    pub points: Vec<Option<(u64, bool)>>,
}

impl Series {
    /// Its peaks: commit's index, bytes, whether they are exact.
    pub fn known(&self) -> impl DoubleEndedIterator<Item = (usize, u64, bool)> {
        let points = self.points.iter().enumerate();
        points.filter_map(|(at, point)| point.map(|(bytes, exact)| (at, bytes, exact)))
    }

    /// Its newest peak.
    pub fn last(&self) -> u64 {
        self.known().next_back().map_or(0, |(_, bytes, _)| bytes)
    }
}

/// Peaks over the newest commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trend {
    /// The commits, oldest first.
    pub commits: Vec<TrendCommit>,
    /// A line for each workload and device, the greatest newest peak first.
    pub series: Vec<Series>,
}

impl Trend {
    /// The newest `most` commits of a history. Of rows with the same key, the first counts.
    pub fn of(rows: &[PastPeak], most: usize) -> Self {
        let mut first = BTreeMap::new();
        for row in rows {
            first.entry(row.key()).or_insert(row);
        }
        let commit = |row: &PastPeak| TrendCommit {
            seconds: row.seconds,
            hash: row.commit.clone(),
        };
        // The time of a commit is that of its first row.
        let mut times = BTreeMap::new();
        for row in first.values() {
            times.entry(&row.commit).or_insert_with(|| commit(row));
        }
        let commits: BTreeSet<TrendCommit> = times.into_values().collect();
        let skipped = commits.len().saturating_sub(most);
        let commits: Vec<TrendCommit> = commits.into_iter().skip(skipped).collect();
        let places: BTreeMap<&str, usize> = commits
            .iter()
            .enumerate()
            .map(|(at, commit)| (commit.hash.as_str(), at))
            .collect();
        let mut lines: BTreeMap<_, Vec<Option<(u64, bool)>>> = BTreeMap::new();
        for row in first.values() {
            if let Some(at) = places.get(row.commit.as_str()) {
                let of = (row.workload.as_str(), row.device, row.level.as_str());
                let points = lines.entry(of).or_insert_with(|| vec![None; commits.len()]);
                points[*at] = Some((row.peak_bytes, row.exact));
            }
        }
        let keys: Vec<_> = lines.keys().copied().collect();
        let name = |(workload, device, level): (&str, Option<u8>, &str)| {
            let mut name = workload.to_owned();
            let same = keys.iter().filter(|key| key.0 == workload);
            if same.clone().any(|key| key.1 != device) {
                name.push_str(
                    &device.map_or(", no GPU".into(), |device| format!(", GPU {device}")),
                );
            }
            if same.clone().any(|key| key.2 != level) {
                name.push_str(&format!(", {level}"));
            }
            name
        };
        let series = lines.into_iter().map(|(of, points)| Series {
            name: name(of),
            points,
        });
        let mut series: Vec<Series> = series.collect();
        series.sort_by_key(|series| std::cmp::Reverse(series.last()));
        Self { commits, series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(commit: &str, workload: &str, seconds: i64, peak_bytes: u64) -> PastPeak {
        PastPeak {
            commit: commit.into(),
            workload: workload.into(),
            device: Some(0),
            level: "tensor".into(),
            seconds,
            peak_bytes,
            exact: true,
        }
    }

    #[test]
    fn the_newest_commits_are_in_the_order_of_their_times() {
        let rows = [
            row("c", "a", 30, 3),
            row("a", "a", 10, 1),
            row("b", "a", 20, 2),
            row("b", "big", 20, 9),
        ];
        let trend = Trend::of(&rows, 2);
        let hashes: Vec<_> = trend.commits.iter().map(|of| of.hash.as_str()).collect();
        assert_eq!(hashes, ["b", "c"]);
        let lines: Vec<_> = trend
            .series
            .iter()
            .map(|of| (of.name.as_str(), of.last()))
            .collect();
        assert_eq!(lines, [("big", 9), ("a", 3)]);
        assert_eq!(trend.series[0].points, [Some((9, true)), None]);
    }

    #[test]
    fn a_key_counts_once_and_devices_are_named_where_there_are_several() {
        let other = PastPeak {
            device: Some(1),
            ..row("a", "w", 1, 7)
        };
        let trend = Trend::of(&[row("a", "w", 1, 5), row("a", "w", 2, 6), other], 100);
        let lines: Vec<_> = trend
            .series
            .iter()
            .map(|of| (of.name.as_str(), of.last()))
            .collect();
        assert_eq!(lines, [("w, GPU 1", 7), ("w, GPU 0", 5)]);
        assert_eq!(trend.commits.len(), 1);
    }
}
