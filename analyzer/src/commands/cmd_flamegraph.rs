//! `gpumem-analyze flamegraph`.

use std::path::Path;

use anyhow::{Context as _, bail};
use gpumem_analyzer::render::{bytes, flamegraph};
use gpumem_analyzer::views::Folded;

use super::cmd_report::beside;
use super::{Exit, Output, level_or_default, read, say_missing, symbols, write_file};
use crate::cli::FlamegraphArgs;

/// Runs it.
pub fn run(args: &FlamegraphArgs, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let at = args.which.at;
    let session = read(&args.file, at)?;
    let level = level_or_default(args.which.level.map(Into::into), &session.replay);
    let (mut symbols, bar) = symbols(&args.file, &session, &args.symbols);
    let folded = Folded::at(&session.replay, &mut symbols, level, at);
    drop(bar);
    say_missing(&session);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let contents = if args.folded {
        folded
            .lines()
            .map(|line| line + "\n")
            .collect::<String>()
            .into_bytes()
    } else {
        let subtitle = session.replay.names.command().unwrap_or_default();
        match flamegraph(&folded, &folded.title(level, at), subtitle) {
            Some(svg) => svg,
            None => bail!(
                "{}: nothing was live at the {level} level then",
                args.file.display()
            ),
        }
    };
    if to_stdout || (args.folded && args.output.is_none()) {
        output.out.write_all(&contents)?;
        return Ok(Exit::of(&session));
    }
    let path = args.output.clone().unwrap_or_else(|| beside(&args.file));
    write_file(&path, &contents).with_context(|| format!("cannot write {}", path.display()))?;
    let (path, total) = (path.display(), bytes(folded.bytes()));
    output.text(&format!("{path}: {total} of the {level} level\n"))?;
    Ok(Exit::of(&session))
}
