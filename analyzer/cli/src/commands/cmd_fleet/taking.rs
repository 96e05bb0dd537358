//! Reads what a dataset stores of a capture.

use std::path::Path;
use std::time::Duration;

use gpumem_analyzer::fleet::{self, Options};
use gpumem_dataset::{Capture, Event, Spool, SpoolWriter};

use crate::commands::exit::explained;

/// A capture of another machine without a clean end counts as growing until it is unchanged for this long.
const QUIET: Duration = Duration::from_secs(600);

/// The result for a capture.
pub enum Took {
    /// It was read.
    Capture(Box<Capture>),
    /// Its process still runs.
    Runs(String),
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// Reads a capture, with its events if requested.
pub fn take(path: &Path, options: &Options, events: bool) -> Took {
    read(path, options, events).unwrap_or_else(|error| Took::Unreadable(format!("{error:#}")))
}

fn read(path: &Path, options: &Options, events: bool) -> anyhow::Result<Took> {
    let name = path.display().to_string();
    let mut taken = fleet::take(path, &name, options).map_err(|error| explained(path, &error))?;
    let ending = &*taken.rows.rank.ending;
    let written = path.metadata().and_then(|file| file.modified());
    let age = written
        .ok()
        .and_then(|of| of.elapsed().ok())
        .unwrap_or_default();
    let may_run = ending != "clean" && age < QUIET && taken.is_of_elsewhere();
    if ending == "running" || may_run {
        return Ok(Took::Runs(name));
    }
    let mut capture = Capture {
        events: None,
        rows: taken.rows.clone(),
    };
    if events {
        let (spool, lines) = spool(&mut taken)?;
        capture.events = Some(spool);
        capture.rows.lines.extend(lines);
    }
    Ok(Took::Capture(Box::new(capture)))
}

fn spool(taken: &mut fleet::Taken) -> anyhow::Result<(Spool, Vec<gpumem_dataset::Line>)> {
    let mut out = SpoolWriter::new()?;
    let lines =
        taken.events(&mut |event: Event| -> anyhow::Result<()> { Ok(out.push(&event)?) })?;
    Ok((out.finish()?, lines))
}
