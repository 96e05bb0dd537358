//! The data of the page of a job.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::answer::first_answer;
use super::super::caveats::caveats;
use crate::ranks::{Clock, Ended, Endings, Heatmap, Job, Outlier, Part};
use crate::render::{Source, Terminal};

/// The maximum number of differing ranks whose lines are in the page.
const TOLD: usize = 64;

/// All data except the heatmap's cells.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    named: &'a str,
    answer: Vec<String>,
    differs: bool,
    /// The start of the heatmap, in milliseconds since 1970. All times are nanoseconds from there.
    from_unix_ms: u64,
    column_ns: u64,
    columns: usize,
    most: [u64; 3],
    units: [u64; 3],
    ranks: Columns<'a>,
    groups: Vec<Group>,
    outliers: Vec<Told<'a>>,
    /// All ranks that differ.
    outlying: Vec<u64>,
    endings: &'a Endings,
    clocks: &'a [Clock],
    notes: Vec<String>,
}

/// The ranks, column by column.
#[derive(Default, Serialize)]
struct Columns<'a> {
    hosts: Vec<&'a str>,
    places: Vec<String>,
    rank: Vec<u64>,
    /// Indices into `hosts`.
    host: Vec<Option<usize>>,
    local_rank: Vec<Option<u64>>,
    device: Vec<Option<u8>>,
    /// Indices into `places`.
    place: Vec<Option<usize>>,
    tensors: Vec<u64>,
    reserved: Vec<u64>,
    process: Vec<u64>,
    nccl: Vec<u64>,
    symmetric: Vec<u64>,
    unexplained: Vec<Option<i64>>,
    steps: Vec<u64>,
    ended: Vec<Ended>,
    ended_ns: Vec<i64>,
    wanted: BTreeMap<usize, u64>,
    partial: Vec<usize>,
    pid: Vec<u32>,
    file: Vec<String>,
}

#[derive(Serialize)]
struct Group {
    place: String,
    /// Indices into the columns.
    ranks: Vec<usize>,
}

#[derive(Serialize)]
struct Told<'a> {
    word: &'static str,
    /// The source text of each difference's line.
    texts: Vec<String>,
    #[serde(flatten)]
    of: &'a Outlier,
}

impl<'a> Data<'a> {
    /// From a job with its heatmap, whose cells have these units.
    pub fn of(job: &'a Job, map: &Heatmap, units: [u64; 3], named: &'a str) -> Self {
        let by_rank: Vec<&[Outlier]> = job.outliers.chunk_by(|a, b| a.rank == b.rank).collect();
        let told = by_rank.iter().take(TOLD).copied().flatten();
        let mut source = Source::of_job(&job.source);
        let answer = first_answer(job, &by_rank, Terminal::PLAIN);
        let lines = |text: &str| {
            text.lines()
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let groups = job.groups.iter().map(|group| Group {
            place: group.coordinates.to_string(),
            ranks: group
                .ranks
                .iter()
                .filter_map(|rank| job.ranks.binary_search_by_key(rank, |row| row.rank).ok())
                .collect(),
        });
        let mut outlying: Vec<u64> = by_rank
            .iter()
            .filter_map(|of| Some(of.first()?.rank))
            .collect();
        outlying.sort_unstable();
        Self {
            named,
            answer: lines(&answer),
            differs: !by_rank.is_empty(),
            from_unix_ms: map.from_unix_ns / 1_000_000,
            column_ns: map.column_ns,
            columns: map.columns,
            most: map.most(),
            units,
            ranks: Columns::of(job, map),
            groups: groups.collect(),
            outliers: told
                .map(|of| Told {
                    word: of.metric.word(),
                    texts: of
                        .differences
                        .iter()
                        .map(|row| row.place.as_ref())
                        .map(|place| {
                            place.map_or_else(String::new, |at| source.line(&at.file, at.line))
                        })
                        .collect(),
                    of,
                })
                .collect(),
            outlying,
            endings: &job.endings,
            clocks: &job.clocks,
            notes: lines(&caveats(job)),
        }
    }
}

impl<'a> Columns<'a> {
    fn of(job: &'a Job, map: &Heatmap) -> Self {
        let mut columns = Self::default();
        let (mut hosts, mut places) = (BTreeMap::new(), BTreeMap::new());
        for (at, row) in job.ranks.iter().enumerate() {
            columns.rank.push(row.rank);
            columns.host.push(row.host.as_deref().map(|host| {
                *hosts.entry(host).or_insert_with(|| {
                    columns.hosts.push(host);
                    columns.hosts.len() - 1
                })
            }));
            let place = row.coordinates.as_ref().map(ToString::to_string);
            columns.place.push(place.map(|place| {
                *places.entry(place).or_insert_with_key(|place| {
                    columns.places.push(place.clone());
                    columns.places.len() - 1
                })
            }));
            columns.local_rank.push(row.local_rank);
            columns.device.push(row.device);
            for part in Part::ALL {
                columns.peaks(part).push(row.peak(part));
            }
            columns.nccl.push(row.nccl_bytes);
            columns.symmetric.push(row.symmetric_bytes);
            columns.unexplained.push(row.unexplained_bytes);
            columns.steps.push(row.steps);
            columns.ended.push(row.end.ended);
            let ahead = job
                .clocks
                .iter()
                .find(|clock| Some(&clock.host) == row.host.as_ref());
            let ended = i128::from(row.end.at_unix_ns) - i128::from(map.from_unix_ns);
            let ended = ended - i128::from(ahead.map_or(0, |clock| clock.ahead_ns));
            columns.ended_ns.push(ended as i64);
            columns
                .wanted
                .extend(row.end.wanted_bytes.map(|bytes| (at, bytes)));
            columns
                .partial
                .extend((!row.missing.is_empty()).then_some(at));
            columns.pid.push(row.pid);
            columns.file.push(row.file.display().to_string());
        }
        columns
    }

    fn peaks(&mut self, part: Part) -> &mut Vec<u64> {
        match part {
            Part::Tensors => &mut self.tensors,
            Part::Reserved => &mut self.reserved,
            Part::Process => &mut self.process,
        }
    }
}
