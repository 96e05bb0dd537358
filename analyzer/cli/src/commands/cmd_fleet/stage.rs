//! `gpumem-analyze fleet stage`.

use gpumem_analyzer::envelope::{Body, Captures, Heads, View};
use gpumem_dataset::staged_path;
use schemars::JsonSchema;
use serde::Serialize;

use super::sources::{Is, Sources};
use super::taking::{TakingArgs, Took, take};
use crate::args::Format;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet stage`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is stored of the capture, and how.
    #[command(flatten)]
    pub how: TakingArgs,
    /// The capture: a file, or s3://bucket/report.bin, gs://…, az://…
    pub capture: String,
    /// The dataset
    pub dataset: String,
}

/// Result for the capture.
#[derive(Serialize, JsonSchema)]
pub struct Staged {
    /// `staged`; or not staged: `known`, already in the dataset, or `running`, its process runs.
    outcome: &'static str,
    /// File with its rows, relative to the dataset; `None`: not staged.
    file: Option<String>,
}

impl View for Staged {
    const NAME: &'static str = "fleet-stage";
    const BODY: Body = Body::Data;
    const HEADS: Heads = Heads::None;
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let name = &args.capture;
    let asked = args.how.asked()?;
    let sources = Sources::list(std::slice::from_ref(name), args.how.store, &args.dataset)?;
    if let Some(why) = sources.unreadable.first() {
        anyhow::bail!("{why}");
    }
    let foreign = || format!("{name}: not a capture: name a report.bin that libgpumem.so wrote");
    let [candidate] = &sources.candidates[..] else {
        anyhow::bail!(foreign());
    };
    let key = match sources.is(candidate) {
        Is::Capture(key) => key,
        Is::Foreign => anyhow::bail!(foreign()),
        Is::Unreadable(why) => anyhow::bail!(why),
    };
    let dataset = args.how.store.dataset(&args.dataset)?;
    if dataset.knows(key) {
        let text = format!("{name}: already in the dataset\n");
        say(("known", None), &text, args.how.format, output)?;
        return Ok(Exit::Complete);
    }
    let capture = match take(&sources, candidate, &asked) {
        Took::Capture(capture) => capture,
        Took::Unreadable(why) => anyhow::bail!(why),
        Took::Runs(name) => {
            let text = format!("{name}: skipped: its process is running\n");
            say(("running", None), &text, args.how.format, output)?;
            return Ok(Exit::Partial);
        }
    };
    let path = staged_path(&gpumem_dataset::name_of(&capture.rows.run), key);
    let contents = tempfile::NamedTempFile::new()?;
    capture.write(std::io::BufWriter::new(contents.reopen()?))?;
    dataset.store().put_file(&path, contents.path())?;
    let text = format!("{name}: staged as {path}\n");
    say(("staged", Some(path)), &text, args.how.format, output)?;
    Ok(Exit::Complete)
}

fn say(
    (outcome, file): (&'static str, Option<String>),
    text: &str,
    format: Format,
    output: &mut Output<'_>,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output.json(&Captures::InBody, &Staged { outcome, file }),
        Format::Text => output.text(text),
    }
}
