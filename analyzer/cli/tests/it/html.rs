//! The HTML page.

use std::path::Path;

use gpumem_capture::{Options, ProcessKey, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::phases::two_steps;
use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

const BEGIN: &str = "<script type=\"application/json\" id=\"data\">";

fn page(file: &Path) -> String {
    let output = analyze(&["html", "-o", "-"], file);
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

fn data(page: &str) -> Value {
    let (_, from) = page.split_once(BEGIN).expect("the data");
    let (json, _) = from.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

#[test]
fn each_moment_has_the_bytes_that_the_other_views_have() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let data = data(&page(&file));
    let moments = list(&data["devices"][0]["moments"]);
    assert!(moments.len() > 5, "{}", moments.len());
    let mut kinds: Vec<&str> = moments
        .iter()
        .filter_map(|then| then["kind"].as_str())
        .collect();
    kinds.dedup();
    assert_eq!(kinds, ["most", "peak", "most", "end"]);
    for then in moments {
        for level in list(&then["levels"]) {
            let at = then["seq"].to_string();
            let name = level["level"].as_str().expect("a level");
            let arguments = ["lines", "--format", "json", "--at", &at, "--level", name];
            let (lines, _) = json_of(&arguments, &file);
            let wanted: u64 = list(&lines).iter().map(|row| number(&row["bytes"])).sum();
            let stacks = list(&level["stacks"]).iter();
            let sum: u64 = stacks.map(|row| number(&row[1])).sum();
            assert_eq!(sum + number(&level["others"][1]), wanted, "{name} at {at}");
            assert_eq!(number(&level["bytes"]), wanted);
        }
    }
}

#[test]
fn the_pages_ledger_chart_and_failures_are_those_of_their_commands() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let data = data(&page(&file));
    let device = &data["devices"][0];
    let (ledger, _) = json_of(&["ledger", "--format", "json"], &file);
    let rows = list(&device["ledger"]).iter();
    let names: Vec<_> = rows.map(|row| (&row["name"], &row["bytes"])).collect();
    let wanted = list(&ledger[0]["rows"]).iter();
    assert_eq!(
        names,
        wanted
            .map(|row| (&row["name"], &row["bytes"]))
            .collect::<Vec<_>>()
    );
    let pool = &ledger[0]["pool"];
    assert_eq!(device["pool"]["reserved"], pool["reserved_bytes"]);
    let segments = list(&device["pool"]["segments"]).iter();
    let sum: u64 = segments.map(|of| number(&of["bytes"])).sum();
    assert_eq!(sum, 256 * M);
    assert_eq!(device["peak"][1], ledger[0]["seq"]);
    let points = list(&device["chart"]["points"]).iter();
    let most = points.map(|point| number(&point[1])).max();
    assert_eq!(most, Some(202 * M));
    assert_eq!(number(&data["failures"][0]["bytes"]), 20 << 30);
    let source = data["stacks"]["owners"].to_string();
    assert!(source.contains("train.py:15"), "{source}");
}

#[test]
fn names_of_a_hostile_capture_are_only_text() {
    const EVIL: &str = "</script><script>alert('x')</script><!--<b title=\"";
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.fact(ProcessKey::COMMAND, EVIL);
    let stack = capture.python(&[(EVIL, EVIL, 7, true)]);
    capture.push_range(1, EVIL);
    capture.tensor(0x1000, 5 * M, 8 * M, stack, StackId::NONE);
    let before = capture.finish();
    let file = folder.path().join("a&<b>.bin");
    std::fs::rename(before, &file).expect("another name");
    let page = page(&file);
    let data = data(&page);
    assert!(
        data["ran"]
            .as_str()
            .expect("text")
            .contains("<!--<b title=")
    );
    assert!(
        data["stacks"]["names"][0]
            .as_str()
            .expect("text")
            .contains("alert")
    );
    assert_eq!(
        page.matches("<script").count(),
        2,
        "no more than the page's own"
    );
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("alert('x')</"));
    assert!(page.contains("<title>GPU memory: a&amp;&lt;b&gt;.bin</title>"));
}

/// More stacks, frames and text than fit: the omitted ones are summed, and the page stays small.
#[test]
fn a_page_is_never_larger_than_five_megabytes() {
    const STACKS: u64 = 8000;
    let folder = tempdir().expect("a folder");
    let mut capture =
        Synthetic::with_options(folder.path(), &Options::default().ring_slots(1 << 19));
    let names: Vec<&'static str> = (0..STACKS)
        .map(|n| &*Box::leak(format!("{n:04}{}", "long_name_".repeat(33)).into_boxed_str()))
        .collect();
    for (index, name) in names.iter().enumerate() {
        let lines: Vec<_> = (0..3).map(|line| (*name, *name, line + 1, false)).collect();
        let stack = capture.python(&lines);
        let bytes = 1000 + index as u64;
        capture.tensor(index as u64 * M, bytes, 1 << 33, stack, StackId::NONE);
    }
    let file = capture.finish();
    let page = page(&file);
    assert!(page.len() <= 5_000_000, "{}", page.len());
    let data = data(&page);
    let moments = list(&data["devices"][0]["moments"]);
    let end = &moments.last().expect("a moment")["levels"][0];
    let others = &end["others"];
    assert!(number(&others[0]) >= 1000, "{others}");
    let stacks = list(&end["stacks"]);
    let sum: u64 = stacks.iter().map(|row| number(&row[1])).sum();
    assert_eq!(stacks.len() as u64 + number(&others[0]), STACKS);
    assert_eq!(
        sum + number(&others[1]),
        (0..STACKS).map(|index| 1000 + index).sum::<u64>()
    );
}

#[test]
fn it_goes_beside_the_capture_and_is_the_same_each_time() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let said = stdout(&analyze(&["html"], &file));
    assert!(said.contains("report.html: "), "{said}");
    let beside = std::fs::read_to_string(folder.path().join("report.html")).expect("the page");
    assert_eq!(beside, page(&file));
    let empty = tempdir().expect("a folder");
    let nothing = data(&page(&Synthetic::new(empty.path()).finish()));
    assert_eq!(list(&nothing["devices"]).len(), 0);
}
