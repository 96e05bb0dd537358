//! Which of NVML's readings belongs to a ledger, and what it lacks.

use super::*;

#[test]
fn the_moment_is_any_event_and_the_reading_the_first_one_after_it() {
    let folder = tempdir().expect("a folder");
    let mut capture = known(folder.path());
    // A little more comes. Then both tensors go, and the workspace; NVML is read while that happens, and
    // once more.
    let before_it = capture.alloc(Level::HOST, 1, M, StackId::NONE, StackId::NONE);
    capture.asked(0x3000_0000, 2 * M, NONE, CUBLAS, StackId::NONE);
    capture.given(0x3000_0000, 2 * M, NONE);
    capture.free_tensor(0x1000_0000, 30 * M, 64 * M, StackId::NONE);
    let before = capture.free_tensor(0x1200_0000, 10 * M, 64 * M, StackId::NONE);
    capture.freed(Level::DRIVER, 0x2000_0000, 33 * M, NONE);
    capture.sample(437 * M, 700 * M, 434 * M, EventFlags::ESTIMATED);
    capture.freed(Level::PHYSICAL, 0x2000_0000, 34 * M, NONE);
    capture.sample(407 * M, 650 * M, 400 * M, NONE);
    let file = capture.finish();

    let then = ledger(&["--at", &before.0.to_string()], &file);
    assert_eq!(
        (of_kind(&then, "tensors"), of_kind(&then, "cached")),
        (0, 64)
    );
    assert_eq!(of_kind(&then, "library"), 35);
    assert_eq!(
        then["reading"]["physical_bytes"],
        400 * M,
        "not the estimated one"
    );
    assert_eq!(then["unexplained_bytes"], 7 * M);
    assert_eq!(then["other_processes_bytes"], 650 * M);
    // The card's figure is of an earlier reading: 1237 used, of which NVML names 407 and 650, and 100.
    assert_eq!(of_kind(&then, "no_process"), 80);
    assert_eq!(then["pool"]["reclaimable_bytes"], 64 * M);
    let text = stdout(&analyze(&["ledger", "--at", &before.0.to_string()], &file));
    assert!(
        text.contains("NVML was read 4.0 ms later, when the card had given 34.0 MiB less"),
        "{text}"
    );

    let reading = |seq: u64| {
        let found = ledger(&["--at", &seq.to_string()], &file);
        found["reading"]["physical_bytes"].clone()
    };
    assert_eq!(reading(before_it.0), 432 * M, "nothing was given since");
    assert_eq!(
        reading(before_it.0 + 2),
        432 * M,
        "nearer than the settled one after"
    );
    let text = stdout(&analyze(
        &["ledger", "--at", &before_it.0.to_string()],
        &file,
    ));
    assert!(
        text.contains("before, and has shown nothing else since"),
        "{text}"
    );

    let end = ledger(&["--at", "end"], &file);
    assert_eq!(
        (of_kind(&end, "library"), of_kind(&end, "rounding")),
        (2, 0)
    );
    assert_eq!(end["rows"][0]["kind"], "tensors", "none, and that is said");
    assert_eq!(end["physical_bytes"], 400 * M);
    assert_eq!(end["reading"]["physical_bytes"], 400 * M, "the last before");

    let between = before.0 + 1;
    let between = ledger(&["--at", &between.to_string()], &file);
    assert_eq!(
        of_kind(&between, "rounding"),
        34,
        "pages that are yet to be given back"
    );

    let peak = ledger(&["--at", "peak=physical"], &file);
    assert_eq!(peak["physical_bytes"], 434 * M);
    assert_eq!(of_kind(&peak, "tensors"), 40);
    assert_eq!(
        ledger(&["--at", "peak=driver"], &file)["driver_bytes"],
        99 * M
    );
    assert_eq!(
        of_kind(&ledger(&["--at", "peak=tensor"], &file), "tensors"),
        40
    );
    let (summary, _) = json_of(&["summary", "--format", "json"], &file);
    assert_eq!(summary["devices"][0]["unexplained_bytes"], 7 * M);
}

#[test]
fn nvml_may_keep_things_to_itself() {
    let silent = u64::MAX;
    // What is told: process, others; and what follows from a card with 150 MiB in use, 10 reserved.
    for (process, others, unexplained, other_row) in [
        (105 * M, silent, 5, 35),
        (silent, 30 * M, 10, 30),
        (silent, silent, 40, 0),
    ] {
        let folder = tempdir().expect("a folder");
        let mut capture = Synthetic::new(folder.path());
        capture.asked(0x1000_0000, 100 * M, NONE, PYTHON, StackId::NONE);
        capture.given(0x1000_0000, 100 * M, NONE);
        capture.sample(process, others, 100 * M, NONE);
        capture.card(150 * M, 10 * M);
        let file = capture.finish();
        let found = ledger(&[], &file);
        assert_eq!(found["bytes"], 150 * M);
        assert_eq!(of_kind(&found, "other_processes"), other_row);
        assert_eq!(found["unexplained_bytes"], unexplained * M);
        let told = |bytes: u64| {
            if bytes == silent {
                Value::Null
            } else {
                json!(bytes)
            }
        };
        assert_eq!(found["nvml_process_bytes"], told(process));
        assert_eq!(found["other_processes_bytes"], told(others));
    }
}
