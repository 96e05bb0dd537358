//! The totals of each view, and the sums of their parts.

use serde_json::Value;

use super::Sums;
use crate::value::{int, list, sum, sum_of};

/// The sum of a figure of all devices.
pub fn figure(summary: &Value, level: &str, figure: &str) -> i64 {
    let devices = list(&summary["devices"]).iter();
    devices.map(|device| int(&device[level][figure])).sum()
}

/// A device of the summary.
fn device<'a>(summary: &'a Value, ordinal: &Value) -> &'a Value {
    let mut devices = list(&summary["devices"]).iter();
    devices
        .find(|device| device["ordinal"] == *ordinal)
        .expect("the device")
}

pub fn of_level(rows: &Value, summary: &Value, level: &str, moment: &str, sums: &mut Sums) {
    let own = figure(summary, level, &format!("{moment}_bytes"));
    sums.add(
        format_args!("the {level} level's {moment}"),
        own,
        sum(rows, "bytes"),
    );
}

pub fn of_ledgers(ledgers: &Value, _: &Value, sums: &mut Sums) {
    for ledger in list(ledgers) {
        let of = format!("GPU {}", ledger["device"]);
        sums.add(&of, int(&ledger["bytes"]), sum(&ledger["rows"], "bytes"));
        let pool = &ledger["pool"];
        let segments: &[Value] = match pool.is_null() {
            true => &[],
            false => list(&pool["segments"]),
        };
        if segments.is_empty() {
            continue;
        }
        for (whole, part) in [
            ("reserved_bytes", "bytes"),
            ("live_bytes", "live_bytes"),
            ("cached_bytes", "cached_bytes"),
        ] {
            let parts = sum(&pool["segments"], part);
            sums.add(
                format_args!("{of}: the pool's {whole}"),
                int(&pool[whole]),
                parts,
            );
        }
        for segment in segments {
            let at = format!("{of}: segment {}", segment["address"]);
            let (live, cached) = (int(&segment["live_bytes"]), int(&segment["cached_bytes"]));
            sums.add(
                format_args!("{at}: lines"),
                live,
                sum(&segment["lines"], "bytes"),
            );
            sums.add(
                format_args!("{at}: parts"),
                int(&segment["bytes"]),
                live + cached,
            );
        }
        if !list(&pool["lines"]).is_empty() {
            let parts = sum(&pool["lines"], "bytes");
            sums.add(
                format_args!("{of}: the pool's lines"),
                int(&pool["live_bytes"]),
                parts,
            );
        }
    }
}

pub fn of_tree(tree: &Value, summary: &Value, sums: &mut Sums) {
    sums.add(
        "the peak",
        figure(summary, "tensor", "peak_bytes"),
        int(&tree["bytes"]),
    );
    let mut nodes = vec![tree];
    while let Some(node) = nodes.pop() {
        let parts = sum(&node["children"], "bytes") + int(&node["own_bytes"]);
        sums.add(&node["frame"], int(&node["bytes"]), parts);
        // Blocks of the frame itself are not listed.
        let (blocks, parts) = (int(&node["blocks"]), sum(&node["children"], "blocks"));
        sums.add(
            format_args!("{}: blocks", node["frame"]),
            blocks,
            parts.max(blocks),
        );
        nodes.extend(list(&node["children"]));
    }
}

pub fn of_temporary(found: &Value, _: &Value, sums: &mut Sums) {
    for field in ["bytes", "blocks"] {
        sums.add(field, int(&found[field]), sum(&found["rows"], field));
    }
}

pub fn of_sizes(devices: &Value, summary: &Value, sums: &mut Sums) {
    for one in list(devices) {
        for field in [
            "allocations",
            "allocated_bytes",
            "live_blocks",
            "live_bytes",
        ] {
            sums.add(field, int(&one[field]), sum(&one["rows"], field));
        }
        let level = &device(summary, &one["device"])["tensor"];
        sums.add(
            "the peak",
            int(&level["peak_bytes"]),
            int(&one["live_bytes"]),
        );
        sums.add(
            "the allocations",
            int(&level["allocations"]),
            int(&one["allocations"]),
        );
    }
}

pub fn of_threads(devices: &Value, summary: &Value, sums: &mut Sums) {
    for one in list(devices) {
        let all = &one["sum"];
        for field in [
            "allocations",
            "allocated_bytes",
            "frees",
            "freed_bytes",
            "live_blocks",
            "live_bytes",
        ] {
            sums.add(field, int(&all[field]), sum(&one["rows"], field));
        }
        let level = &device(summary, &one["device"])["tensor"];
        sums.add(
            "the peak",
            int(&level["peak_bytes"]),
            int(&all["live_bytes"]),
        );
        sums.add("the frees", int(&level["frees"]), int(&all["frees"]));
    }
}

