//! The captures that the exporter follows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpumem_capture::{OpenError, Reader};
use gpumem_live::{Ask, Frame, State, Watch};

use crate::place::Place;

/// Limits of following captures.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most captures that are followed.
    pub captures: usize,
    /// How long an ended capture stays.
    pub keep: Duration,
    /// The interval of frames.
    pub every: Duration,
}

/// The number of found captures in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Their program runs.
    pub running: u64,
    /// Their program ended, and they are still exported for a while.
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
    place: Place,
    source: Source,
}

enum Source {
    Watched(Watch),
    /// Its last frame, and the time at which it was first seen. Its replay is dropped.
    Ended(Arc<Frame>, Instant),
}

/// A capture at a point in time.
#[derive(Clone, Debug)]
pub struct Now {
    /// Its path.
    pub path: PathBuf,
    /// The pod, container or job of its process.
    pub place: Place,
    /// Its figures.
    pub frame: Arc<Frame>,
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

    /// Follows new captures among those found, and drops those that were removed or ended long ago.
    pub fn update(&mut self, found: &[PathBuf], unreadable: usize) {
        self.followed.retain(|path, _| found.contains(path));
        self.past.retain(|path, _| found.contains(path));
        self.settle();
        self.counts = Counts {
            unreadable: unreadable as u64,
            ..Counts::default()
        };
        for path in found {
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
                && let Some(frame) = watch.frame().filter(|frame| is_final(&frame.state))
            {
                of.source = Source::Ended(frame, Instant::now());
            }
        }
        let keep = self.limits.keep;
        let is_past = |of: &Followed| match &of.source {
            Source::Watched(_) => false,
            Source::Ended(_, since) => since.elapsed() >= keep,
        };
        let past = self.followed.iter().filter(|(_, of)| is_past(of));
        let past: Vec<_> = past.map(|(path, of)| (path.clone(), of.nonce)).collect();
        for (path, nonce) in past {
            self.followed.remove(&path);
            self.past.insert(path, nonce);
        }
    }

    fn take_up(&mut self, path: &Path) -> Result<(), OpenError> {
        let reader = Reader::open(path)?;
        let header = reader.header();
        if self.past.get(path) == Some(&header.nonce) {
            self.counts.past += 1;
            return Ok(());
        }
        if let Some(of) = self.followed.get(path) {
            if of.nonce == header.nonce {
                return Ok(());
            }
            // Another program writes there now.
            self.followed.remove(path);
        }
        let is_running = header.is_running();
        if !is_running && is_older(path, self.limits.keep) {
            self.past.insert(path.to_owned(), header.nonce);
            self.counts.past += 1;
            return Ok(());
        }
        if self.followed.len() >= self.limits.captures {
            self.counts.beyond += 1;
            return Ok(());
        }
        let pid = is_running.then_some(header.pid);
        let nonce = header.nonce;
        let watch = Watch::start(path, Ask::default(), self.limits.every)?;
        let place = Place::of(pid, None);
        let source = Source::Watched(watch);
        let of = Followed {
            nonce,
            place,
            source,
        };
        self.followed.insert(path.to_owned(), of);
        Ok(())
    }

    /// The figures of each capture that has a frame.
    pub fn now(&self) -> Vec<Now> {
        let now = self.followed.iter().filter_map(|(path, of)| {
            let frame = match &of.source {
                Source::Watched(watch) => watch.frame()?,
                Source::Ended(frame, _) => frame.clone(),
            };
            let mut place = of.place.clone();
            if let Some(job) = frame.process.job.as_deref() {
                let by_job = Place::of(None, Some(job)).slurm_job_id;
                if !by_job.is_empty() {
                    place.slurm_job_id = by_job;
                }
            }
            Some(Now {
                path: path.clone(),
                place,
                frame,
            })
        });
        now.collect()
    }

    /// The number of captures in each state.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn is_final(state: &State) -> bool {
    !matches!(state, State::CatchingUp(..) | State::Running)
}

/// Whether a file was not written for this long.
fn is_older(path: &Path, than: Duration) -> bool {
    let modified = path.metadata().and_then(|of| of.modified());
    let age = modified.ok().map(|at| SystemTime::now().duration_since(at));
    age.and_then(Result::ok).is_some_and(|age| age > than)
}
