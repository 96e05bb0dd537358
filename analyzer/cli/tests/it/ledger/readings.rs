//! The NVML reading of a ledger, with missing and late readings.

use super::*;

#[test]
fn the_moment_is_any_event_and_the_reading_the_first_one_after_it() {
    let folder = tempdir().expect("a folder");
    let mut capture = known(folder.path());
    // A host allocation precedes. Then both tensors and the workspace are freed; NVML is read meanwhile and afterwards.
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
    // The card's figure comes from an earlier reading: 1237 used, of which NVML attributes 407 and 650, and 100.
    assert_eq!(of_kind(&then, "no_process"), 80);
    assert_eq!(then["pool"]["reclaimable_bytes"], 64 * M);
    let text = stdout(&analyze(&["ledger", "--at", &before.0.to_string()], &file));
    assert!(
        text.contains("NVML was read 4.0 ms later, when the physical level was 34.0 MiB less"),
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
        text.contains("earlier, and the physical level is unchanged since"),
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
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(summary["devices"][0]["unexplained_bytes"], 7 * M);
}

#[test]
fn nvml_may_keep_things_to_itself() {
    let silent = u64::MAX;
    // NVML's figures for the process and for others, and the results for a card with 150 MiB in use and 10 reserved.
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

/// A context of 300 MiB and a module of 20 MiB that a reading finds 4 ms after the tensors' peak, when some tensors are
/// already freed; a second module is loaded after the peak. Returns the peak and the context.
fn found_late(folder: &Path) -> (Synthetic, [u64; 2]) {
    let mut capture = Synthetic::new(folder);
    let first = capture.python(&[("/home/me/run/train.py", "<module>", 5, true)]);
    context(&mut capture, TORCH, first);
    let born = capture.alloc(Level::HOST, 1, M, StackId::NONE, StackId::NONE);
    load(&mut capture, 0xe0, 0x40_8000, CUDART, first);
    capture.asked(0x1000_0000, 64 * M, NONE, C10, first);
    capture.given(0x1000_0000, 64 * M, NONE);
    let peak = capture.tensor(0x1000_0000, 30 * M, 64 * M, first, StackId::NONE);
    load(&mut capture, 0xe1, 0x9999_0000, PYTHON, first);
    capture.free_tensor(0x1000_0000, 30 * M, 64 * M, StackId::NONE);
    capture.resize(0xc0, (0, 300 * M), CONTEXT, first);
    capture.resize(0xe0, (0, 20 * M), MODULE, first);
    capture.resize(0xe1, (0, 6 * M), MODULE, first);
    capture.sample(395 * M, 0, 390 * M, NONE);
    capture.card(395 * M, 0);
    (capture, [born.0, peak.0])
}

#[test]
fn contexts_and_code_are_as_of_the_reading_that_found_them() {
    let folder = tempdir().expect("a folder");
    let (capture, [born, peak]) = found_late(folder.path());
    let file = capture.finish();
    let at = peak.to_string();
    for arguments in [&[][..], &["--at", "peak=tensor"], &["--at", &at]] {
        let found = ledger(arguments, &file);
        assert_eq!(found["seq"], peak);
        assert_eq!(of_kind(&found, "context"), 300);
        assert_eq!(of_kind(&found, "module"), 20, "what there was at the peak");
        assert_eq!(of_kind(&found, "tensors"), 30);
        assert_eq!(found["physical_bytes"], 384 * M);
        assert_eq!(found["unexplained_bytes"], 5 * M);
        // The card's figure less the module that was loaded in between.
        assert_eq!(found["bytes"], (395 - 6) * M);
        assert_eq!(found["contexts_and_code_ns"], found["reading"]["time_ns"]);
        let arguments = [&["ledger"], arguments].concat();
        let text = stdout(&analyze(&arguments, &file));
        for note in [
            "NVML was read 6.0 ms later, when the physical level was 6.00 MiB more",
            "contexts and code are those of the reading at 00:03.212",
        ] {
            assert!(text.contains(note), "{text}");
        }
    }
    let before_the_module = ledger(&["--at", &born.to_string()], &file);
    assert_eq!(of_kind(&before_the_module, "context"), 300);
    assert_eq!(of_kind(&before_the_module, "module"), 0);
    let end = ledger(&["--at", "end"], &file);
    assert_eq!(
        (of_kind(&end, "module"), &end["contexts_and_code_ns"]),
        (26, &Value::Null)
    );
    // The report keeps the peak and reads the capture once.
    let text = stdout(&analyze(&[], &file));
    assert!(
        text.contains("contexts and code are those of the reading at 00:03.212"),
        "{text}"
    );
}

#[test]
fn what_begins_ends_or_shrinks_after_the_moment_is_not_charged_to_it() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let first = capture.python(&[("/home/me/run/train.py", "<module>", 5, true)]);
    context(&mut capture, TORCH, first);
    capture.resize(0xc0, (0, 300 * M), CONTEXT, first);
    capture.sample(300 * M, 0, 300 * M, NONE);
    load(&mut capture, 0xe0, 0x40_8000, CUDART, first);
    let moment = capture.alloc(Level::HOST, 1, M, StackId::NONE, StackId::NONE);
    // The module is unloaded, and another one gets its handle.
    capture.event(Event {
        kind: EventKind::MODULE_UNLOAD,
        ptr: 0xe0,
        ..Event::default()
    });
    load(&mut capture, 0xe0, 0x40_8000, CUDART, first);
    capture.resize(0xe0, (0, 20 * M), MODULE, first);
    // A limit is lowered and raised again.
    capture.resize(0xc0, (300 * M, 290 * M), CONTEXT, first);
    capture.resize(0xc0, (290 * M, 310 * M), CONTEXT, first);
    capture.sample(330 * M, 0, 330 * M, NONE);
    let file = capture.finish();
    let found = ledger(&["--at", &moment.0.to_string()], &file);
    assert_eq!(of_kind(&found, "context"), 300);
    assert_eq!(of_kind(&found, "module"), 0);
    assert_eq!(found["contexts_and_code_ns"], Value::Null);
    assert_eq!(
        found["reading"]["physical_bytes"],
        300 * M,
        "nothing was given since"
    );
}

#[test]
fn a_reading_that_still_holds_is_not_replaced_by_a_later_growth() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let first = capture.python(&[("/home/me/run/train.py", "<module>", 5, true)]);
    context(&mut capture, TORCH, first);
    capture.resize(0xc0, (0, 300 * M), CONTEXT, first);
    capture.sample(300 * M, 0, 300 * M, NONE);
    let moment = capture.alloc(Level::HOST, 1, M, StackId::NONE, StackId::NONE);
    capture.resize(0xc0, (300 * M, 308 * M), CONTEXT, first);
    capture.sample(308 * M, 0, 308 * M, NONE);
    let file = capture.finish();
    let found = ledger(&["--at", &moment.0.to_string()], &file);
    assert_eq!(
        (of_kind(&found, "context"), &found["contexts_and_code_ns"]),
        (300, &Value::Null)
    );
    assert_eq!(found["bytes"], 300 * M);
}