pub fn of_pools(pools: &Value, _: &Value, sums: &mut Sums) {
    let parts = |at: &Value| int(&at["live_bytes"]) + int(&at["free_bytes"]);
    for pool in list(pools) {
        for (when, at) in [
            ("now", pool),
            ("the reserved peak", &pool["at_reserved_peak"]),
        ] {
            if at.is_null() || list(&at["segments"]).is_empty() {
                continue;
            }
            for (whole, part) in [
                ("reserved_bytes", "bytes"),
                ("live_bytes", "live_bytes"),
                ("free_bytes", "cached_bytes"),
            ] {
                sums.add(
                    format_args!("{when}: {whole}"),
                    int(&at[whole]),
                    sum(&at["segments"], part),
                );
            }
            sums.add(
                format_args!("{when}: parts"),
                int(&at["reserved_bytes"]),
                parts(at),
            );
        }
        for at in list(&pool["times"]) {
            sums.add(
                format_args!("event {}", at["seq"]),
                int(&at["reserved_bytes"]),
                parts(at),
            );
        }
    }
}

pub fn of_diff(diff: &Value, summary: &Value, sums: &mut Sums) {
    for side in ["before_bytes", "after_bytes", "change_bytes"] {
        sums.add(side, int(&diff[side]), sum(&diff["rows"], side));
    }
    for row in list(&diff["rows"]) {
        let change = int(&row["after_bytes"]) - int(&row["before_bytes"]);
        sums.add(&row["owner"], int(&row["change_bytes"]), change);
    }
    sums.add(
        "the peak",
        figure(summary, "tensor", "peak_bytes"),
        int(&diff["before_bytes"]),
    );
    sums.add(
        "the end",
        figure(summary, "tensor", "live_bytes"),
        int(&diff["after_bytes"]),
    );
}

pub fn of_changes(changes: &Value, summary: &Value, sums: &mut Sums) {
    let moved = |groups: &Value| -> i64 {
        let groups = list(groups).iter();
        groups
            .map(|group| int(&group["bytes"]) * int(&group["blocks"]))
            .sum()
    };
    let mut live = std::collections::BTreeMap::new();
    for change in list(changes) {
        let moved = moved(&change["added"]) - moved(&change["removed"]);
        let event = format!("event {}", change["seq"]);
        sums.add(&event, int(&change["change_bytes"]), moved);
        let total = live.entry(change["device"].to_string()).or_insert(0);
        *total += moved;
        sums.add(
            format_args!("{event}: used"),
            int(&change["total_bytes"]),
            *total,
        );
    }
    for device in list(&summary["devices"]) {
        let total = live.get(&device["ordinal"].to_string()).copied();
        sums.add(
            "the end",
            int(&device["tensor"]["live_bytes"]),
            total.unwrap_or(0),
        );
    }
}

pub fn of_timeline(timeline: &Value, _: &Value, sums: &mut Sums) {
    for device in list(&timeline["devices"]) {
        let peak = &device["peak"];
        if device["device"].is_null() || peak.is_null() {
            continue;
        }
        let (bands, figures) = (list(&device["bands"]).len(), list(&peak["bytes"]).len());
        sums.add("bands", bands as i64, figures as i64);
        let wholes = ["physical_bytes", "driver_bytes", "tensor_bytes"];
        let whole = wholes
            .iter()
            .find_map(|of| peak[of].as_i64().filter(|of| *of != 0));
        sums.add(
            "the bands at the peak",
            whole.unwrap_or(0),
            sum_of(&peak["bytes"]),
        );
    }
}

/// The lines of a hint are the five largest.
pub fn of_hints(hints: &Value, _: &Value, sums: &mut Sums) {
    for hint in list(hints) {
        if (1..5).contains(&list(&hint["lines"]).len()) {
            sums.add(
                &hint["kind"],
                int(&hint["bytes"]),
                sum(&hint["lines"], "bytes"),
            );
        }
    }
}

pub fn of_failures(oom: &Value, _: &Value, sums: &mut Sums) {
    let ledger = &oom["ledger"];
    if ledger.is_null() {
        return;
    }
    sums.add(
        "failures",
        int(&oom["count"]),
        list(&oom["failures"]).len() as i64,
    );
    sums.add(
        "the ledger",
        int(&ledger["bytes"]),
        sum(&ledger["rows"], "bytes"),
    );
    let mut rows = list(&ledger["rows"]).iter();
    let tensors = rows.find(|row| row["kind"] == "tensors").expect("tensors");
    sums.add(
        "tensors",
        int(&tensors["bytes"]),
        sum(&oom["tensor"], "bytes"),
    );
    sums.add(
        "driver",
        int(&ledger["driver_bytes"]),
        sum(&oom["driver"], "bytes"),
    );
}
