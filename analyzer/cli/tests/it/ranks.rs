//! Pictures of a job's ranks.

use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::ranks::{Course, Figures, Job, Keys, StepWatch};
use gpumem_analyzer::render::ranks_page;
use gpumem_analyzer::replay::Query;
use gpumem_capture::{EventKind, Options, Origin, ProcessKey, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};

const STARTED: u64 = 1_790_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// A rank of a job, on a host whose clock is ahead by `ahead`: ten steps, each with a tensor of `size` MiB.
fn rank(folder: &Path, rank: u64, host: &str, ahead: u64, size: u64) -> PathBuf {
    let folder = folder.join(rank.to_string());
    std::fs::create_dir(&folder).expect("a folder");
    let mut options = Options::default();
    options.origin = Some(Origin {
        started_wall_ns: STARTED + ahead,
        nonce: rank,
    });
    let mut capture = Synthetic::with_options(&folder, &options);
    capture.fact(ProcessKey::RANK, &rank.to_string());
    capture.fact(ProcessKey::WORLD_SIZE, "4");
    capture.fact(ProcessKey::HOST, host);
    for step in 1..=10 {
        let size = size * M * step;
        capture.tensor(step, size, size, StackId::NONE, StackId::NONE);
        capture.free_tensor(step, size, size, StackId::NONE);
        capture.mark(EventKind::STEP, step);
    }
    capture.finish_then()
}

fn peaks(row: &Value) -> Vec<usize> {
    let cells = row["greatest"].as_array().expect("cells");
    let first = row["first_column"].as_u64().expect("a column") as usize;
    let most = cells.iter().map(|cell| cell[0].as_u64()).max();
    let at = (0..cells.len()).filter(|at| Some(cells[*at][0].as_u64()) == most);
    at.map(|at| first + at).collect()
}

#[test]
fn a_machine_whose_clock_is_off_is_moved_and_named() {
    let folder = tempdir().expect("a folder");
    for (number, host, ahead) in [(0, "a", 0), (1, "a", 0), (2, "b", 0), (3, "c", 7 * SECOND)] {
        rank(folder.path(), number, host, ahead, 4);
    }
    let arguments = ["ranks", "--timeline", "--format", "json"];
    let (job, status) = json_of(&arguments, folder.path());
    assert_eq!(status, 0, "{job}");
    let clocks = job["clocks"].as_array().expect("clocks");
    assert_eq!(clocks.len(), 1, "{clocks:?}");
    assert_eq!(clocks[0]["host"], "c");
    assert_eq!(clocks[0]["ahead_ns"], 7 * SECOND);
    assert_eq!(
        (&clocks[0]["steps"], &clocks[0]["scatter_ns"]),
        (&10.into(), &0.into())
    );
    let rows = job["timeline"]["ranks"].as_array().expect("rows");
    let all: Vec<_> = rows.iter().map(peaks).collect();
    assert_eq!(all.len(), 4);
    // The shift has the precision of a column.
    assert!(
        all[3][0].abs_diff(all[0][0]) <= 1 && all[0] == all[1],
        "{all:?}"
    );
    assert!(
        job["timeline"]["column_ns"]
            .as_u64()
            .is_some_and(|width| width < SECOND / 10)
    );
    let text = stdout(&analyze(&["ranks", "--timeline"], folder.path()));
    let said = "The clock of c is 7.00 s ahead of its peers', measured at the ends of 10 steps";
    assert!(text.contains(said), "{text}");
}

#[test]
fn many_ranks_share_rows_and_those_that_differ_have_their_own() {
    let (mut figures, keys) = many(1000, 64, |rank, at| {
        if rank == 700 && at > 32 {
            180
        } else {
            100 + at % 3
        }
    });
    for of in &mut figures {
        of.row.host = Some(format!("node{}", of.row.rank / 8));
    }
    figures[700].row.tensor_peak_bytes = 180 * M;
    let job = Job::of(figures, &keys, Vec::new(), None).expect("a job");
    let map = job.heatmap(256);
    let terminal = gpumem_analyzer::render::Terminal::PLAIN;
    let part = gpumem_analyzer::ranks::Part::Tensors;
    let text = gpumem_analyzer::render::ranks_timeline_text(
        &job,
        &map,
        part,
        gpumem_analyzer::render::Cells::Letters,
        terminal,
    );
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with("iB") && !line.contains("0 B"))
        .collect();
    assert_eq!(rows.len(), 33, "{text}");
    assert!(
        rows[0].trim_start().starts_with("*") && rows[0].contains(" 700 "),
        "{text}"
    );
    assert_eq!(
        rows.iter().filter(|row| row.contains('@')).count(),
        1,
        "{text}"
    );
    assert!(
        rows[1].contains(" 0-31 ") && rows[1].ends_with(" 100 MiB"),
        "{text}"
    );
    assert!(rows.iter().all(|row| row.chars().count() == 80), "{text}");
    assert!(
        text.contains("a row the largest of up to 32 ranks; * differs from its peers."),
        "{text}"
    );
}

/// Figures of many ranks with tensors of `size(rank, bucket)` MiB over time, made from those of one capture.
fn many(ranks: u64, buckets: u64, size: impl Fn(u64, u64) -> u64) -> (Vec<Figures>, Keys) {
    let folder = tempdir().expect("a folder");
    let file = rank(folder.path(), 0, "a", 0, 10);
    let mut keys = Keys::default();
    let mut steps = StepWatch::default();
    let mut capture = CaptureFile::open(&file).expect("a capture");
    let session = capture.read_with(Query::default(), &mut |replay, record, _| {
        steps.observe(replay, &record);
    });
    let session = session.expect("a capture");
    let one = Figures::of(&file, &session, steps, &mut keys);
    let figures = (0..ranks).map(|rank| {
        let mut of = one.clone();
        of.row.rank = rank;
        of.row.file = format!("/data/runs/2026-11-25/report.rank{rank}.bin").into();
        of.world_size = Some(ranks);
        let greatest = (0..buckets).map(|at| {
            let tensors = size(rank, at) * M;
            [tensors, tensors + 20 * M, tensors + 500 * M]
        });
        of.drawn.course = Course {
            shift: 28,
            first: STARTED >> 28,
            greatest: greatest.collect(),
        };
        of
    });
    (figures.collect(), keys)
}

/// Pseudorandom numbers.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40
}

/// Incompressible data: each cell of each rank differs.
#[test]
fn the_page_of_ten_thousand_ranks_that_never_do_the_same_has_5_mb_at_most() {
    let (mut figures, keys) = many(10_000, 128, |rank, at| {
        40_000 + noise(rank * 1000 + at) % 40_000
    });
    for of in &mut figures {
        let rank = of.row.rank;
        of.row.host = Some(format!("node{:04}.cluster.example", rank / 8));
        of.row.pid = noise(rank) as u32;
        of.row.tensor_peak_bytes = noise(rank) * 512;
        of.row.reserved_peak_bytes = noise(rank) * 700;
        of.row.device_peak_bytes = noise(rank) * 800;
        of.row.end.at_unix_ns += noise(rank);
    }
    let job = Job::of(figures, &keys, Vec::new(), None).expect("a job");
    let page = ranks_page(&job, "run/").expect("a page");
    assert!(page.len() <= 5_000_000, "{}", page.len());
    assert!(page.len() > 1_000_000, "{}", page.len());
}
