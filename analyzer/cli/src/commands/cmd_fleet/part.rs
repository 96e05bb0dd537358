//! Adds captures to parts of a dataset, and completes parts that another process began.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use gpumem_dataset::{
    Capture, Dataset, Entry, Gathered, Gatherer, Key, SCHEMA, Source, staged_path,
};

use super::places::StoreArgs;
use super::places::many;
use super::sources::{Candidate, Is, Sources};
use super::taking::{Asked, Took, take};

/// After this time, a process on another machine that began a part counts as dead.
const ABANDONED: Duration = Duration::from_secs(600);

/// Adds captures to a dataset.
pub struct Intake {
    /// The dataset.
    pub dataset: Dataset,
    gatherer: Gatherer,
    options: serde_json::Value,
    /// Captures that were added.
    pub taken: usize,
    /// Their runs.
    pub runs: BTreeSet<String>,
    /// Parts that were written.
    pub parts: usize,
    /// Captures whose parts conflict with those of another ingest; they must be checked again.
    pub withdrawn: Vec<Source>,
}

impl Intake {
    /// For this dataset; its parts record these options.
    pub fn new(dataset: Dataset, options: serde_json::Value) -> Self {
        Self {
            dataset,
            gatherer: Gatherer::default(),
            options,
            taken: 0,
            runs: BTreeSet::new(),
            parts: 0,
            withdrawn: Vec::new(),
        }
    }

    /// Adds a capture, and writes the parts that are now full.
    pub fn add(&mut self, capture: Capture) -> anyhow::Result<()> {
        for full in self.gatherer.add(capture)? {
            self.publish(full)?;
        }
        Ok(())
    }

    /// Writes the remaining parts.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        let left = std::mem::take(&mut self.gatherer);
        left.finish().try_for_each(|part| self.publish(part))
    }

    fn publish(&mut self, gathered: Gathered) -> anyhow::Result<()> {
        let made = gathered.make(me(), self.options.clone())?;
        match self.dataset.publish(&made)? {
            true => self.completed(&made.entry),
            false => self.withdrawn.extend(made.entry.captures),
        }
        Ok(())
    }

    fn completed(&mut self, entry: &Entry) {
        self.taken += entry.captures.len();
        self.parts += 1;
        self.runs.insert(entry.run.clone());
    }
}

/// This host and process.
fn me() -> (String, u32) {
    (gpumem_dataset::host(), std::process::id())
}

/// Where to find the captures of parts that were begun.
pub struct Begun<'a> {
    /// The options of this ingest; `None` if it only adds staged captures.
    pub asked: Option<&'a Asked>,
    /// The captures that this ingest found.
    pub found: &'a HashMap<Key, Candidate>,
    /// Their stores.
    pub sources: Option<&'a Sources>,
    /// How stores are opened.
    pub args: StoreArgs,
}

/// Completes parts that were begun, or releases them. Returns a line for each that was released or skipped.
pub fn complete_begun(intake: &mut Intake, begun: &Begun<'_>) -> anyhow::Result<Vec<String>> {
    let mut said = Vec::new();
    for (number, entry) in intake.dataset.unfinished() {
        let name = format!(
            "part {} of run {} ({})",
            entry.part,
            entry.run,
            many(entry.captures.len(), "capture")
        );
        match remake(intake, begun, &entry) {
            Ok(gathered) => {
                let made = gathered.make(me(), entry.options.clone())?;
                if made.entry.part == entry.part {
                    intake.dataset.complete(number, &made)?;
                    intake.completed(&entry);
                } else {
                    intake.dataset.release(number)?;
                    said.push(format!(
                        "{name} was discarded: its captures have other rows now"
                    ));
                }
            }
            Err(why) if is_at_work(intake, number, &entry)? => {
                said.push(format!(
                    "{name} was skipped: {why}, and the process that began it may still be running"
                ));
            }
            Err(why) => {
                intake.dataset.release(number)?;
                said.push(format!("{name} was discarded: {why}"));
            }
        }
    }
    Ok(said)
}

/// The rows of a part that was begun, or why they cannot be made again.
fn remake(intake: &Intake, begun: &Begun<'_>, entry: &Entry) -> Result<Gathered, String> {
    if entry.schema != SCHEMA {
        return Err("it was begun by another version of gpumem".into());
    }
    let mut gathered = Gathered::new(&entry.run);
    let asked = match (&entry.options, begun.asked) {
        (serde_json::Value::Null, _) => None,
        (_, None) => return Err("it was begun by `fleet ingest`".into()),
        (said, Some(asked)) => match asked.of_part(said) {
            None => return Err("it needs the --secret it was begun with".into()),
            Some(of_part) => {
                let here = |source: &Source| begun.found.contains_key(&source.capture);
                if of_part != *asked && entry.captures.iter().all(here) {
                    return Err("its captures are now added with other options".into());
                }
                Some(of_part)
            }
        },
    };
    for source in &entry.captures {
        let capture = match &asked {
            None => staged(intake, &entry.run, source.capture)?,
            Some(asked) => again(begun, source, asked)?,
        };
        gathered.add(capture).map_err(|error| error.to_string())?;
    }
    Ok(gathered)
}

fn staged(intake: &Intake, run: &str, capture: Key) -> Result<Capture, String> {
    let path = staged_path(run, capture);
    let contents = intake.dataset.store().get(&path);
    let contents = contents.map_err(|error| error.to_string())?;
    match Capture::read(&contents[..]) {
        Ok(Some(capture)) => Ok(capture),
        Ok(None) => Err(format!("{path} was written by another version of gpumem")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

/// Reads a capture from its previous place, or from its current one.
fn again(begun: &Begun<'_>, source: &Source, asked: &Asked) -> Result<Capture, String> {
    let at = std::slice::from_ref(&source.from);
    let own = Sources::list(at, begun.args, "/dev/null").map_err(|error| error.to_string())?;
    let there = own.candidates.iter().find(|of| {
        of.name == source.from && matches!(own.is(of), Is::Capture(key) if key == source.capture)
    });
    let (sources, candidate) = match (there, begun.found.get(&source.capture), begun.sources) {
        (Some(candidate), ..) => (&own, candidate.clone()),
        (None, Some(candidate), Some(sources)) => (sources, candidate.clone()),
        _ => return Err(format!("{} no longer exists", source.from)),
    };
    let named = Candidate {
        name: source.from.clone(),
        ..candidate
    };
    match take(sources, &named, asked) {
        Took::Capture(capture) => Ok(*capture),
        Took::Runs(name) => Err(format!("{name} is being written")),
        Took::Unreadable(why) => Err(why),
    }
}

/// Whether the process that began a part may be alive.
fn is_at_work(intake: &Intake, number: u64, entry: &Entry) -> anyhow::Result<bool> {
    let (host, pid) = &entry.by;
    if *host == gpumem_dataset::host() {
        return Ok(*pid != std::process::id() && gpumem_dataset::is_alive(&pid.to_string()));
    }
    let begun = intake.dataset.begun(number)?;
    Ok(begun.is_some_and(|begun| begun.elapsed().unwrap_or_default() < ABANDONED))
}
