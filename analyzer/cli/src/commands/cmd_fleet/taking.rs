//! Reads what a dataset stores of a capture.

use std::path::Path;
use std::time::Duration;

use gpumem_analyzer::fleet::{self, Options};
use gpumem_analyzer::session;
use gpumem_dataset::{Capture, Event, Spool, SpoolWriter, Store};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::places::StoreArgs;
use super::sources::{Candidate, Sources};
use super::take::TakeArgs;
use crate::args::Format;
use crate::commands::exit::explained;

/// A capture of another machine without a clean end counts as growing until it is unchanged for this long.
const QUIET: Duration = Duration::from_secs(600);

/// What is taken of captures, with their events, and how.
#[derive(clap::Args, Debug)]
pub struct TakingArgs {
    /// What is taken.
    #[command(flatten)]
    pub take: TakeArgs,
    /// Also store one row for each event; captures are then read twice
    #[arg(long)]
    pub events: bool,
    /// How stores are opened.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The options of an ingest, as a part records them, so that the part can be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    options: Options,
    events: bool,
    /// Identifies the secret without revealing it.
    secret: Option<String>,
}

impl TakingArgs {
    /// The requested options.
    pub fn asked(&self) -> anyhow::Result<Asked> {
        let options = self.take.options()?;
        // 32 bits detect a wrong secret and do not reveal the right one.
        let secret = options.secret.as_ref().map(|secret| {
            let salted = Sha256::new().chain_update("gpumem secret");
            let hash = salted.chain_update(secret).finalize();
            hash.iter()
                .take(4)
                .map(|byte| format!("{byte:02x}"))
                .collect()
        });
        Ok(Asked {
            options,
            events: self.events,
            secret,
        })
    }
}

impl Asked {
    /// The form that a part records.
    pub fn said(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }

    /// The options that a part records; the secret is this one's if it is the same. `None` if it differs.
    pub fn of_part(&self, said: &serde_json::Value) -> Option<Self> {
        let mut asked: Self = serde_json::from_value(said.clone()).ok()?;
        if asked.secret.is_some() && asked.secret != self.secret {
            return None;
        }
        if asked.secret.is_some() {
            asked.options.secret.clone_from(&self.options.secret);
        }
        Some(asked)
    }
}

/// The result for a capture.
pub enum Took {
    /// It was read.
    Capture(Box<Capture>),
    /// Its process still runs.
    Runs(String),
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// Reads a capture; one in an object store is first copied to a temporary file.
pub fn take(sources: &Sources, of: &Candidate, asked: &Asked) -> Took {
    let read = || -> anyhow::Result<Took> {
        let store = sources.store(of)?;
        if !Store::is_remote(store.place()) {
            let path = store.name_of(&of.found.path);
            return read(Path::new(&path), of, false, asked);
        }
        let copy = tempfile::NamedTempFile::new()?;
        store.download(&of.found, copy.path())?;
        read(copy.path(), of, true, asked)
    };
    read().unwrap_or_else(|error| Took::Unreadable(format!("{error:#}")))
}

fn read(path: &Path, of: &Candidate, is_remote: bool, asked: &Asked) -> anyhow::Result<Took> {
    let refused = |error: &session::Error| explained(path, error);
    let taken = fleet::take(path, &of.name, &asked.options).map_err(|error| refused(&error))?;
    let ending = &*taken.rows.rank.ending;
    let age = of.found.modified.elapsed().unwrap_or_default();
    let may_run = ending != "clean" && age < QUIET && (is_remote || is_of_elsewhere(path));
    if ending == "running" || may_run {
        return Ok(Took::Runs(of.name.clone()));
    }
    let mut capture = Capture {
        from: of.name.clone(),
        events: None,
        rows: taken.rows.clone(),
    };
    if asked.events {
        let (spool, lines) = spool(&taken, path)?;
        capture.events = Some(spool);
        capture.rows.lines.extend(lines);
    }
    Ok(Took::Capture(Box::new(capture)))
}

fn spool(taken: &fleet::Taken, path: &Path) -> anyhow::Result<(Spool, Vec<gpumem_dataset::Line>)> {
    let mut out = SpoolWriter::new()?;
    let lines = taken.events(path, &mut |event: Event| -> anyhow::Result<()> {
        Ok(out.push(&event)?)
    })?;
    Ok((out.finish()?, lines))
}

/// Whether another machine wrote it, or this one before its last boot. With process id 0 the writer is unknown, and no
/// process writes any more.
fn is_of_elsewhere(path: &Path) -> bool {
    gpumem_capture::Reader::open(path).is_ok_and(|reader| {
        let header = reader.header();
        header.pid != 0 && !header.is_of_this_boot()
    })
}
