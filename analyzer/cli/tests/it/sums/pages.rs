//! The widths of a flamegraph and the stacks of a page sum to the level, and parts of a change to the change.

use serde_json::Value;

use super::{figure, json, words};
use crate::captures::{Captures, none};
use crate::run::{found, run, stdout};
use crate::value::{int, list, sum};

#[test]
fn the_widths_of_a_flamegraph_sum_to_the_lines() {
    let captures = Captures::copied(&super::CAPTURES);
    let mut faults = Vec::new();
    for name in super::CAPTURES {
        for options in [
            "--level tensor",
            "--level tensor --at end",
            "--level driver",
        ] {
            let command = format!("flamegraph --format folded {options} FILE");
            let folded = stdout(&run(words(&command, &captures, name)));
            let widths = folded.lines().map(|line| {
                let (_, width) = line.rsplit_once(' ').expect("a width");
                width.parse::<i64>().expect("bytes")
            });
            let widths: i64 = widths.sum();
            let rows = sum(
                &json(&format!("lines {options} FILE"), &captures, name),
                "bytes",
            );
            if widths != rows {
                faults.push(format!(
                    "{name}: {options}: {widths}, but the lines own {rows}"
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_stacks_of_a_page_sum_to_the_level() {
    let captures = Captures::copied(&super::CAPTURES);
    let mut faults = Vec::new();
    for name in super::CAPTURES {
        let page = stdout(&run(words("html -o - FILE", &captures, name)));
        let (_, from) = page
            .split_once(r#"<script type="application/json" id="data">"#)
            .expect("data");
        let data: Value =
            serde_json::from_str(from.split_once("</script>").expect("an end").0).expect("JSON");
        let moments = list(&data["devices"])
            .iter()
            .flat_map(|device| list(&device["moments"]));
        let mut levels = 0;
        for moment in moments {
            for level in list(&moment["levels"]) {
                let stacks = list(&level["stacks"]).iter().map(|stack| int(&stack[1]));
                let parts = stacks.sum::<i64>() + int(&level["others"][1]);
                levels += 1;
                if parts != int(&level["bytes"]) {
                    let of = (&moment["kind"], &level["level"], &level["bytes"]);
                    faults.push(format!("{name}: {of:?}, but the stacks own {parts}"));
                }
            }
        }
        if levels == 0 {
            faults.push(format!("{name}: the page has no levels"));
        }
    }
    none(&faults);
}

/// `gpumem ci` of two captures that have little in common.
#[test]
fn changes_of_parts_sum_to_the_change() {
    let captures = Captures::copied(&super::CAPTURES);
    let base = captures.path("demo");
    let mut faults = Vec::new();
    let peaks = |name: &str| json("report --all FILE", &captures, name);
    for name in super::CAPTURES.into_iter().skip(1) {
        let command = format!(
            "ci --level tensor --base {} --head FILE --format json",
            base.display()
        );
        let output = run(words(&command, &captures, name));
        let found = found(&output.stdout);
        let [workload] = list(&found["workloads"]) else {
            panic!("{found}")
        };
        let devices = list(&workload["devices"]);
        for (side, of) in [("base_bytes", "demo"), ("head_bytes", name)] {
            let (peak, whole) = (
                figure(&peaks(of), "tensor", "peak_bytes"),
                sum(&workload["devices"], side),
            );
            if peak != whole {
                faults.push(format!("{name}: {side}: {whole}, but the peaks are {peak}"));
            }
        }
        for (device, parts) in devices
            .iter()
            .flat_map(|of| ["lines", "categories", "modules"].map(|parts| (of, parts)))
        {
            // Without modules in both captures, there are no rows of modules.
            let is_known = parts != "modules" || !list(&device[parts]).is_empty();
            let (change, sum) = (
                int(&device["change_bytes"]),
                sum(&device[parts], "change_bytes"),
            );
            if is_known && change != sum {
                faults.push(format!(
                    "{name}: {parts}: {change}, but the rows sum to {sum}"
                ));
            }
        }
    }
    none(&faults);
}
