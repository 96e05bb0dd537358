//! `gpumem-analyze flamegraph`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gpumem_analyzer::render::{bytes, flamegraph};
use gpumem_analyzer::views::Folded;

use super::cmd_report::beside;
use super::{Exit, Output, read, say_missing, symbols, write_file};
use crate::cli::SymbolArgs;
use crate::which::Which;

/// `flamegraph`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub which: Which,
    /// Where to; `-` is standard output. By default beside the capture, as .svg
    #[arg(short, long, value_name = "OUT.svg")]
    pub output: Option<PathBuf>,
    /// Folded stacks instead of a picture; by default on standard output
    #[arg(long)]
    pub folded: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.which.part.capture(&args.file);
    let session = read(file, args.which.wanted())?;
    let level = args.which.part.level(&session);
    let (mut symbols, bar) = symbols(file, &session, &args.symbols);
    let held = args.which.held(&session, level);
    let folded = Folded::of(&session.replay, &mut symbols, &held);
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
        match flamegraph(&folded, &folded.title(level, &args.which.said()), subtitle) {
            Some(svg) => svg,
            None => bail!(
                "{}: nothing was live at the {level} level then",
                file.display()
            ),
        }
    };
    if to_stdout || (args.folded && args.output.is_none()) {
        output.out.write_all(&contents)?;
        return Ok(Exit::of(&session));
    }
    let path = args.output.clone().unwrap_or_else(|| beside(file));
    write_file(&path, &contents).with_context(|| format!("cannot write {}", path.display()))?;
    let (path, total) = (path.display(), bytes(folded.bytes()));
    output.text(&format!("{path}: {total} of the {level} level\n"))?;
    Ok(Exit::of(&session))
}
