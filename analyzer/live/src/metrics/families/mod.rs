//! The metrics of all captures at a point in time.

mod capture;
mod card;
mod family;
mod lines;
mod process;
mod ranks;

use std::time::SystemTime;

use crate::frames::Counts;
pub(super) use capture::Capture;
pub(super) use family::{Families, Family, Kind, Labels, Value};

/// All metrics, with this number of lines of each capture. `counts`: those of a search.
pub(super) fn metrics(captures: &[Capture], counts: Option<Counts>, lines: usize) -> Families {
    let mut families = Families::default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.as_nanos() as u64);
    card::add(&mut families, captures, now_ns);
    for capture in captures {
        process::add(&mut families, capture);
        lines::add(&mut families, capture, lines);
    }
    ranks::add(&mut families, captures);
    if let Some(counts) = counts {
        own(&mut families, counts);
    }
    families
}

fn own(families: &mut Families, counts: Counts) {
    let states = [
        ("running", counts.running),
        ("ended", counts.ended),
        ("past", counts.past),
        ("beyond_limit", counts.beyond),
        ("unreadable", counts.unreadable),
    ];
    for (state, count) in states {
        families.gauge(
            "gpumem_exporter_captures",
            "Captures that were found. Past ones, those beyond the limit and unreadable ones have no figures.",
            &[("state", state)],
            count,
        );
    }
    families.gauge(
        "gpumem_exporter_build_info",
        "The exporter's version; always 1.",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1_u64,
    );
}
