//! The version of the code that ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::words::Words;
use crate::attribution::is_planner;
use crate::names::{Code, Names};
use crate::render::Source;

/// For a capture without code of the program.
const UNKNOWN: &str = "unknown";

/// A hash of the program's own files, without those of packages, which have versions. If a file is missing or was
/// changed, it is a hash of the functions as the interpreter loaded them.
pub(super) fn of(names: &Names, source: &mut Source, words: &Words<'_>) -> Arc<str> {
    let own = names
        .codes
        .values()
        .filter(|code| names.is_user_code(&code.file) && !is_planner(&code.file));
    let mut by_file: BTreeMap<&str, Vec<&Code>> = BTreeMap::new();
    own.for_each(|code| by_file.entry(&code.file).or_default().push(code));
    if by_file.is_empty() {
        return UNKNOWN.into();
    }
    let mut files = BTreeSet::new();
    for file in by_file.keys() {
        if let Some(lines) = source.text(file) {
            files.insert((names.short_path(file), lines.join("\n")));
        }
    }
    let mut hash = words.keyed("version");
    if files.len() == by_file.len() {
        for (file, text) in &files {
            hash = hash.with(file).with(text);
        }
    } else {
        let functions = by_file.values().flatten();
        let functions = functions.map(|code| {
            let file = names.short_path(&code.file);
            (file, code.first_line, &code.name, &code.line_table)
        });
        for (file, first_line, name, lines) in BTreeSet::from_iter(functions) {
            let lines: String = lines.iter().map(|byte| format!("{byte:02x}")).collect();
            hash = hash.with(file).with(name);
            hash = hash.with(&first_line.to_string()).with(&lines);
        }
    }
    format!("{:016x}", hash.key().0).into()
}
