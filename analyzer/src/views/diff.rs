//! The differences between two captures, line by line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::lines::Lines;
use crate::account::Phase;
use crate::attribution::Owner;
use crate::names::Names;
use crate::replay::Figure;

/// How rows of the two captures are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchKey {
    /// By file, line and function.
    #[default]
    Line,
    /// By file and function, for versions of a script whose lines moved.
    Function,
}

/// The line, phase and device of a row. Files have relative names, so that rows of two checkouts match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Of {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The file relative to the program's folder, or to `site-packages` for an installed package; else its absolute
    /// name. `None`: no Python line owns the bytes.
    pub file: Option<String>,
    /// Line number, from 1. `None`: rows are merged by function, or no Python line owns the bytes.
    pub line: Option<u32>,
    /// The function that contains the line. `None`: no Python line owns the bytes.
    pub function: Option<String>,
    /// The phase in which the bytes were allocated. Absent if it is not known, and for a program that does not train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The owner as tables show it: `train.py:97`, or a description in parentheses such as `(no stack)`. Without the
    /// line number if rows are merged by function.
    pub owner: String,
}

/// Live bytes of one line, phase and device in two captures, each at its own point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffRow {
    /// The line, phase and device.
    #[serde(flatten)]
    pub of: Of,
    /// The file's absolute name in the first capture. `None`: that capture has no such row, or no Python line owns
    /// the bytes.
    pub before_file: Option<String>,
    /// The file's absolute name in the second capture. `None`: that capture has no such row, or no Python line owns
    /// the bytes.
    pub after_file: Option<String>,
    /// Live bytes in the first capture at its point in time; 0 if it has no such row.
    pub before_bytes: u64,
    /// Live bytes in the second capture at its point in time; 0 if it has no such row.
    pub after_bytes: u64,
    /// `after_bytes` less `before_bytes`.
    pub change_bytes: i64,
    /// Number of live blocks in the first capture at its point in time.
    pub before_blocks: u64,
    /// Number of live blocks in the second capture at its point in time.
    pub after_blocks: u64,
}

/// All lines of two captures, the largest change first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// Live bytes of all rows in the first capture.
    pub before_bytes: u64,
    /// Live bytes of all rows in the second capture.
    pub after_bytes: u64,
    /// `after_bytes` less `before_bytes`.
    pub change_bytes: i64,
    /// All rows, the largest change first. Rows that are equal in both captures are included.
    pub rows: Vec<DiffRow>,
}

impl Diff {
    /// Matches the lines of two captures.
    pub fn of(before: (&Lines, &Names), after: (&Lines, &Names), key: MatchKey) -> Self {
        let mut rows: BTreeMap<Of, [Side; 2]> = BTreeMap::new();
        for (side, (lines, names)) in [before, after].into_iter().enumerate() {
            for row in &lines.rows {
                for ((owner, phase), figure) in row.by_phase() {
                    let of = of(row.device, &owner, phase, names, key);
                    let sides = rows.entry(of).or_default();
                    if let Some(side) = sides.get_mut(side) {
                        side.file.clone_from(&row.file);
                        side.figure += figure;
                    }
                }
            }
        }
        let rows = rows.into_iter().map(|(of, [before, after])| DiffRow {
            of,
            before_bytes: before.figure.bytes,
            after_bytes: after.figure.bytes,
            change_bytes: change(before.figure.bytes, after.figure.bytes),
            before_blocks: before.figure.blocks,
            after_blocks: after.figure.blocks,
            before_file: before.file,
            after_file: after.file,
        });
        let mut rows: Vec<DiffRow> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.change_bytes.unsigned_abs()));
        let (before, after) = (before.0.bytes(), after.0.bytes());
        Self {
            before_bytes: before,
            after_bytes: after,
            change_bytes: change(before, after),
            rows,
        }
    }
}

/// A row in one of the two captures.
#[derive(Default)]
struct Side {
    file: Option<String>,
    figure: Figure,
}

fn of(device: Option<u8>, owner: &Owner, phase: Option<Phase>, names: &Names, key: MatchKey) -> Of {
    let of = owner.line();
    let file = of.map(|of| names.short_path(&of.file));
    let (line, text) = match (key, file) {
        (MatchKey::Function, Some(file)) => (None, format!("{file}{}", owner.note())),
        _ => (of.map(|of| of.line), owner.label(names)),
    };
    Of {
        device,
        line,
        function: of.map(|of| of.function.clone()),
        phase,
        owner: text,
        file: file.map(Into::into),
    }
}

pub(super) fn change(before: u64, after: u64) -> i64 {
    let size = i64::try_from(before.abs_diff(after)).unwrap_or(i64::MAX);
    if after < before { -size } else { size }
}
