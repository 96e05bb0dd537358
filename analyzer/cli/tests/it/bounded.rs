//! A bounded capture of the same records gives the same results.

use std::path::Path;

use gpumem_capture::*;

use crate::again::Again;
use crate::run::{analyze, found};
use crate::training::training;

/// Records everything in `from` again. After these numbers of records it adds so many meaningless definitions that the
/// log of a bounded capture wraps around.
fn again(from: &Path, to: &Path, bounded: Option<u64>, states: &[usize]) {
    let writer = Writer::create(to, &Options::default().bounded(bounded)).expect("a new file");
    let mut noise = 1_u64;
    let mut character = |_| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b' ' + (noise >> 58) as u8)
    };
    let padding: String = (0..500_000).map(&mut character).collect();
    let mut again = Again::into(writer, bounded.is_some());
    again.all_of(from, &mut |count, again| {
        if states.contains(&count) {
            for _ in 0..16 {
                let (key, value) = ("padding".into(), padding.clone());
                again.define(&Definition::Process { key, value });
            }
            let (key, value) = ("padding".into(), String::new());
            again.define(&Definition::Process { key, value });
        }
    });
    again.finish();
}

/// Compares the output of each view for both kinds of captures.
pub fn compare(capture: &Path) {
    let mut records = 0;
    Reader::open(capture)
        .expect("a capture")
        .read(&mut |_| records += 1)
        .expect("a whole capture");
    let folder = tempfile::tempdir().expect("a folder");
    for states in [vec![records / 2, records * 2 / 3], vec![records - 1]] {
        let [full, bounded] =
            ["full", "bounded"].map(|name| folder.path().join(name).join("report.bin"));
        for path in [&full, &bounded] {
            let _ = std::fs::remove_dir_all(path.parent().expect("a folder"));
            std::fs::create_dir(path.parent().expect("a folder")).expect("a new folder");
        }
        again(capture, &full, None, &states);
        again(capture, &bounded, Some(16 << 20), &states);
        let mut reader = Reader::open(&bounded).expect("a bounded capture");
        let integrity = reader.read(&mut |_| {}).expect("a bounded capture");
        let from = integrity.bounded.expect("what it kept").from;
        assert!(from > Seq(0), "no state was written");
        for view in [
            &["lines"][..],
            &["lines", "--at", "end", "--level", "driver"],
            &["lines", "--format", "json"],
            &["lines", "--at", "end", "--format", "json"],
            &["ledger", "--segments"],
            &["ledger", "--format", "json"],
            &["ledger", "--at", "end", "--format", "json"],
            &["ledger", "--by", "owner"],
            &["tree", "--native"],
            &["flamegraph", "--format", "folded"],
            &["flamegraph", "--format", "folded", "--at", "end"],
        ] {
            let [a, b] = [&full, &bounded].map(|path| analyze(view, path));
            let [told, of_bounded] = [&a, &b].map(|out| match view.contains(&"json") {
                true => found(&out.stdout).to_string(),
                false => String::from_utf8_lossy(&out.stdout).into_owned(),
            });
            assert_eq!(told, of_bounded, "{view:?}, states after {states:?}");
            assert_eq!(a.status.code(), b.status.code(), "{view:?}");
        }
        let [a, b] = [&full, &bounded].map(|path| {
            let out = analyze(&["report", "--all", "--format", "json"], path).stdout;
            let mut json = found(&out);
            json["process"]["pid"].take();
            json["process"]["started_unix_ns"].take();
            json["process"]["duration_ns"].take();
            let notes = json["notes"].take();
            (json, notes)
        });
        assert_eq!(a.0, b.0);
        let notes = b.1.to_string();
        assert!(notes.contains("bounded to 16.0 MiB"), "{notes}");
        assert_eq!(analyze(&["check"], &bounded).status.code(), Some(0));
    }
}

#[test]
fn all_views_are_the_same_of_what_is_known() {
    for make in [training, crate::ledger::known, crate::phases::two_steps] {
        let folder = tempfile::tempdir().expect("a folder");
        compare(&make(folder.path()).finish());
    }
}

#[test]
fn what_is_gone_is_refused_with_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = training(folder.path()).finish();
    let bounded = folder.path().join("bounded.bin");
    let mut records = 0;
    Reader::open(&from)
        .expect("a capture")
        .read(&mut |_| records += 1)
        .expect("a whole capture");
    again(&from, &bounded, Some(16 << 20), &[records - 2]);
    for gone in [
        &["lines", "--at", "30"][..],
        &["ledger", "--at", "30"],
        &["lines", "--step", "1"],
        &["ledger", "--at", "peak=tensor"],
    ] {
        let out = analyze(gone, &bounded);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{gone:?}: {said}");
        assert!(
            said.contains("keeps only its newest records, here from event "),
            "{said}"
        );
    }
    let out = analyze(&["changes"], &bounded);
    assert_eq!(out.status.code(), Some(0));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("changes before event "), "{said}");
}

#[test]
fn what_grows_is_told_though_its_beginning_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = crate::leaks::many_steps(folder.path(), 40);
    let mut records = 0;
    Reader::open(&from)
        .expect("a capture")
        .read(&mut |_| records += 1)
        .expect("a whole capture");
    let bounded = folder.path().join("bounded.bin");
    again(&from, &bounded, Some(16 << 20), &[records / 2]);
    let of = |view: &[&str], path: &Path| -> serde_json::Value {
        let out = analyze(&[view, &["--format", "json"]].concat(), path);
        assert_eq!(out.status.code(), Some(0), "{view:?}");
        found(&out.stdout)
    };
    let [full, rest] = [&from, &bounded].map(|path| of(&["leaks"], path));
    let growing = |leaks: &serde_json::Value| {
        let rows = leaks["rows"].as_array().expect("rows").iter();
        let growing = rows.filter(|row| row["class"] == "growing");
        growing.cloned().collect::<Vec<_>>()
    };
    let keys = ["line", "bytes", "blocks", "newest_step"];
    let row = |leaks| keys.map(|key| growing(leaks)[0][key].clone());
    assert_eq!(row(&rest), row(&full));
    assert_eq!(
        growing(&rest)[0]["bytes_per_step"],
        growing(&full)[0]["bytes_per_step"]
    );
    assert_eq!(growing(&full)[0]["oldest_step"], 1);
    assert!(
        growing(&rest)[0]["oldest_step"].is_null(),
        "it is from before"
    );
    assert_eq!(
        (&rest["bytes"], &rest["steps"]),
        (&full["bytes"], &full["steps"])
    );
    let live =
        |path: &Path| of(&["lines", "--by", "size", "--at", "end"], path)[0]["live_blocks"].clone();
    assert_eq!(live(&bounded), live(&from));
    let threads = |path: &Path| of(&["lines", "--by", "thread", "--at", "end"], path)[0].clone();
    let sums = [&bounded, &from].map(|path| threads(path)["sum"]["live_bytes"].clone());
    assert_eq!(sums[0], sums[1]);
    let rows = threads(&bounded)["rows"].as_array().expect("rows").clone();
    let unknown = |row: &serde_json::Value| row["thread"].is_null() && row["allocations"] == 0;
    assert!(rows.iter().any(unknown), "{rows:?}");
}
