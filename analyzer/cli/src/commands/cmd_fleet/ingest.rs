//! `gpumem-analyze fleet ingest`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use gpumem_analyzer::ask;
use gpumem_analyzer::captures::{self, Kind, Walk};
use gpumem_analyzer::envelope::{Body, Captures, Form, Heads, View};
use gpumem_analyzer::fleet::{self, Options};
use gpumem_analyzer::units::many;
use gpumem_dataset::{Capture, Dataset, Gathered, Gatherer, Key};
use schemars::JsonSchema;
use serde::Serialize;

use super::removed;
use super::take::TakeArgs;
use super::taking::{Took, take};
use crate::args::Format;
use crate::commands::each::in_order;
use crate::commands::exit::{Exit, explained};
use crate::commands::output::Output;

/// `fleet ingest`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "gpumem-analyze fleet ingest [OPTIONS] <SOURCE>... <DATASET>")]
pub struct Args {
    /// What is stored of captures.
    #[command(flatten)]
    pub take: TakeArgs,
    /// Also store one row for each event; captures are then read twice
    #[arg(long)]
    pub events: bool,
    #[arg(long, hide = true, value_parser = removed::patience)]
    retry_for: Option<u64>,
    #[arg(long, hide = true, value_parser = removed::patience)]
    request_timeout: Option<u64>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Captures, or folders with captures; the last one is the dataset's folder
    #[arg(required = true, num_args = 2.., value_name = "PATH", value_parser = removed::place)]
    pub places: Vec<PathBuf>,
}

/// Result for the captures.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Summary {
    /// Number of captures that were added to the dataset.
    taken: usize,
    /// Runs of these captures.
    runs: BTreeSet<String>,
    /// Number of parts that were written.
    parts: usize,
    /// Number of captures that were skipped because they are in the dataset.
    known: usize,
    /// Captures that were skipped because their processes run.
    running: Vec<String>,
    /// Files that could not be read, each with the reason.
    unreadable: Vec<String>,
}

impl View for Summary {
    const FORM: Form = Form {
        name: "fleet-ingest",
        body: Body::Data,
        heads: Heads::None,
    };
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let Some((place, from)) = args.places.split_last() else {
        anyhow::bail!("name captures, and the dataset last");
    };
    let options = args.take.options()?;
    let dataset = Dataset::open(place)?;
    let mut summary = Summary::default();
    let found = identified(from, &mut summary)?;
    let mut intake = Intake {
        dataset,
        gatherer: Gatherer::default(),
        summary,
        withdrawn: Vec::new(),
    };
    intake.all(&found, &options, args.events)?;
    let summary = intake.summary;
    match args.format {
        Format::Json => output.json(&Captures::InBody, &summary)?,
        Format::Text => output.text(&text(&summary))?,
    }
    Ok(match summary.unreadable.is_empty() {
        true => Exit::Complete,
        false => Exit::Partial,
    })
}

fn text(summary: &Summary) -> String {
    let mut first = format!(
        "added {} of {}",
        many(summary.taken as u64, "capture", "captures"),
        many(summary.runs.len() as u64, "run", "runs")
    );
    if summary.known > 0 {
        first += &format!(", {} already in the dataset", summary.known);
    }
    if !summary.running.is_empty() {
        first += &format!(
            ", {} skipped because their processes are running",
            summary.running.len()
        );
    }
    if !summary.unreadable.is_empty() {
        first = format!("PARTIAL: {first}, {} unreadable", summary.unreadable.len());
    }
    let mut text = first + "\n";
    for name in &summary.unreadable {
        text += &format!("unreadable: {name}\n");
    }
    for name in &summary.running {
        text += &format!("running: {name}\n");
    }
    text
}

/// The distinct captures at these places; of several copies the first by name.
fn identified(places: &[PathBuf], summary: &mut Summary) -> anyhow::Result<HashMap<Key, PathBuf>> {
    let places = places.iter().map(std::path::absolute);
    let walk = Walk::of(&places.collect::<Result<Vec<_>, _>>()?, usize::MAX);
    summary.unreadable = walk.unreadable;
    let named: HashSet<_> = walk.named.iter().collect();
    let mut files: Vec<&PathBuf> = walk.named.iter().chain(&walk.files).collect();
    files.sort_unstable();
    files.dedup();
    let kind = |path: &&PathBuf| match ask::header(path) {
        Err(error) if named.contains(path) => {
            Kind::Unreadable(explained(path, &error.into()).to_string())
        }
        opened => captures::kind_of(path, opened),
    };
    let mut found: HashMap<Key, PathBuf> = HashMap::new();
    in_order(
        &files,
        "searching for captures",
        kind,
        |path, kind| -> anyhow::Result<()> {
            match kind {
                Kind::Capture(header) => {
                    let first = found.entry(fleet::key(&header));
                    first.or_insert_with(|| path.to_path_buf());
                }
                Kind::Other => {}
                Kind::Unreadable(why) => summary.unreadable.push(why),
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// Adds captures to a dataset.
struct Intake {
    dataset: Dataset,
    gatherer: Gatherer,
    summary: Summary,
    /// Captures of parts of which another ingest has added a capture meanwhile.
    withdrawn: Vec<Key>,
}

impl Intake {
    /// Ingests the captures that the dataset does not have.
    fn all(
        &mut self,
        found: &HashMap<Key, PathBuf>,
        options: &Options,
        events: bool,
    ) -> anyhow::Result<()> {
        let mut keys: Vec<Key> = found.keys().copied().collect();
        while !keys.is_empty() {
            let before = keys.len();
            keys.retain(|key| !self.dataset.has(*key));
            self.summary.known += before - keys.len();
            let mut new: Vec<(&Path, &Path, Key)> = keys
                .iter()
                .filter_map(|key| Some((found.get(key)?.as_path(), *key)))
                .map(|(of, key)| (of.parent().unwrap_or(of), of, key))
                .collect();
            // By folder, so that a run's captures follow one another, and then in an order that does not depend on names.
            new.sort_by_key(|(folder, _, key)| (*folder, *key));
            in_order(
                &new,
                "adding captures",
                |(_, of, _)| take(of, options, events),
                |_, took| {
                    match took {
                        Took::Capture(capture) => self.add(*capture)?,
                        Took::Runs(name) => self.summary.running.push(name),
                        Took::Unreadable(why) => self.summary.unreadable.push(why),
                    }
                    anyhow::Ok(())
                },
            )?;
            let left = std::mem::take(&mut self.gatherer);
            left.finish().try_for_each(|part| self.publish(part))?;
            keys = std::mem::take(&mut self.withdrawn);
        }
        Ok(())
    }

    /// Adds a capture, and writes the parts that are now full.
    fn add(&mut self, capture: Capture) -> anyhow::Result<()> {
        for full in self.gatherer.add(capture)? {
            self.publish(full)?;
        }
        Ok(())
    }

    fn publish(&mut self, gathered: Gathered) -> anyhow::Result<()> {
        let made = gathered.make()?;
        if self.dataset.publish(&made)? {
            self.summary.taken += made.captures.len();
            self.summary.parts += 1;
            self.summary.runs.insert(made.name.run);
        } else {
            self.withdrawn.extend(made.captures);
        }
        Ok(())
    }
}
