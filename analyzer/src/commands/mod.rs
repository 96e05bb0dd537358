//! One module for each subcommand, and what they share.

pub mod cmd_changes;
pub mod cmd_check;
pub mod cmd_diff;
pub mod cmd_export;
pub mod cmd_flamegraph;
pub mod cmd_fragmentation;
pub mod cmd_hints;
pub mod cmd_html;
pub mod cmd_import;
pub mod cmd_leaks;
pub mod cmd_ledger;
pub mod cmd_lines;
pub mod cmd_oom;
pub mod cmd_recover;
pub mod cmd_report;
pub mod cmd_scopes;
pub mod cmd_shell;
pub mod cmd_sizes;
pub mod cmd_summary;
pub mod cmd_symbolize;
pub mod cmd_temporary;
pub mod cmd_timeline;
pub mod cmd_tree;
mod progress;

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context as _;
use gpumem_analyzer::render::{Terminal, time};
use gpumem_analyzer::replay::{Moment, Replay, Wanted};
use gpumem_analyzer::session::{self, Observer, Session};
use gpumem_analyzer::symbols::{PerfMap, Places, Symbols};
use gpumem_analyzer::views::{Asked, Ledger};
use gpumem_capture::{Level, OpenError, Reader};
use serde::Serialize;

use crate::cli::SymbolArgs;

/// How a command ended that has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing is missing.
    Complete,
    /// Something is, and it was said.
    Partial,
}

impl Exit {
    /// By whether the account is exact.
    pub fn of(session: &Session) -> Self {
        if session.account.is_exact() {
            Self::Complete
        } else {
            Self::Partial
        }
    }

    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Partial => 3,
        }
    }
}

/// What commands print to.
pub struct Output<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// What it is.
    pub terminal: Terminal,
}

impl Output<'_> {
    /// Prints text.
    pub fn text(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Prints JSON, indented, with a line end.
    pub fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Writes a whole file and says so: its name and `said`; where the file is `-`, prints its contents.
    pub fn deliver(&mut self, to: &Path, contents: &[u8], said: &str) -> anyhow::Result<()> {
        if to == Path::new("-") {
            self.out.write_all(contents)?;
            return Ok(());
        }
        write_file(to, contents).with_context(|| format!("cannot write {}", to.display()))?;
        self.text(&format!("{}: {said}\n", to.display()))
    }
}

/// Reads a capture with a progress bar.
pub fn read(path: &Path, wanted: impl Into<Wanted>) -> anyhow::Result<Session> {
    read_with(path, wanted, &mut |_, _, _| {})
}

/// The same, and shows each record to `observer`.
pub fn read_with(
    path: &Path,
    wanted: impl Into<Wanted>,
    observer: &mut Observer<'_>,
) -> anyhow::Result<Session> {
    let (wanted, mut bar) = (wanted.into(), None);
    session::read(path, wanted, observer, &mut |progress| {
        bar = Some(progress::Bar::start(progress))
    })
    .map_err(|error| explained(path, &error))
    .and_then(|session| told(path, session, wanted))
}

/// The session, if it has what is wanted.
fn told(path: &Path, session: Session, wanted: Wanted) -> anyhow::Result<Session> {
    let (replay, path_said) = (&session.replay, path.display());
    match wanted.moment {
        _ if !replay.can_tell(wanted) => Err(not_kept(path, &session)),
        Moment::At(at) if at > replay.last_seq => anyhow::bail!(
            "{path_said}: there is no event {}, the last is {}: name an earlier one",
            at.0,
            replay.last_seq.0
        ),
        Moment::Time(at) if at > replay.last => anyhow::bail!(
            "{path_said}: there is no event after {}, the last is at {}: name an earlier time",
            time(at),
            time(replay.last)
        ),
        Moment::Step(step) if replay.until().is_none() => match replay.course.steps {
            0 => anyhow::bail!("{path_said}: no step was marked: name an event or a time"),
            ended => anyhow::bail!(
                "{path_said}: step {step} did not end, for {ended} did: name one of those"
            ),
        },
        _ => Ok(session),
    }
}

/// That a bounded capture no longer has something.
pub fn not_kept(path: &Path, session: &Session) -> anyhow::Error {
    let from = session
        .replay
        .restored
        .map_or(0, |restored| restored.from.0);
    let steps = session.replay.restored.map_or(0, |restored| restored.steps);
    anyhow::anyhow!(
        "{}: a bounded capture keeps its newest records, these from event {from} (step {}) on: name a \
         later one, the peak or the end",
        path.display(),
        steps.saturating_add(2),
    )
}

