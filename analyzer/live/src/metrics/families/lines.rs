//! The lines that hold the most memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::frames::Rows;
use sha2::{Digest as _, Sha256};

use super::capture::Capture;
use super::family::Families;

type Line<'a> = (Option<u8>, &'a str, u32, &'a str);

/// The first `most` lines of a capture. A line's hash is computed from its file, number and function, so that ranks and
/// runs share it.
pub(super) fn add(to: &mut Families, capture: &Capture, most: usize) {
    let Rows::Lines(lines) = &capture.frame.table.rows else {
        return;
    };
    let mut bytes: BTreeMap<Line<'_>, u64> = BTreeMap::new();
    for row in &lines.rows {
        let file = row.file.as_deref().or(row.library.as_deref());
        let file = file.unwrap_or("(unknown)");
        let function = row.function.as_deref().unwrap_or_default();
        let line = (row.device, file, row.line.unwrap_or(0), function);
        *bytes.entry(line).or_default() += row.bytes;
    }
    let mut bytes: Vec<_> = bytes.into_iter().collect();
    bytes.sort_by_key(|(line, bytes)| (Reverse(*bytes), *line));
    for ((device, file, line, function), bytes) in bytes.into_iter().take(most) {
        let number = line.to_string();
        let hash = hash(file, &number, function);
        let device = device.map(|device| device.to_string()).unwrap_or_default();
        to.gauge(
            "gpumem_line_bytes",
            "Live bytes of the largest lines; gpumem_line_info names them.",
            &capture.with(&[
                ("device", &device),
                ("level", lines.level.name()),
                ("line", &hash),
            ]),
            bytes,
        );
        to.gauge(
            "gpumem_line_info",
            "File, number and function of a line; always 1.",
            &[
                ("line", &*hash),
                ("file", file),
                ("number", &number),
                ("function", function),
            ],
            1_u64,
        );
    }
}

fn hash(file: &str, number: &str, function: &str) -> String {
    let digest = Sha256::digest(format!("{file}\0{number}\0{function}"));
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
