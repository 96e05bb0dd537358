//! `gpumem-analyze lines` for views that follow each block: sizes, threads, scopes, and temporary blocks.

use std::path::Path;

use gpumem_analyzer::render::{scopes_text, sizes_text, temporary_text, threads_text};
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{BlockEvents, Histogram, ScopeWatch, ThreadWatch};

use super::exit::Exit;
use super::output::Output;
use super::pivot::Rows;
use super::read::{read_for_blocks, read_with};
use super::view::{Of, print};
use crate::args::Format;

/// What they have in common.
#[derive(Clone, Copy)]
pub struct Blocks<'a> {
    /// The capture.
    pub file: &'a Path,
    /// Which blocks.
    pub rows: &'a Rows,
    /// Whether each size, or each scope, is listed.
    pub each: bool,
    /// Text or JSON.
    pub format: Format,
}

/// Blocks by size. The capture is read twice, because the level and all names must be known first.
pub fn sizes(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (file, selection) = (args.file, &args.rows.selection);
    let (part, query) = (&selection.part, Query::from(selection.at));
    let (first, level) = read_for_blocks(file, query, part)?;
    output.notes.bounded(&first, "allocations");
    let sizes = part.size.unwrap_or_default();
    let blocks = BlockEvents::new(&first.replay, level, part.select_of_events()?, sizes);
    let mut histogram = Histogram::new(blocks, selection.at, args.each);
    read_with(file, query, &mut |replay, record, effect| {
        histogram.observe(replay, record, effect);
    })?;
    let rows = histogram.sizes();
    let of = Of {
        file,
        session: &first,
    };
    print(output, of, args.format, &rows, |_, terminal| {
        match rows.is_empty() {
            true => format!(
                "No memory was allocated at the {level} level{}.\n",
                part.said()
            ),
            false => sizes_text(level, &rows, &selection.said(), terminal),
        }
    })?;
    Ok(Exit::of(&first))
}

/// The same by thread.
pub fn threads(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (file, selection) = (args.file, &args.rows.selection);
    let (part, query) = (&selection.part, Query::from(selection.at));
    let (first, level) = read_for_blocks(file, query, part)?;
    output.notes.bounded(&first, "allocations and frees");
    let sizes = part.size.unwrap_or_default();
    let blocks = BlockEvents::new(&first.replay, level, part.select_of_events()?, sizes);
    let mut watch = ThreadWatch::new(blocks, selection.at);
    read_with(file, query, &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    let rows = watch.threads();
    let of = Of {
        file,
        session: &first,
    };
    print(output, of, args.format, &rows, |_, terminal| {
        match rows.is_empty() {
            true => format!(
                "No memory was allocated at the {level} level{}.\n",
                part.said()
            ),
            false => threads_text(level, &rows, &selection.said(), terminal),
        }
    })?;
    Ok(Exit::of(&first))
}

/// The program's scopes, by name.
pub fn scopes(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (file, part) = (args.file, &args.rows.selection.part);
    let mut watch = ScopeWatch::default();
    let session = read_with(file, Query::default(), &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    let scopes = watch.finish(&session.replay);
    let notes = [
        (
            scopes.left_out,
            "scopes are only in the sums by name, because at most 10,000 are listed",
        ),
        (
            scopes.marks_left_out,
            "marks are omitted, because at most 10,000 are listed",
        ),
        (
            scopes.without_begin,
            "scopes are omitted, because they began before the capture's first record",
        ),
    ];
    for (number, what) in notes.iter().filter(|(number, _)| *number > 0) {
        output.notes.say(format_args!("{number} {what}"));
    }
    let level = part.level(&session)?;
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &scopes, |_, terminal| {
        let text = scopes_text(&scopes, level, args.each, terminal);
        match text.is_empty() {
            true => {
                "The capture has no scopes and no marks. Your program makes them with gpumem.scope and gpumem.mark.\n"
                    .into()
            }
            false => text,
        }
    })?;
    Ok(Exit::of(&session))
}

/// Lines with temporary blocks.
pub fn temporary(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = args.file;
    let (session, lines) = args.rows.temporary_lines(file, &mut output.notes)?;
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &lines, |source, terminal| {
        let within = args.rows.short_lived.within();
        let part = args.rows.selection.part.said();
        temporary_text(&session.replay, &lines, within, &part, source, terminal)
    })?;
    Ok(Exit::of(&session))
}
