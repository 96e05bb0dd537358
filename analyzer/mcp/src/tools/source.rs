//! `source`: the text around a line in a capture, with the bytes that each line owns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gpumem_analyzer::names::Names;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::source;
use gpumem_analyzer::units::bytes;
use gpumem_analyzer::views::{ByStack, Lines, Select, at, level_or_default};
use gpumem_files::foreign;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts, is_settled};
use crate::context::Context;
use crate::found::Found;
use crate::refusal::{Refusal, refused};
use crate::roots::Roots;
use crate::selection::{LevelName, Moment};

/// Larger files are not read.
const LARGEST: u64 = 8 << 20;
/// The default and the highest number of lines before and after.
const AROUND: (u32, u32) = (8, 200);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// The file, as rows of the other tools name it
    file: String,
    /// The line
    #[schemars(range(min = 1))]
    line: u32,
    /// So many lines before and after it (default 8)
    #[serde(default)]
    #[schemars(range(max = 200))]
    around: Option<u32>,
    /// The moment of the bytes beside the lines: peak (default), end, oom, `step 3`, `event 12345` or a time
    #[serde(default)]
    at: Moment,
    /// Which level the bytes are of; by default tensors, or the driver's if there are no tensors
    #[serde(default)]
    level: Option<LevelName>,
}

/// The lines.
///
/// # Errors
/// The capture does not name the file, or its text must not or cannot be read.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let session = context.sessions.read(&capture, Query::from(args.at.0))?;
    let names = &session.replay.names;
    let files = named(names, &args.file);
    let file = match &files[..] {
        [file] => file,
        [] => {
            return Err(refused!(
                "{}: the capture does not name the file {}: take file and line from a row of lines, why or leaks",
                capture.name,
                args.file
            ));
        }
        several => {
            let several = several.iter().take(5).map(String::as_str);
            let several = several.collect::<Vec<_>>();
            return Err(refused!(
                "{}: {} may be any of {}: name the whole path",
                capture.name,
                args.file,
                several.join(", ")
            ));
        }
    };
    let (text, changed_since) = read(&context.roots, &session, file)?;
    let all = text.lines().count() as u32;
    if !(1..=all).contains(&args.line) {
        return Err(refused!(
            "{file}: it has {all} lines, not {}: the file may differ from the one that ran",
            args.line
        ));
    }
    let level = level_or_default(args.level.map(Into::into), &session.replay);
    let held = owned(&session, file, level);
    let around = args.around.unwrap_or(AROUND.0).min(AROUND.1);
    let (from, to) = (
        args.line.saturating_sub(around).max(1),
        args.line.saturating_add(around),
    );
    let lines = (1..).zip(text.lines());
    let shown = lines
        .skip_while(|(at, _)| *at < from)
        .take_while(|(at, _)| *at <= to);
    let rows: Vec<Value> = shown
        .map(|(at, text)| {
            let mut row = json!({"line": at, "text": text});
            if let Some((held, blocks)) = held.get(&at) {
                row["bytes"] = (*held).into();
                row["size"] = bytes(*held).into();
                row["blocks"] = (*blocks).into();
            }
            if at == args.line {
                row["asked"] = true.into();
            }
            row
        })
        .collect();
    let found = Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("file", file.as_str())
        .with("line", args.line)
        .with("lines_in_file", all)
        .with("level", level.to_string())
        .with("at", at(session.query.moment))
        .with("account", facts(&session))
        .with("total_rows", rows.len())
        .with_rows(rows);
    Ok(match changed_since {
        false => found,
        true => found.with(
            "may_differ",
            "the file changed after the run started: it may differ from the one that ran",
        ),
    })
}

/// The files in the capture that match: by the full name, else by the short name, else by the end of the path.
fn named(names: &Names, asked: &str) -> Vec<String> {
    let codes = names.codes.values();
    let files: BTreeSet<String> = codes.map(|code| names.absolute_path(&code.file)).collect();
    if let Some(whole) = files.get(asked) {
        return vec![whole.clone()];
    }
    let end = format!("/{asked}");
    let with = |is_it: &dyn Fn(&str) -> bool| {
        files
            .iter()
            .filter(|file| is_it(file))
            .cloned()
            .collect::<Vec<_>>()
    };
    match &with(&|file| names.short_path(file) == asked)[..] {
        [] => with(&|file| file.ends_with(&end)),
        short => short.to_vec(),
    }
}

/// The text, and whether the file was changed after the run started.
fn read(roots: &Roots, session: &Session, file: &str) -> Result<(String, bool), Refusal> {
    if file.starts_with('<') {
        return Err(refused!(
            "{file}: this code has no file, so it has no source text"
        ));
    }
    let directory = session.replay.names.directory().map(PathBuf::from);
    let path = directory.unwrap_or_default().join(file);
    if !path.is_absolute() {
        return Err(refused!("{file}: the capture does not have its folder"));
    }
    let absent = || {
        refused!(
            "{file}: no such file here: start the server on the machine with the program's files, with --root for its folder"
        )
    };
    let outside = |_| {
        refused!(
            "{file}: outside the folders of this server, {}: start the server with --root for the folder of the file",
            roots.said()
        )
    };
    if source::is_unwanted() {
        return Err(refused!(
            "{file}: this server shows no lines of source: it runs with --no-source or GPUMEM_NO_SOURCE"
        ));
    }
    let real = roots.file(&path).map_err(outside)?.ok_or_else(absent)?;
    if !roots.folders().any(|root| source::is_below(&real, root)) {
        return Err(refused!(
            "{file}: in a hidden folder, or hidden: its text is not shown"
        ));
    }
    let failed = |error: std::io::Error| refused!("{file}: {error}");
    let opened = foreign::open(&real).map_err(failed)?;
    let found = opened.metadata().map_err(failed)?;
    if found.len() > LARGEST {
        return Err(refused!(
            "{file}: it has {}: too large for a source file",
            bytes(found.len())
        ));
    }
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(session.header.started_wall_ns);
    let changed_since = found.modified().map_err(failed)? > started;
    let text = foreign::read(&opened, LARGEST).map_err(failed)?;
    Ok((String::from_utf8_lossy(&text).into_owned(), changed_since))
}

/// Bytes and blocks of each line of a file, over all GPUs and phases.
fn owned(session: &Session, file: &str, level: gpumem_capture::Level) -> BTreeMap<u32, (u64, u64)> {
    let held = ByStack::at(
        &session.replay,
        level,
        session.query.moment,
        &Select::default(),
    );
    let mut by_line = BTreeMap::new();
    for row in Lines::of(&session.replay, &held).rows {
        if let (Some(of), Some(line)) = (&row.file, row.line)
            && of == file
        {
            let (bytes, blocks) = by_line.entry(line).or_insert((0, 0));
            *bytes += row.bytes;
            *blocks += row.blocks;
        }
    }
    by_line
}
