//! For the fuzz targets (fuzz/) and the tests that run them on their seeds: states of bounded captures, and line
//! tables of Python's code.

use gpumem_capture::{Record, Seq, StateSink as _};

use crate::python::line;
use crate::serialize::Serialize as _;
use crate::{BoundedReplay, Replay};

/// Restores a state, and checks that what it becomes, written and restored, is the same. Returns whether these bytes
/// are a state.
///
/// # Panics
/// If it is not.
pub fn judge_state(bytes: &[u8]) -> bool {
    let Some(replay) = Replay::take(&mut &bytes[..]) else {
        return false;
    };
    let mut once = Vec::new();
    replay.put(&mut once);
    let again = Replay::take(&mut &once[..]).expect("what was written is a state");
    let mut twice = Vec::new();
    again.put(&mut twice);
    assert!(once == twice, "another state after it was restored");
    true
}

/// The state after these records, as a recorder writes it, of at most `limit` bytes.
pub fn state_of<'a>(records: impl Iterator<Item = Record<'a>>, limit: usize) -> (Vec<u8>, Seq) {
    let (mut replay, mut next) = (BoundedReplay::default(), Seq(0));
    for record in records {
        let (Record::Event(seq, _) | Record::Definition(seq, _) | Record::State(seq, _)) = record;
        next = Seq(seq.0 + 1);
        replay.take(record);
    }
    let mut state = Vec::new();
    replay.state(limit, &mut state);
    (state, next)
}

/// CPython's forms of line tables.
const VERSIONS: [u32; 3] = [0x0309_00f0, 0x030a_00f0, 0x030c_00f0];

/// Looks lines up in an arbitrary table, and in one that is made from the same bytes and whose lines are known: u8 the
/// version, u32 the first line, i32 the offset, the table.
///
/// # Panics
/// If a line is wrong.
pub fn judge_lines(bytes: &[u8]) {
    let Some(([version, head @ ..], table)) = bytes.split_first_chunk::<9>() else {
        return;
    };
    let version = VERSIONS[usize::from(*version) % VERSIONS.len()];
    let [first, offset] =
        [0, 4].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let offset = offset as i32;
    let line_at = |offset| line(version, first, table, offset);
    assert_eq!(
        line_at(-1),
        Some(first),
        "a frame that was only just entered"
    );
    if offset < 0 {
        assert_eq!(line_at(offset), Some(first));
    }
    let _ = (line_at(offset), line_at(0), line_at(i32::MAX));
    judge_made(version, table);
}

/// Ranges of code of 2 to 16 bytes, each some lines after the one before, as a compiler writes them.
fn judge_made(version: u32, bytes: &[u8]) {
    const FIRST: u32 = 1_000_000;
    let (mut table, mut expected, mut at, mut now) =
        (Vec::new(), Vec::new(), 0_i32, i64::from(FIRST));
    for &[size, lines] in bytes.as_chunks().0.iter().take(1000) {
        let units = i32::from(size & 7) + 1;
        let lines = (lines as i8).max(-127);
        let has_line = size & 8 == 0 || version >> 16 == 0x0309;
        match version >> 16 & 0xff {
            9 => {
                // The lines come before the range that has them.
                table.extend([
                    if at == 0 {
                        0
                    } else {
                        expected.last().map_or(0, |(_, _, units)| (units * 2) as u8)
                    },
                    lines as u8,
                ]);
                now += i64::from(lines);
            }
            10 => {
                table.extend([(units * 2) as u8, if has_line { lines as u8 } else { 0x80 }]);
                now += if has_line { i64::from(lines) } else { 0 };
            }
            _ => {
                let code = if has_line { 13 } else { 15 };
                table.push(0x80 | code << 3 | (units - 1) as u8);
                if has_line {
                    let number = (u32::from(lines.unsigned_abs()) << 1) | u32::from(lines < 0);
                    table.extend([(number & 63) as u8 | if number > 63 { 64 } else { 0 }]);
                    if number > 63 {
                        table.push((number >> 6) as u8);
                    }
                    now += i64::from(lines);
                }
            }
        }
        expected.push((at, has_line.then_some(now as u32), units));
        at += units * 2;
    }
    for (at, expected, units) in expected {
        for offset in [at, at + units * 2 - 1] {
            let found = line(version, FIRST, &table, offset);
            assert_eq!(found, expected, "{version:x} at {offset}");
        }
    }
}
