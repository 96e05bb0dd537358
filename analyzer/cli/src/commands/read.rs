//! Reads captures with a progress bar.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use gpumem_analyzer::ask::{CaptureFile, Later, Passes, SecondPass};
use gpumem_analyzer::replay::{At, OutOfMemory, Query};
use gpumem_analyzer::session::{self, Session, Survey};
use gpumem_analyzer::symbols::{PerfMap, Places, Symbols};
use gpumem_analyzer::unanswered::Unanswered;
use gpumem_analyzer::views::ReplaysOfRun;
use gpumem_analyzer::watch::{Observer, Watch};
use gpumem_capture::{Level, Merged, Progress, Reader};

use super::exit::explained;
use super::progress::Bar;
use crate::args::SymbolArgs;
use crate::selection::Part;

/// An open capture, read with a progress bar.
pub struct Opened(CaptureFile);

impl Opened {
    /// Opens a capture.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        match CaptureFile::open(path) {
            Ok(file) => Ok(Self(file)),
            Err(error) => Err(explained(path, &error)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The open file, to copy it.
    pub fn reader(&mut self) -> &Reader {
        self.0.reader()
    }

    /// The id of the recorded process.
    pub fn pid(&self) -> u32 {
        self.0.header().pid
    }

    /// Whether the recorded process runs.
    pub fn is_running(&self) -> bool {
        self.0.header().is_running()
    }

    /// What became of the events that the process left in memory, when the capture was opened.
    pub fn merged(&self) -> anyhow::Result<Merged> {
        self.0.merged().map_err(|error| anyhow!("{error}"))
    }

    /// The progress of a pass, which can also stop it. A stopped session is unusable.
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Makes a pass over all records.
    pub fn read(&mut self, query: impl Into<Query>) -> anyhow::Result<Session> {
        self.read_with(query, &mut |_, _, _| {})
    }

    /// The same; passes each record to `observer`.
    pub fn read_with(
        &mut self,
        query: impl Into<Query>,
        mut observer: &mut Observer<'_>,
    ) -> anyhow::Result<Session> {
        self.read_watched(query, &mut observer)
    }

    /// The same for what also follows records before the replay.
    pub fn read_watched(
        &mut self,
        query: impl Into<Query>,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Session> {
        let query = self.known(query.into())?;
        let session = self.pass(|file| file.read_watched(query, watch))?;
        match Unanswered::by(&session, query) {
            Some(why) => Err(anyhow!("{}: {why}", self.path().display())),
            None => Ok(session),
        }
    }

    /// Surveys its events.
    pub fn survey(&mut self) -> anyhow::Result<Survey> {
        self.pass(CaptureFile::survey)
    }

    /// Makes a second pass if it is needed.
    pub fn read_later(
        &mut self,
        second: SecondPass<'_>,
        replays: Option<&ReplaysOfRun>,
    ) -> anyhow::Result<Later> {
        match second.is_needed() {
            true => self.pass(|file| second.read(file, replays)),
            false => Ok(second.finish(None, replays)),
        }
    }

    /// The failure to show first, and its number; an error if no allocation failed.
    pub fn main_failure(&mut self) -> anyhow::Result<(u64, OutOfMemory)> {
        let known = match self.0.main_failure() {
            Some(known) => known,
            None => self.read(At::End)?.replay.main_failure(),
        };
        known.ok_or_else(|| {
            anyhow!(
                "{}: no allocation failed because memory ran out: name another point in time, such as end",
                self.path().display()
            )
        })
    }

    /// The query; the point in time of the failure is replaced by its event, which is known after a complete pass.
    fn known(&mut self, query: Query) -> anyhow::Result<Query> {
        let moment = match query.moment {
            At::Failure => At::Event(self.main_failure()?.1.seq),
            moment => moment,
        };
        Ok(Query { moment, ..query })
    }

    fn pass<T>(
        &mut self,
        read: impl FnOnce(&mut CaptureFile) -> Result<T, session::Error>,
    ) -> anyhow::Result<T> {
        let bar = Bar::start(self.0.progress());
        let read = read(&mut self.0);
        drop(bar);
        read.map_err(|error| explained(self.path(), &error))
    }

    /// The first pass for a view of each block, and the requested level. It fails if the level's peak is requested and
    /// is before the records of a bounded capture.
    pub fn read_for_blocks(
        &mut self,
        query: Query,
        part: &Part,
    ) -> anyhow::Result<(Session, Level)> {
        let first = self.read(query)?;
        let level = part.level(&first)?;
        if let (At::Peak, Some(restored)) = (query.moment, first.replay.restored) {
            let rows = first.replay.levels.iter();
            let mut of_level = rows.filter(|((_, of), _)| *of == level);
            if of_level.any(|(_, row)| row.peak.0 < restored.from) {
                return Err(not_kept(self.path(), &first));
            }
        }
        Ok((first, level))
    }
}

impl Passes for Opened {
    type Error = anyhow::Error;

    fn pass(&mut self, query: Query, observer: &mut Observer<'_>) -> anyhow::Result<Session> {
        self.read_with(query, observer)
    }
}

/// The error that a bounded capture no longer has something.
pub fn not_kept(path: &Path, session: &Session) -> anyhow::Error {
    anyhow!("{}: {}", path.display(), Unanswered::not_kept(session))
}

/// What `gpumem whatif --format json` printed into a file.
pub fn replays_of(file: &Path) -> anyhow::Result<ReplaysOfRun> {
    let text = gpumem_files::read::whole(file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    ReplaysOfRun::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

/// Looks up names for a capture that was read as `session`, in the places given by the user, the environment and the
/// capture's own folder. The bar shows long searches until it is dropped.
pub fn symbols(path: &Path, session: &Session, asked: &SymbolArgs) -> (Symbols, Option<Bar>) {
    let symbols = Symbols::new(places(asked), PerfMap::of(path, &session.header));
    let work = symbols.work();
    let bar = Bar::counting("naming", move || (work.done(), work.total()));
    (symbols, Some(bar))
}

/// The places for names that the user and the environment give.
pub fn places(asked: &SymbolArgs) -> Places {
    let mut places = Places::of_environment(|name| std::env::var_os(name));
    places.sysroot.clone_from(&asked.sysroot);
    places
        .debug_dirs
        .splice(..0, asked.debug_dir.iter().cloned());
    places.copied.clone_from(&asked.symbols);
    places
}
