//! Files that are not captures: their kind, and the command for them.

use std::io::Read as _;
use std::path::Path;

use gpumem_analyzer::captures;

use super::output::quoted;

/// The most captures of a folder that are named.
const NAMED: usize = 3;
/// The most files and folders that are examined for an advice.
const EXAMINED: usize = 1000;

/// Advice for a file that is not a capture; `None` if its kind is unknown.
pub fn advice(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(of_folder(path));
    }
    let shown = quoted(path);
    let extension = path.extension().and_then(|of| of.to_str());
    let head = head(path)?;
    let is = |magic: &[u8]| head.starts_with(magic);
    let nsys = "gpumem does not read files of Nsight Systems: record with gpumem run";
    if matches!(extension, Some("nsys-rep" | "qdrep" | "qdstrm")) {
        return Some(nsys.into());
    }
    if is(b"SQLite format 3\0") {
        return Some(format!(
            "it is an SQLite database, such as nsys exports; {nsys}"
        ));
    }
    if extension == Some("otf2") || is(b"OTF2") {
        return Some(
            "it is an OTF2 trace, which gpumem does not read: record with gpumem run".into(),
        );
    }
    // Protocols 2 to 5.
    if is(&[0x80]) && head.get(1).is_some_and(|of| (2..=5).contains(of)) || is(b"PK\x03\x04") {
        return Some(format!(
            "if it is a PyTorch memory snapshot: gpumem-analyze import torch-snapshot {shown} -o {}",
            quoted(&path.with_extension("bin"))
        ));
    }
    if is(b"PAR1") {
        return Some(
            "it is a Parquet file, such as gpumem-analyze fleet writes: open it with DuckDB, polars or pandas"
                .into(),
        );
    }
    if is(b"{") || is(b"[") {
        return Some(format!(
            "it is JSON; if it is a PyTorch memory snapshot: gpumem-analyze import torch-snapshot {shown} -o {}",
            quoted(&path.with_extension("bin"))
        ));
    }
    if is(b"<svg") || is(b"<?xml") || is(b"<!DOCTYPE") || is(b"<!doctype") {
        return Some(
            "it is a picture or page of a capture: open it in a browser, or name the report.bin it was made from".into(),
        );
    }
    if is(&[0x1f, 0x8b]) || is(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Some("it is compressed: unpack it first (gunzip, zstd -d)".into());
    }
    None
}

/// A description of a folder's contents.
fn of_folder(path: &Path) -> String {
    let listing = captures::find_among(&[path.to_owned()], EXAMINED);
    let shown = quoted(path);
    match &listing.captures[..] {
        [] => match listing.unreadable.first() {
            Some(why) => format!("it has no captures that can be read ({why})"),
            None if listing.is_cut => "name a report.bin in it".into(),
            None => "it has no captures: name a report.bin".into(),
        },
        [only] => format!("name the capture in it: {}", quoted(only)),
        [first, ..] => {
            let more = match listing.captures.len() {
                all if all > NAMED && !listing.is_cut => format!(" ({all} captures)"),
                _ => String::new(),
            };
            format!(
                "name one of its captures, as {}{more}, or compare them: gpumem-analyze ranks {shown}",
                quoted(first)
            )
        }
    }
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    gpumem_files::read::open(path)
        .ok()?
        .take(16)
        .read_to_end(&mut head)
        .ok()?;
    Some(head)
}
