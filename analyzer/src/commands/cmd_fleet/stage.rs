//! `gpumem-analyze fleet stage`.

use gpumem_dataset::staged_path;
use serde::Serialize;

use super::places::StoreArgs;
use super::sources::{Is, Sources};
use super::taking::{AskedArgs, Took, take};
use crate::args::Format;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet stage`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is taken of the capture.
    #[command(flatten)]
    pub take: AskedArgs,
    /// How stores are opened.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture: a file, or s3://bucket/report.bin, gs://…, az://…
    pub capture: String,
    /// The dataset
    pub dataset: String,
}

/// What became of the capture.
#[derive(Serialize)]
struct Staged {
    /// `staged`, `known` or `running`.
    outcome: &'static str,
    /// Where its rows are below the dataset, if they were staged.
    file: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let name = &args.capture;
    let asked = args.take.asked()?;
    let sources = Sources::list(std::slice::from_ref(name), args.store, &args.dataset)?;
    if let Some(why) = sources.unreadable.first() {
        anyhow::bail!("{why}");
    }
    let [candidate] = &sources.candidates[..] else {
        anyhow::bail!("{name}: no capture: name a report.bin that libgpumem.so wrote");
    };
    let key = match sources.is(candidate) {
        Is::Capture(key) => key,
        Is::Foreign => {
            anyhow::bail!("{name}: no capture: name a report.bin that libgpumem.so wrote")
        }
        Is::Unreadable(why) => anyhow::bail!("{why}"),
    };
    let dataset = args.store.dataset(&args.dataset)?;
    if dataset.knows(key) {
        let known = Staged {
            outcome: "known",
            file: None,
        };
        return say(
            &known,
            args.format,
            &format!("{name}: in the dataset already\n"),
            output,
        );
    }
    let capture = match take(&sources, candidate, &asked) {
        Took::Capture(capture) => capture,
        Took::Unreadable(why) => anyhow::bail!("{why}"),
        Took::Runs(name) => {
            let running = Staged {
                outcome: "running",
                file: None,
            };
            say(
                &running,
                args.format,
                &format!("{name}: left: its process runs\n"),
                output,
            )?;
            return Ok(Exit::Partial);
        }
    };
    let path = staged_path(&gpumem_dataset::name_of(&capture.rows.run), key);
    let contents = tempfile::NamedTempFile::new()?;
    capture.write(std::io::BufWriter::new(contents.reopen()?))?;
    dataset.store().put_file(&path, contents.path())?;
    let staged = Staged {
        outcome: "staged",
        file: Some(path.clone()),
    };
    say(
        &staged,
        args.format,
        &format!("{name}: staged as {path}\n"),
        output,
    )
}

fn say(
    staged: &Staged,
    format: Format,
    text: &str,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    match format {
        Format::Json => output.json(None, staged)?,
        Format::Text => output.text(text)?,
    }
    Ok(Exit::Complete)
}
