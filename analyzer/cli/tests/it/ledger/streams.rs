//! The row of streams.

use super::*;

#[test]
fn streams_have_a_row_with_the_line_that_made_most_of_them() {
    let folder = tempdir().expect("a folder");
    let mut capture = known(folder.path());
    let line = |line| ("/home/me/run/train.py", "<module>", line, true);
    let (few, many) = (capture.python(&[line(30)]), capture.python(&[line(31)]));
    load(&mut capture, 0xe2, 0x9999_0000, PYTHON, few);
    let before = capture.alloc(Level::HOST, 1, M, StackId::NONE, StackId::NONE);
    let streams = CONTEXT.with(POOL);
    capture.resize(0xc1, (0, 6 * M), streams, few);
    capture.resize(0xc1, (6 * M, 70 * M), streams, many);
    let physical = 432 * M + 70 * M;
    capture.sample(physical, 700 * M, physical, NONE);
    let file = capture.finish();
    let found = ledger(&[], &file);
    let row = |kind: &str, name: &str, bytes| (kind.to_owned(), name.to_owned(), bytes);
    assert!(rows(&found).contains(&row("streams", "CUDA streams", 70)));
    assert!(rows(&found).contains(&row("context", "CUDA context", 308)));
    let all = found["rows"].as_array().expect("rows");
    let of_streams = all.iter().find(|row| row["kind"] == "streams");
    assert_eq!(of_streams.expect("a row")["line"], 31);
    // Because code was loaded, the point in time has the figures of the next reading.
    let then = ledger(&["--at", &before.0.to_string()], &file);
    assert_eq!(of_kind(&then, "streams"), 70);
}
