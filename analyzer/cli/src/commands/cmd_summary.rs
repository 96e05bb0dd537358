//! `gpumem-analyze summary`.

use std::path::PathBuf;

use gpumem_analyzer::render::summary_text;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::Summary;

use super::exit::Exit;
use super::output::{Output, file_name};
use super::read::read;
use super::view::Of;
use crate::args::Format;

/// `summary`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let session = read(&args.file, At::End)?;
    let summary = Summary::of(&session);
    match args.format {
        Format::Json => {
            output.notes.caveats(&session);
            let of = Of {
                file: &args.file,
                session: &session,
            };
            output.json(&of.captures(), &summary)?;
        }
        Format::Text => {
            let file = file_name(&args.file);
            output.text(&summary_text(
                &file,
                &summary,
                &session.account,
                output.terminal,
            ))?;
        }
    }
    Ok(Exit::of(&session))
}
