//! `gpumem-analyze fleet commit`.

use std::collections::HashMap;
use std::str::FromStr;

use gpumem_dataset::{Capture, Found, Store, name_of, parse_staged};

use super::ingest::{Summary, finish};
use super::part::{Begun, Intake, complete_begun};
use super::places::StoreArgs;
use crate::args::Format;
use crate::commands::each::in_order;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet commit`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this run. Can be repeated. Default: all runs
    #[arg(long, value_name = "NAME")]
    pub run: Vec<String>,
    /// Commit one of N shares of the captures (0/4 to 3/4), to run several commits in parallel
    #[arg(long, value_name = "K/N")]
    pub part: Option<Share>,
    /// How stores are opened.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The dataset: a folder or an object store
    pub dataset: String,
}

/// A share of captures.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    number: u64,
    of: u64,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (number < of).then_some(Self { number, of })
        });
        parsed.ok_or_else(|| "expected K/N, with K from 0 to N - 1".into())
    }
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let dataset = args.store.dataset(&args.dataset)?;
    dataset.store().sweep()?;
    let mut intake = Intake::new(dataset, serde_json::Value::Null);
    intake.dataset.remove_unwanted()?;
    let begun = Begun {
        asked: None,
        found: &HashMap::new(),
        sources: None,
        args: args.store,
    };
    let mut summary = Summary {
        begun: complete_begun(&mut intake, &begun)?,
        ..Summary::default()
    };
    let store = args.store.store(&args.dataset)?;
    loop {
        intake.dataset.look()?;
        let staged: Vec<Found> = intake
            .dataset
            .staged()
            .iter()
            .filter(|found| args.wants(found))
            .cloned()
            .collect();
        let is_known = |found: &&Found| {
            parse_staged(&found.path).is_some_and(|(_, key)| intake.dataset.knows(key))
        };
        // Captures of complete parts do not need their staged rows any more; those of unfinished parts are kept.
        let unfinished = intake.dataset.unfinished();
        let is_needed = |found: &&Found| {
            let of = parse_staged(&found.path);
            unfinished.iter().any(|(_, entry)| {
                let mut keys = entry.captures.iter().map(|source| source.capture);
                of.is_some_and(|(_, key)| keys.any(|other| other == key))
            })
        };
        let (known, new): (Vec<&Found>, Vec<&Found>) = staged.iter().partition(is_known);
        for found in known {
            if !is_needed(&found) {
                intake.dataset.store().delete(&found.path)?;
            }
        }
        if new.is_empty() {
            break;
        }
        in_order(
            &new,
            "adding captures",
            |found| read(&store, found),
            |found, read| {
                match read {
                    Ok(Some(capture)) => intake.add(capture)?,
                    Ok(None) => summary.unreadable.push(format!(
                        "{}: written by another version of gpumem: stage the capture again",
                        store.name_of(&found.path)
                    )),
                    Err(error) => summary.unreadable.push(format!("{error:#}")),
                }
                anyhow::Ok(())
            },
        )?;
        intake.finish()?;
        intake.withdrawn.clear();
        if !summary.unreadable.is_empty() {
            break;
        }
    }
    summary.taken = intake.taken;
    summary.parts = intake.parts;
    summary.runs = intake.runs.into_iter().collect();
    finish(&summary, args.format, output)
}

fn read(store: &Store, found: &Found) -> anyhow::Result<Option<Capture>> {
    let copy = tempfile::NamedTempFile::new()?;
    store.download(found, copy.path())?;
    let read = Capture::read(std::io::BufReader::new(copy.reopen()?));
    read.map_err(|error| anyhow::anyhow!("{}: {error}", store.name_of(&found.path)))
}

impl Args {
    fn wants(&self, found: &Found) -> bool {
        let Some((run, key)) = parse_staged(&found.path) else {
            return false;
        };
        let is_of_run = self.run.is_empty() || self.run.iter().any(|named| name_of(named) == run);
        let is_of_share = |share: Share| key.0.cast_unsigned() % share.of == share.number;
        is_of_run && self.part.is_none_or(is_of_share)
    }
}
