//! Changes of one device's memory: lines, categories and modules.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::align::{Held, align};
use crate::account::Phase;
use crate::names::NO_MODULE;
use crate::replay::{At, Category};
use crate::session::Session;
use crate::views::json::ordinal;
use crate::views::{
    ByStack, Diff, DiffRow, Lines, MatchKey, ModuleRow, Select, categories, modules,
};

/// A line, category or module whose bytes at the head's peak differ from those at the base's peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartChange {
    /// Name of the line as tables show it (`train.py:29`), of the category, or of the module. A line has the number
    /// that it has in the head, unless only the base has it.
    pub name: String,
    /// The function that contains the line, or the module's class. Absent for a category, for memory that no line
    /// owns, and if the module's name already begins with its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The phase in which the line allocated the bytes. Absent for a category or module, and if there is no phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Live bytes at the base's peak; 0 if the base does not have the part.
    pub base_bytes: u64,
    /// Live bytes at the head's peak; 0 if the head does not have the part.
    pub head_bytes: u64,
    /// `head_bytes` less `base_bytes`.
    pub change_bytes: i64,
}

impl PartChange {
    fn new(name: String, of: Option<String>, (base, head): (u64, u64)) -> Self {
        Self {
            name,
            of,
            phase: None,
            base_bytes: base,
            head_bytes: head,
            change_bytes: change(base, head),
        }
    }
}

/// Returns `head` less `base`, limited to what an `i64` can hold.
pub fn change(base: u64, head: u64) -> i64 {
    let size = i64::try_from(base.abs_diff(head)).unwrap_or(i64::MAX);
    if head < base { -size } else { size }
}

/// The live bytes of a level at the peaks of one capture, by line, category and module.
pub struct Parts<'a> {
    session: &'a Session,
    lines: Lines,
    modules: Vec<ModuleRow>,
    by_category: BTreeMap<(Option<u8>, Category), u64>,
}

impl<'a> Parts<'a> {
    /// Computes the parts of a capture.
    pub fn of(session: &'a Session, level: Level) -> Self {
        let held = ByStack::at(&session.replay, level, At::Peak, &Select::default());
        let rows = categories(&held).into_iter();
        Self {
            session,
            lines: Lines::of(&session.replay, &held),
            modules: modules(&session.replay, &held),
            by_category: rows
                .map(|row| ((row.device, row.category), row.bytes))
                .collect(),
        }
    }

    /// Devices whose lines do not sum to the level's own figure: (device, sum, figure).
    pub fn mismatches(&self) -> &[(DeviceOrdinal, u64, u64)] {
        &self.lines.mismatches
    }
}

/// Lines that changed, the largest change first.
pub fn lines(base: &Parts<'_>, head: &Parts<'_>, device: DeviceOrdinal) -> Vec<PartChange> {
    let names = [base, head].map(|parts| &parts.session.replay.names);
    let before = (&base.lines, names[0]);
    let diff = Diff::of(before, (&head.lines, names[1]), MatchKey::Line);
    // The function, and the other properties that must be equal for lines to match.
    let mut functions: BTreeMap<_, Vec<&DiffRow>> = BTreeMap::new();
    let rows = diff.rows.iter();
    for row in rows.filter(|row| row.of.device == ordinal(device)) {
        let of = (&row.of.file, &row.of.function, row.of.phase, note(row));
        functions.entry(of).or_default().push(row);
    }
    let mut changes = Vec::new();
    for rows in functions.into_values() {
        let side = |held: fn(&DiffRow) -> (u64, u64)| {
            let held = rows.iter().filter(|row| held(row) != (0, 0)).map(|row| {
                let line = row.of.line.unwrap_or(0);
                let bytes = held(row).0;
                (Held { line, bytes }, *row)
            });
            let mut held: Vec<_> = held.collect();
            held.sort_by_key(|(held, _)| held.line);
            held.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let (before, before_rows) = side(|row| (row.before_bytes, row.before_blocks));
        let (after, after_rows) = side(|row| (row.after_bytes, row.after_blocks));
        for (left, right) in align(&before, &after) {
            let bytes = |side: &[Held], at: Option<usize>| at.map_or(0, |at| side[at].bytes);
            let figures = (bytes(&before, left), bytes(&after, right));
            let row = right.map(|at| after_rows[at]);
            let row = row.or_else(|| left.map(|at| before_rows[at]));
            if let Some(row) = row.filter(|_| figures.0 != figures.1) {
                let of = row.of.function.clone();
                changes.push(PartChange {
                    phase: row.of.phase,
                    ..PartChange::new(row.of.owner.clone(), of, figures)
                });
            }
        }
    }
    sorted(changes)
}

/// The part of an owner's label beyond the line.
fn note(row: &DiffRow) -> &str {
    let owner = row.of.owner.as_str();
    match (&row.of.file, row.of.line) {
        (Some(file), Some(line)) => owner
            .strip_prefix(file.as_str())
            .and_then(|rest| rest.strip_prefix(':'))
            .and_then(|rest| rest.strip_prefix(line.to_string().as_str()))
            .unwrap_or(owner),
        _ => owner,
    }
}

/// Categories that changed, the largest change first.
pub fn by_category(base: &Parts<'_>, head: &Parts<'_>, device: DeviceOrdinal) -> Vec<PartChange> {
    let changes = Category::ALL.into_iter().map(|category| {
        let of = (ordinal(device), category);
        let bytes = |parts: &Parts<'_>| parts.by_category.get(&of).copied().unwrap_or(0);
        PartChange::new(category.name().into(), None, (bytes(base), bytes(head)))
    });
    sorted(changes.filter(|part| part.change_bytes != 0).collect())
}

/// Modules that changed, the largest change first; empty if neither capture has modules.
pub fn by_module(base: &Parts<'_>, head: &Parts<'_>, device: DeviceOrdinal) -> Vec<PartChange> {
    let mut figures: BTreeMap<_, [u64; 2]> = BTreeMap::new();
    for (side, parts) in [base, head].into_iter().enumerate() {
        let rows = parts.modules.iter();
        for row in rows.filter(|row| row.device == ordinal(device)) {
            figures.entry((&row.module, &row.class)).or_default()[side] += row.bytes;
        }
    }
    if figures.keys().all(|(module, _)| module.is_none()) {
        return Vec::new();
    }
    let changes = figures.into_iter().map(|((module, class), [base, head])| {
        let name = module.as_deref().unwrap_or(NO_MODULE);
        // A module without a name is shown by its class.
        let class = class
            .as_ref()
            .filter(|class| !name.starts_with(class.as_str()));
        PartChange::new(name.into(), class.cloned(), (base, head))
    });
    sorted(changes.filter(|part| part.change_bytes != 0).collect())
}

fn sorted(mut parts: Vec<PartChange>) -> Vec<PartChange> {
    parts.sort_by(|a, b| {
        let size = |part: &PartChange| Reverse(part.change_bytes.unsigned_abs());
        size(a)
            .cmp(&size(b))
            .then_with(|| (&a.name, &a.of, a.phase).cmp(&(&b.name, &b.of, b.phase)))
    });
    parts
}
