//! Captures that were read, cached for later requests.

use std::collections::VecDeque;
use std::sync::Arc;

use gpumem_analyzer::ask::{CaptureFile, Later, Of, Passes, Pivot, SecondPass, Stacks, Wrong};
use gpumem_analyzer::replay::{At, OutOfMemory, Query};
use gpumem_analyzer::session::{self, Session};
use gpumem_analyzer::unanswered::Unanswered;
use gpumem_analyzer::watch::Observer;

use crate::account::is_settled;
use crate::capture::Capture;
use crate::refusal::{Refusal, refused};

/// The most captures that are cached.
const KEPT: usize = 4;
/// The most bytes of the cached captures' files; the newest capture stays even if it is larger.
const BYTES: u64 = 512 << 20;

/// The captures that were read last.
#[derive(Debug, Default)]
pub struct Sessions(VecDeque<(Capture, Arc<Session>)>);

impl Sessions {
    /// A capture, read for a query. The capture of a running process is read again each time.
    ///
    /// # Errors
    /// It cannot be read, or does not answer the query.
    pub fn read(&mut self, capture: &Capture, query: Query) -> Result<Arc<Session>, Refusal> {
        let query = self.resolved(capture, query)?;
        let is_it =
            |(of, session): &(Capture, Arc<Session>)| of == capture && session.query == query;
        if let Some(at) = self.0.iter().position(is_it)
            && let Some(found) = self.0.remove(at)
        {
            let session = Arc::clone(&found.1);
            self.0.push_back(found);
            return answering(capture, session, query);
        }
        let session = Arc::new(watched(capture, query, &mut |_, _, _| {})?);
        if is_settled(&session) {
            self.0.push_back((capture.clone(), Arc::clone(&session)));
            while self.0.len() > KEPT || (self.0.len() > 1 && self.bytes() > BYTES) {
                self.0.pop_front();
            }
        }
        answering(capture, session, query)
    }

    /// Stacks, and the session that they are of.
    ///
    /// # Errors
    /// The capture cannot be read, or does not answer the question.
    pub fn stacks(
        &mut self,
        capture: &Capture,
        question: &Pivot,
    ) -> Result<(Arc<Session>, Stacks), Refusal> {
        question.check()?;
        if !question.is_of_one_pass() {
            let (session, mut stacks) = question.read(&mut Several::open(capture)?)?;
            let is_of_rounds = matches!(question.of, Of::Kept | Of::Growing);
            if is_of_rounds && question.at == At::Peak {
                stacks.when += "; without at, or at peak: the end of the last step or round";
            }
            return Ok((Arc::new(session), stacks));
        }
        let session = self.read(capture, question.query())?;
        let question = Pivot {
            at: session.query.moment,
            ..question.clone()
        };
        let stacks = question.of_session(&session)?;
        Ok((session, stacks))
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(capture, _)| capture.bytes()).sum()
    }

    /// The query; the point in time of the failure is replaced by its event.
    fn resolved(&mut self, capture: &Capture, query: Query) -> Result<Query, Refusal> {
        if query.moment != At::Failure {
            return Ok(query);
        }
        let first = self.read(capture, At::End.into())?;
        let failure = first.replay.main_failure();
        let instead = "use at peak for the point with most memory";
        at_failure(capture, query, failure, instead)
    }
}

/// The query at the event of the failure.
fn at_failure(
    capture: &Capture,
    query: Query,
    failure: Option<(u64, OutOfMemory)>,
    instead: &str,
) -> Result<Query, Refusal> {
    match failure {
        Some((_, failure)) => Ok(Query {
            moment: At::Event(failure.seq),
            ..query
        }),
        None => Err(refused!(
            "{}: no allocation failed because memory ran out: {instead}",
            capture.name
        )),
    }
}

/// An open capture, for several passes. Nothing is written.
pub struct Several<'a> {
    capture: &'a Capture,
    file: CaptureFile,
}

impl<'a> Several<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(capture: &'a Capture) -> Result<Self, Refusal> {
        let file = open(capture)?;
        Ok(Self { capture, file })
    }
}

impl Passes for Several<'_> {
    type Error = Refusal;

    fn pass(&mut self, query: Query, observer: &mut Observer<'_>) -> Result<Session, Refusal> {
        let query = match query.moment {
            At::Failure => {
                let known = match self.file.main_failure() {
                    Some(known) => known,
                    None => self
                        .pass(At::End.into(), &mut |_, _, _| {})?
                        .replay
                        .main_failure(),
                };
                at_failure(self.capture, query, known, "omit at, or use end")?
            }
            _ => query,
        };
        let session = self.file.read_with(query, observer);
        let session = session.map_err(|error| unreadable(self.capture, &error))?;
        match Unanswered::by(&session, query) {
            Some(why) => Err(refused!("{}: {why}", self.capture.name)),
            None => Ok(session),
        }
    }
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        // Arguments have the names of options.
        match wrong {
            Wrong::Options(text) => Self::new(text.replace("--", "")),
            of => Self::new(of.to_string().trim_start_matches("--")),
        }
    }
}

/// Reads a capture and passes each record to `observer`. Nothing is written.
///
/// # Errors
/// It cannot be read.
pub fn watched(
    capture: &Capture,
    query: Query,
    observer: &mut Observer<'_>,
) -> Result<Session, Refusal> {
    let mut file = open(capture)?;
    let session = file.read_with(query, observer);
    session.map_err(|error| unreadable(capture, &error))
}

/// Opens a capture. Nothing is written.
///
/// # Errors
/// It cannot be opened.
pub fn open(capture: &Capture) -> Result<CaptureFile, Refusal> {
    CaptureFile::open_unmerged(&capture.path).map_err(|error| unreadable(capture, &error))
}

/// Makes a second pass over a capture that was read before, if it is needed.
///
/// # Errors
/// The capture cannot be read again.
pub fn later(capture: &Capture, first: &Session, second: SecondPass<'_>) -> Result<Later, Refusal> {
    if !second.is_needed() {
        return Ok(second.finish(None, None));
    }
    CaptureFile::open_again(&capture.path, first)
        .and_then(|mut file| second.read(&mut file, None))
        .map_err(|error| unreadable(capture, &error))
}

/// The refusal for a capture that cannot be read.
pub fn unreadable(capture: &Capture, error: &session::Error) -> Refusal {
    let path = capture.path.display().to_string();
    let said = error.to_string().replace(&path, &capture.name);
    refused!("{said}: call captures for those that can be read")
}

/// The session, if it can answer the query.
fn answering(
    capture: &Capture,
    session: Arc<Session>,
    query: Query,
) -> Result<Arc<Session>, Refusal> {
    match Unanswered::by(&session, query) {
        Some(why) => Err(refused!("{}: {why}", capture.name)),
        None => Ok(session),
    }
}
