//! `gpumem-analyze fleet ingest`.

use std::collections::HashMap;

use gpumem_analyzer::envelope::{Body, Captures, Heads, View};
use gpumem_dataset::Key;
use schemars::JsonSchema;
use serde::Serialize;

use super::part::{Begun, Intake, complete_begun};
use super::places::many;
use super::sources::{Candidate, Is, Sources};
use super::taking::{Asked, TakingArgs, Took, take};
use crate::args::Format;
use crate::commands::each::in_order;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet ingest`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is stored of captures, and how.
    #[command(flatten)]
    pub how: TakingArgs,
    /// Captures, folders or object stores (s3://bucket/folder, gs://…, az://…); the last one is the dataset
    #[arg(required = true, num_args = 2.., value_name = "SOURCE... DATASET")]
    pub places: Vec<String>,
}

/// Result for the captures.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Summary {
    /// Number of captures that were added to the dataset.
    pub taken: usize,
    /// Runs of these captures.
    pub runs: Vec<String>,
    /// Number of parts that were written.
    pub parts: usize,
    /// Number of captures that were skipped: already in the dataset, or pruned before.
    pub known: usize,
    /// Captures that were skipped because their processes run.
    pub running: Vec<String>,
    /// Files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
    /// Parts of earlier calls that could not be completed, one message each.
    pub begun: Vec<String>,
}

impl View for Summary {
    const NAME: &'static str = "fleet-ingest";
    const BODY: Body = Body::Data;
    const HEADS: Heads = Heads::None;
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let Some((place, from)) = args.places.split_last() else {
        anyhow::bail!("name captures, and the dataset last");
    };
    let asked = args.how.asked()?;
    let dataset = args.how.store.dataset(place)?;
    dataset.store().sweep()?;
    let sources = Sources::list(from, args.how.store, place)?;
    let mut summary = Summary {
        unreadable: sources.unreadable.clone(),
        ..Summary::default()
    };
    let found = identified(&sources, &mut summary)?;
    let mut intake = Intake::new(dataset, asked.said()?);
    intake.dataset.remove_unwanted()?;
    let begun = Begun {
        asked: Some(&asked),
        found: &found,
        sources: Some(&sources),
        args: args.how.store,
    };
    summary.begun = complete_begun(&mut intake, &begun)?;
    summary.known = take_in(&mut intake, &sources, &found, &asked, &mut summary)?;
    summary.taken = intake.taken;
    summary.parts = intake.parts;
    summary.runs = intake.runs.into_iter().collect();
    finish(&summary, args.how.format, output)
}

/// Prints what became of captures.
pub fn finish(summary: &Summary, format: Format, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match format {
        Format::Json => output.json(&Captures::InBody, summary)?,
        Format::Text => output.text(&text(summary))?,
    }
    Ok(match summary.unreadable.is_empty() {
        true => Exit::Complete,
        false => Exit::Partial,
    })
}

fn text(summary: &Summary) -> String {
    let mut first = format!(
        "added {} of {}",
        many(summary.taken, "capture"),
        many(summary.runs.len(), "run")
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
    for line in &summary.begun {
        text += &format!("{line}\n");
    }
    text
}

/// The distinct captures among the found files; of several copies the first by name.
fn identified(sources: &Sources, summary: &mut Summary) -> anyhow::Result<HashMap<Key, Candidate>> {
    let mut found: HashMap<Key, Candidate> = HashMap::new();
    in_order(
        &sources.candidates,
        "searching for captures",
        |of| sources.is(of),
        |of, is| -> anyhow::Result<()> {
            match is {
                Is::Capture(key) => {
                    found.entry(key).or_insert_with(|| of.clone());
                }
                Is::Foreign => {}
                Is::Unreadable(why) => summary.unreadable.push(why),
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// Ingests the captures that the dataset does not have; returns the number of those that it has.
fn take_in(
    intake: &mut Intake,
    sources: &Sources,
    found: &HashMap<Key, Candidate>,
    asked: &Asked,
    summary: &mut Summary,
) -> anyhow::Result<usize> {
    let known_before = found
        .keys()
        .filter(|key| intake.dataset.knows(**key))
        .count();
    let known = known_before.saturating_sub(intake.taken);
    let mut keys: Vec<Key> = found.keys().copied().collect();
    loop {
        keys.retain(|key| !intake.dataset.knows(*key));
        let mut new: Vec<(&Candidate, Key)> = keys
            .iter()
            .filter_map(|key| Some((found.get(key)?, *key)))
            .collect();
        // Sorted by folder, so that a run's captures follow one another; then in the order of `fleet commit`.
        new.sort_by_key(|(of, key)| (folder(&of.name), *key));
        in_order(
            &new,
            "adding captures",
            |(of, _)| take(sources, of, asked),
            |_, took| {
                match took {
                    Took::Capture(capture) => intake.add(*capture)?,
                    Took::Runs(name) => summary.running.push(name),
                    Took::Unreadable(why) => summary.unreadable.push(why),
                }
                anyhow::Ok(())
            },
        )?;
        intake.finish()?;
        if intake.withdrawn.is_empty() {
            return Ok(known);
        }
        // Another ingest already has some captures of a part: the others are gathered again.
        let withdrawn = std::mem::take(&mut intake.withdrawn);
        keys = withdrawn.into_iter().map(|source| source.capture).collect();
        intake.dataset.look()?;
    }
}

fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
