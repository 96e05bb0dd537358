//! `captures`: the captures below the folders.

use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::{self, CaptureFile};
use gpumem_analyzer::captures;
use gpumem_analyzer::names::short_command;
use gpumem_analyzer::units::bytes;
use gpumem_capture::{Definition, ProcessKey, Record};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::capture::Capture;
use crate::context::Context;
use crate::found::Found;
use crate::refusal::Refusal;

/// The most files and folders that are searched.
const ENTRIES: usize = 50_000;
/// The newest captures whose program is read from the capture, because the header does not have it.
const PROGRAMS: usize = 200;
/// The most files that are named because they cannot be read.
const UNREADABLE: usize = 20;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Only captures whose path contains this
    #[serde(default)]
    name: Option<String>,
}

/// Lists captures, the newest first.
///
/// # Errors
/// Currently none.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let folders: Vec<PathBuf> = context.roots.folders().map(Path::to_owned).collect();
    let mut listing = captures::find_among(&folders, ENTRIES);
    let mut all: Vec<(u64, Map<String, Value>, PathBuf)> = Vec::new();
    for path in listing.captures {
        let Ok(capture) = Capture::at(&context.roots, path) else {
            continue;
        };
        let is_wanted = args.name.as_ref();
        if is_wanted.is_some_and(|part| !capture.name.contains(part.as_str())) {
            continue;
        }
        if let Some((started, row)) = described(&capture) {
            all.push((started, row, capture.path));
        }
    }
    all.sort_by(|a, b| (b.0, &a.2).cmp(&(a.0, &b.2)));
    for (_, row, path) in all.iter_mut().take(PROGRAMS) {
        row.extend(named(path));
    }
    let found = Found::default()
        .with(
            "folders",
            context
                .roots
                .folders()
                .map(|folder| folder.display().to_string())
                .collect::<Vec<_>>(),
        )
        .with("captures", all.len());
    listing.unreadable.truncate(UNREADABLE);
    let partial = listing.is_cut.then(|| {
        format!(
            "only {ENTRIES} files were read: start the server with folders closer to the captures"
        )
    });
    let unreadable = Some(listing.unreadable).filter(|of| !of.is_empty());
    let found = found
        .with_any("partial", partial)
        .with_any("unreadable", unreadable);
    let found = match all.first() {
        Some((_, newest, _)) => found.ask("summary", json!({"capture": newest["capture"]})),
        None => found,
    };
    Ok(found.with_rows(all.into_iter().map(|(_, row, _)| Value::Object(row))))
}

/// The facts in the header; `None` if the file is not a capture.
fn described(capture: &Capture) -> Option<(u64, Map<String, Value>)> {
    let header = ask::header(&capture.path).ok()?;
    let ended = match header.ended {
        Some(_) => "clean",
        None if header.is_running() => "running",
        None => "killed",
    };
    let mut row = Map::new();
    row.insert("capture".into(), capture.name.clone().into());
    row.insert("bytes".into(), capture.bytes().into());
    row.insert("size".into(), bytes(capture.bytes()).into());
    row.insert("pid".into(), header.pid.into());
    row.insert("started_unix_ns".into(), header.started_wall_ns.into());
    row.insert("ended".into(), ended.into());
    Some((header.started_wall_ns, row))
}

/// The program and its rank, from the definitions in the capture.
fn named(path: &Path) -> Map<String, Value> {
    let mut found = Map::new();
    let Ok(mut file) = CaptureFile::open_unmerged(path) else {
        return found;
    };
    let _ = file.reader().read_names(&mut |record| {
        let Record::Definition(_, Definition::Process { key, value }) = record else {
            return;
        };
        match key.as_str() {
            ProcessKey::COMMAND => {
                found.insert("program".into(), short_command(value).into());
            }
            ProcessKey::RANK => {
                let rank = value.parse::<u64>().ok();
                found.extend(rank.map(|rank| ("rank".to_owned(), rank.into())));
            }
            _ => {}
        }
    });
    found
}
