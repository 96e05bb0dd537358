//! Captures in folders, each followed on its own thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpumem_analyzer::captures::Listing;
use gpumem_capture::OpenError;

use super::ask::Ask;
use super::frame::Frame;
use super::pod::Pod;
use super::watch::Watch;

/// Which captures are followed, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most captures.
    pub captures: usize,
    /// How long a capture stays after its program has ended, unless it is removed; `None`: always, also if it is removed.
    pub keep: Option<Duration>,
    /// The interval of frames.
    pub every: Duration,
    /// Whether frames have a table.
    pub has_table: bool,
}

/// The number of captures in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Their program runs.
    pub running: u64,
    /// Their program ended, and they are still shown.
    pub ended: u64,
    /// Their program ended longer ago.
    pub past: u64,
    /// They exceed the limit.
    pub beyond: u64,
    /// They cannot be read.
    pub unreadable: u64,
}

/// A capture that is followed.
struct Followed {
    nonce: u64,
    pod: Pod,
    source: Source,
}

enum Source {
    Watched(Watch),
    /// Its last frame, and the time at which it was first seen. Its replay is dropped.
    Ended(Arc<Frame>, Instant),
}

impl Followed {
    fn frame(&self) -> Option<Arc<Frame>> {
        match &self.source {
            Source::Watched(watch) => watch.frame(),
            Source::Ended(frame, _) => Some(frame.clone()),
        }
    }
}

/// A capture at a point in time.
#[derive(Clone, Debug)]
pub struct Now {
    /// Its path.
    pub path: PathBuf,
    /// The pod, container or job of its process.
    pub pod: Pod,
    /// Its figures; `None` before the first ones.
    pub frame: Option<Arc<Frame>>,
}

/// All followed captures.
pub struct Captures {
    limits: Limits,
    followed: BTreeMap<PathBuf, Followed>,
    /// Captures that are not to be followed again, by nonce.
    past: BTreeMap<PathBuf, u64>,
    counts: Counts,
}

impl Captures {
    /// Without captures.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            followed: BTreeMap::new(),
            past: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Follows new captures among those that a search has found, and drops those whose time is over.
    pub fn update(&mut self, found: &Listing) {
        self.settle();
        if self.limits.keep.is_some() {
            let is_there = |path: &PathBuf| found.captures.binary_search(path).is_ok();
            self.followed.retain(|path, _| is_there(path));
            self.past.retain(|path, _| is_there(path));
        }
        self.counts = Counts {
            unreadable: found.unreadable.len() as u64,
            ..Counts::default()
        };
        for path in &found.captures {
            match self.take_up(path) {
                Ok(()) => {}
                // It was removed between the search and now.
                Err(OpenError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => self.counts.unreadable += 1,
            }
        }
        for of in self.followed.values() {
            match of.source {
                Source::Watched(_) => self.counts.running += 1,
                Source::Ended(..) => self.counts.ended += 1,
            }
        }
    }

    /// Keeps only the last frame of ended captures, for a limited time.
    fn settle(&mut self) {
        for of in self.followed.values_mut() {
            if let Source::Watched(watch) = &of.source
                && let Some(frame) = watch.frame().filter(|frame| frame.state.is_final())
            {
                of.source = Source::Ended(frame, Instant::now());
            }
        }
        let Some(keep) = self.limits.keep else { return };
        let past = &mut self.past;
        self.followed.retain(|path, of| {
            let is_past = matches!(of.source, Source::Ended(_, since) if since.elapsed() >= keep);
            if is_past {
                past.insert(path.clone(), of.nonce);
            }
            !is_past
        });
    }

    fn take_up(&mut self, path: &Path) -> Result<(), OpenError> {
        let header = gpumem_analyzer::ask::header(path)?;
        if self.past.get(path) == Some(&header.nonce) {
            self.counts.past += 1;
            return Ok(());
        }
        match self.followed.get(path) {
            Some(of) if of.nonce == header.nonce => return Ok(()),
            // Another program writes there now.
            Some(_) => drop(self.followed.remove(path)),
            None => {}
        }
        let is_running = header.is_running();
        let keep = self.limits.keep;
        if !is_running && keep.is_some_and(|keep| is_older(path, keep)) {
            self.past.insert(path.to_owned(), header.nonce);
            self.counts.past += 1;
            return Ok(());
        }
        if self.followed.len() >= self.limits.captures {
            self.counts.beyond += 1;
            return Ok(());
        }
        let every = self.limits.every;
        let watch = match self.limits.has_table {
            true => Watch::start(path, Ask::default(), every),
            false => Watch::without_table(path, every),
        };
        let of = Followed {
            nonce: header.nonce,
            pod: Pod::of(is_running.then_some(header.pid)),
            source: Source::Watched(watch?),
        };
        self.followed.insert(path.to_owned(), of);
        Ok(())
    }

    /// The figures of each capture, by path.
    pub fn now(&self) -> Vec<Now> {
        let now = self.followed.iter().map(|(path, of)| Now {
            path: path.clone(),
            pod: of.pod.clone(),
            frame: of.frame(),
        });
        now.collect()
    }

    /// The number of captures in each state.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Whether a file was not written for this long.
fn is_older(path: &Path, than: Duration) -> bool {
    let modified = path.metadata().and_then(|of| of.modified());
    let age = modified.ok().map(|at| SystemTime::now().duration_since(at));
    age.and_then(Result::ok).is_some_and(|age| age > than)
}