/// Says on stderr that a bounded capture does not tell all of something.
pub fn say_bounded(session: &Session, what: &str) {
    if let Some(restored) = session.replay.restored {
        eprintln!(
            "gpumem-analyze: a bounded capture keeps its newest records: {what} before event {} are not told",
            restored.from.0
        );
    }
}

/// The ledgers of a capture that was read as `session`, with a progress bar.
pub fn ledgers(path: &Path, session: &Session, asked: Asked) -> anyhow::Result<Vec<Ledger>> {
    let mut bar = None;
    Ledger::read(path, session, asked, &mut |progress| {
        bar = Some(progress::Bar::start(progress))
    })
    .map_err(|error| explained(path, &error))
}

/// Looks names up for a capture that was read as `session`, where the user, the environment and the
/// capture's own folder say. The bar shows long searches until it is dropped.
pub fn symbols(
    path: &Path,
    session: &Session,
    asked: &SymbolArgs,
) -> (Symbols, Option<progress::Bar>) {
    let mut places = Places::of_environment(|name| std::env::var_os(name));
    places.sysroot.clone_from(&asked.sysroot);
    places
        .debug_dirs
        .splice(..0, asked.debug_dir.iter().cloned());
    places.copied.clone_from(&asked.symbols);
    let symbols = Symbols::new(places, PerfMap::of(path, &session.header));
    let work = symbols.work();
    let bar = progress::Bar::counting("naming", move || (work.done(), work.total()));
    (symbols, Some(bar))
}

/// Writes a file in one go: a browser that has it open never sees half of it.
///
/// # Errors
/// The system's.
pub fn write_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    // Only an ordinary file can be put in another's place; pipes and devices are written to.
    if path.symlink_metadata().is_ok_and(|facts| !facts.is_file()) {
        return std::fs::write(path, contents);
    }
    in_its_place(path, |part| std::fs::write(part, contents))
}

/// Has a file written under another name, and then puts it in the place of `path`: whole or not at all.
///
/// # Errors
/// What `write` says, or the system's.
pub fn in_its_place<T, E: From<std::io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    let written = write(part).and_then(|said| {
        std::fs::rename(part, path)?;
        Ok(said)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(part);
    }
    written
}

/// The process that was recorded.
pub fn pid(path: &Path) -> anyhow::Result<u32> {
    let reader = Reader::open(path).map_err(|error| explained(path, &error.into()))?;
    Ok(reader.header().pid)
}

/// The error with what to do about it.
fn explained(path: &Path, error: &session::Error) -> anyhow::Error {
    let advice = match error {
        session::Error::Open(OpenError::Io { source, .. }) => match source.kind() {
            ErrorKind::NotFound => {
                "to record one: LD_PRELOAD=libgpumem.so COMMAND (report.bin, or where GPUMEM_OUTPUT says)"
            }
            ErrorKind::PermissionDenied => "run this as the user who recorded it",
            _ => "name a report.bin that libgpumem.so wrote",
        },
        session::Error::Open(OpenError::Foreign { .. }) => {
            "name a report.bin that libgpumem.so wrote"
        }
        session::Error::Open(OpenError::FutureVersion { .. }) => {
            "update gpumem, or use the gpumem-analyze that came with the recorder"
        }
        session::Error::Open(_) => "copy it again from where it was recorded",
        _ if path.exists() => "try again, or copy the file to another disk",
        _ => "the file has gone",
    };
    anyhow::anyhow!("{error}: {advice}")
}

/// The level asked for, or the one that tells most.
pub fn level_or_default(asked: Option<Level>, replay: &Replay) -> Level {
    asked.unwrap_or_else(|| {
        let has = |level| replay.rows.keys().any(|(_, of)| *of == level);
        if has(Level::TENSOR) || !has(Level::DRIVER) {
            Level::TENSOR
        } else {
            Level::DRIVER
        }
    })
}

/// Says on stderr what is missing, for results in JSON and pictures that have no room for it.
pub fn say_missing(session: &Session) {
    for line in &session.account.missing {
        eprintln!("gpumem-analyze: partial: {line}");
    }
}

/// The file's name as the report's first word.
pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
