//! `gpumem-analyze diff`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use gpumem_analyzer::envelope::{Body, Capture, Captures, Form, Heads, View};
use gpumem_analyzer::names::short_command;
use gpumem_analyzer::render::{caveats, diff_answer, diff_text, holders_diff_text, pools_text};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{Diff, HoldersDiff, Lines, MatchKey, PoolDiff};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, file_name};
use super::read::Opened;
use crate::args::Format;
use crate::selection::Selection;

/// How lines of the two captures are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// File, line and function
    #[default]
    Line,
    /// File and function, for scripts whose line numbers changed
    Function,
}

/// `diff`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// How lines of the two captures are matched
    #[arg(long, value_enum, default_value_t)]
    pub by: ByArg,
    /// The point in time of the second capture. Default: the same as --at. Name the same file twice to compare two
    /// points in time of one run
    #[arg(long, value_name = "POINT", value_parser = crate::selection::moment)]
    pub to: Option<gpumem_analyzer::replay::At>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture before
    pub before: PathBuf,
    /// The capture after; can be the same file
    pub after: PathBuf,
}

/// Two captures compared.
#[derive(Serialize, JsonSchema)]
pub struct Report<'a> {
    /// File of the first capture.
    before: &'a Path,
    /// File of the second capture.
    after: &'a Path,
    /// Level of the compared bytes.
    level: String,
    #[serde(flatten)]
    diff: &'a Diff,
    /// PyTorch's pool on each GPU, in both captures.
    pools: &'a [PoolDiff],
    /// Who keeps the tensors of each GPU of which both captures have a failure or a peak whose holders were recorded.
    holders: &'a [HoldersDiff],
}

impl View for Report<'_> {
    const FORM: Form = Form {
        name: "diff",
        body: Body::Data,
        heads: Heads::Several,
    };
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let from = &args.selection;
    let to = Selection {
        at: args.to.unwrap_or(from.at),
        part: from.part.clone(),
    };
    let (first, second) = (
        &from.part.capture(&args.before),
        &from.part.capture(&args.after),
    );
    let before = Opened::open(first)?.read(from.query())?;
    let after = Opened::open(second)?.read(to.query())?;
    let level = from.part.level(&before)?;
    let lines = [(&before, from), (&after, &to)].map(|(session, selection)| {
        let lines = Lines::of(&session.replay, &selection.held(session, level));
        output.notes.mismatches(&lines.mismatches, "lines", level);
        lines
    });
    let [lines_before, lines_after] = &lines;
    let key = match args.by {
        ByArg::Line => MatchKey::Line,
        ByArg::Function => MatchKey::Function,
    };
    let names = [&before, &after].map(|session| &session.replay.names);
    let diff = Diff::of((lines_before, names[0]), (lines_after, names[1]), key);
    let only = from.part.device.map(DeviceOrdinal);
    let pools = PoolDiff::all(&before.replay, &after.replay, only);
    let holders = HoldersDiff::all(&before.replay, &after.replay, only);
    match args.format {
        Format::Json => {
            output.notes.caveats(&before);
            output.notes.caveats(&after);
            let captures = [(first, &before), (second, &after)];
            let captures = captures.map(|(file, session)| Capture::of(file, session));
            output.json(
                &Captures::Several(captures.into()),
                &Report {
                    before: first,
                    after: second,
                    level: level.to_string(),
                    diff: &diff,
                    pools: &pools,
                    holders: &holders,
                },
            )?;
        }
        Format::Text => {
            let mut text = String::new();
            for (file, session, selection) in [(first, &before, from), (second, &after, &to)] {
                let side = if text.is_empty() { "before" } else { "after" };
                text.push_str(&head(side, file, session, selection));
                text.push_str(&caveats(&session.account, output.terminal));
            }
            let mut devices: Vec<_> = diff.rows.iter().map(|row| row.of.device).collect();
            devices.sort_unstable();
            devices.dedup();
            text.push_str(&diff_answer(&diff, &level.to_string()));
            text.push('\n');
            text.push_str(&pools_text(&pools, output.terminal));
            text.push_str(&holders_diff_text(&holders, output.terminal));
            let title = format!("Lines that differ ({level} level)");
            text.push_str(&diff_text(
                &diff,
                &title,
                devices.len() > 1,
                output.terminal,
            ));
            output.text(&text)?;
        }
    }
    let whole = lines.iter().all(|lines| lines.mismatches.is_empty());
    match (Exit::of(&before), Exit::of(&after)) {
        (Exit::Complete, Exit::Complete) if whole => Ok(Exit::Complete),
        _ => Ok(Exit::Partial),
    }
}

/// One side's line: `before   report.bin, at the peak   python train.py`.
fn head(side: &str, file: &Path, session: &Session, selection: &Selection) -> String {
    let command = session.replay.names.command().map_or("", short_command);
    let what = match &session.account.replayed {
        Some(replayed) => replayed.title(),
        None => command.to_owned(),
    };
    let (file, said) = (file_name(file), selection.said());
    format!("{side:<8} {file}, {said}   {what}\n")
}
