//! Hints and leaks in the page's tables: rows with their lines of source.

use serde::Serialize;

use super::input::{PageLimits, clip};
use crate::attribution::Owner;
use crate::names::Names;
use crate::views::{Class, Evidence, Hint, HintKind, LeakRow, Leaks};

/// A line of code in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageLine {
    /// `train.py:15`, or the label of an owner without a line.
    pub line: String,
    /// The full path and line, if it is longer.
    pub path: String,
    /// Function.
    pub function: String,
    /// The source line's text.
    pub source: String,
}

impl PageLine {
    fn of(
        owner: &Owner,
        names: &Names,
        source: &mut dyn FnMut(&str, u32) -> String,
        limits: PageLimits,
    ) -> Self {
        let line = clip(&owner.label(names), limits.name);
        let place = owner.line();
        let path = place.map_or(String::new(), |at| {
            clip(&format!("{}:{}", at.file, at.line), limits.name)
        });
        let text = place.map(|at| source(&at.file, at.line));
        Self {
            path: if path == line { String::new() } else { path },
            line,
            function: clip(owner.function(), limits.name),
            source: clip(&text.unwrap_or_default(), limits.name),
        }
    }
}

/// A line as evidence for a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageEvidence {
    /// The line.
    #[serde(flatten)]
    pub at: PageLine,
    /// The part of the hint's bytes that it has.
    pub bytes: u64,
    /// Blocks of those.
    pub blocks: u64,
}

/// A hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageHint {
    /// The kind.
    pub kind: HintKind,
    /// Device ordinal.
    pub device: u8,
    /// How many bytes it is about.
    pub bytes: u64,
    /// The observation.
    pub what: String,
    /// The remedy.
    pub advice: String,
    /// Lines. The first one is the holder of the others, if there is one.
    pub lines: Vec<PageEvidence>,
}

pub(super) fn hint(
    of: &Hint,
    names: &Names,
    source: &mut dyn FnMut(&str, u32) -> String,
    limits: PageLimits,
) -> PageHint {
    let is_holder = |line: &&Evidence| of.holder.as_ref().is_some_and(|it| it.owner == line.owner);
    let others = of.lines.iter().filter(|line| !is_holder(line));
    let lines = of.holder.iter().chain(others);
    PageHint {
        kind: of.kind,
        device: of.device,
        bytes: of.bytes,
        what: clip(&of.what, 4 * limits.name),
        advice: clip(&of.advice, 4 * limits.name),
        lines: lines
            .map(|line| PageEvidence {
                at: PageLine::of(&line.owner, names, source, limits),
                bytes: line.bytes,
                blocks: line.blocks,
            })
            .collect(),
    }
}

/// The memory that a line keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageLeak {
    /// The line.
    #[serde(flatten)]
    pub at: PageLine,
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The kind; `None` if no step ended.
    pub class: Option<Class>,
    /// Bytes alive.
    pub bytes: u64,
    /// Blocks alive.
    pub blocks: u64,
    /// Bytes of those with the requested age.
    pub survived: u64,
    /// The steps that allocated the oldest and the newest; `None`: not known.
    pub steps: [Option<u64>; 2],
    /// The increase of the line's bytes from step to step.
    pub per_step: i64,
    /// The least and the most of its parts: see [`LeakRow::growth`].
    pub per_step_range: [i64; 2],
}

/// What was alive at the end of the last step, by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageLeaks {
    /// The event of the figures.
    pub seq: u64,
    /// Its time.
    pub time: u64,
    /// Steps that had ended, or rounds that begin at `round`.
    pub steps: u64,
    /// The line at which a round begins; `None`: steps count.
    pub round: Option<String>,
    /// The last step of the warm-up.
    pub warm_up: u64,
    /// The least age of leaked blocks, in steps.
    pub least: u64,
    /// Bytes of all rows.
    pub bytes: u64,
    /// The lines, those that grow first.
    pub rows: Vec<PageLeak>,
    /// Omitted lines at the end: their number, bytes and blocks.
    pub others: [u64; 3],
    /// The line whose tensor probably keeps the other growing memory alive, its blocks, and bytes of the others.
    pub holder: Option<(PageLine, u64, u64)>,
}

pub(super) fn leaks(
    (of, (seq, time)): &(Leaks, (u64, u64)),
    names: &Names,
    source: &mut dyn FnMut(&str, u32) -> String,
    limits: PageLimits,
) -> PageLeaks {
    let (shown, rest) = of.rows.split_at(limits.rows.min(of.rows.len()));
    let rows = shown
        .iter()
        .map(|row| leak(row, names, source, limits))
        .collect();
    PageLeaks {
        seq: *seq,
        time: *time,
        steps: of.steps,
        round: of.begins.as_ref().map(|begins| begins.label(names)),
        warm_up: of.warm_up_steps,
        least: of.least_steps,
        bytes: of.bytes,
        rows,
        others: [
            rest.len() as u64,
            rest.iter().map(|row| row.bytes).sum(),
            rest.iter().map(|row| row.blocks).sum(),
        ],
        holder: of.holder.as_ref().map(|holder| {
            let at = PageLine::of(&holder.owner, names, source, limits);
            (at, holder.blocks, holder.held_bytes)
        }),
    }
}

fn leak(
    row: &LeakRow,
    names: &Names,
    source: &mut dyn FnMut(&str, u32) -> String,
    limits: PageLimits,
) -> PageLeak {
    PageLeak {
        at: PageLine::of(&row.owner, names, source, limits),
        device: row.device,
        class: row.class,
        bytes: row.bytes,
        blocks: row.blocks,
        survived: row.survived_bytes,
        steps: [row.oldest_step, row.newest_step],
        per_step: row.bytes_per_step,
        per_step_range: [row.bytes_per_step_least, row.bytes_per_step_most],
    }
}
