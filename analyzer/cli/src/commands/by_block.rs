//! `gpumem-analyze lines` for views that follow each block: sizes, threads, scopes, and temporary blocks.

use std::path::Path;

use gpumem_analyzer::envelope::View;
use gpumem_analyzer::render::{Terminal, scopes_text, sizes_text, temporary_text, threads_text};
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{BlockEvents, Histogram, ScopeWatch, ThreadWatch};
use gpumem_analyzer::watch::Observer;
use gpumem_capture::Level;
use serde::Serialize;

use super::exit::Exit;
use super::output::Output;
use super::pivot::Rows;
use super::read::Opened;
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

/// Blocks by size.
pub fn sizes(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let rows = |blocks: BlockEvents<'_>, read: Read<'_>| {
        let mut histogram = Histogram::new(blocks, args.rows.selection.at, args.each);
        read(&mut |replay, record, effect| histogram.observe(replay, record, effect))?;
        Ok(histogram.sizes())
    };
    of_each(args, output, "allocations", rows, sizes_text)
}

/// The same by thread.
pub fn threads(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let rows = |blocks: BlockEvents<'_>, read: Read<'_>| {
        let mut watch = ThreadWatch::new(blocks, args.rows.selection.at);
        read(&mut |replay, record, effect| watch.observe(replay, record, effect))?;
        Ok(watch.threads())
    };
    of_each(args, output, "allocations and frees", rows, threads_text)
}

/// Reads the capture for an observer.
type Read<'a> = &'a mut dyn FnMut(&mut Observer<'_>) -> anyhow::Result<()>;

/// Prints the rows of a view of each block. The capture is read twice, because the level and all names must be known first.
/// `bounded`: what a bounded capture has only the newest of.
fn of_each<T: Serialize>(
    args: Blocks<'_>,
    output: &mut Output<'_>,
    bounded: &str,
    rows: impl FnOnce(BlockEvents<'_>, Read<'_>) -> anyhow::Result<Vec<T>>,
    text: fn(Level, &[T], &str, Terminal) -> String,
) -> anyhow::Result<Exit>
where
    Vec<T>: View,
{
    let (file, selection) = (args.file, &args.rows.selection);
    let (part, query) = (&selection.part, Query::from(selection.at));
    let mut capture = Opened::open(file)?;
    let (first, level) = capture.read_for_blocks(query, part)?;
    output.notes.bounded(&first, bounded);
    let sizes = part.size.unwrap_or_default();
    let blocks = BlockEvents::new(&first.replay, level, part.select_of_events()?, sizes);
    let rows = rows(blocks, &mut |observer| {
        capture.read_with(query, observer).map(drop)
    })?;
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
            false => text(level, &rows, &selection.said(), terminal),
        }
    })?;
    Ok(Exit::of(&first))
}

/// The program's scopes, by name.
pub fn scopes(args: Blocks<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (file, part) = (args.file, &args.rows.selection.part);
    let mut watch = ScopeWatch::default();
    let session =
        Opened::open(file)?.read_with(Query::default(), &mut |replay, record, effect| {
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
    let (session, lines) = args
        .rows
        .temporary_lines(&mut Opened::open(file)?, &mut output.notes)?;
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &lines, |source, terminal| {
        let within = args.rows.within();
        let part = args.rows.selection.part.said();
        temporary_text(&session.replay, &lines, within, &part, source, terminal)
    })?;
    Ok(Exit::of(&session))
}
