//! The readers, and the newest data sent to each.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::frames::{Ask, Frame, Table};
use bytes::Bytes;
use gpumem_http::{Closed, Sender, Stream, stream};
use serde::Serialize;

use super::course::courses;
use super::now::Now;
use super::table::Shown;
use super::view::View;

/// The most readers.
const READERS: usize = 16;
/// Events buffered per reader. A slower reader gets the newest figures later, and none twice.
const WAITING: usize = 4;
/// The shortest interval of sending the memory over time.
const COURSE_EVERY: Duration = Duration::from_millis(500);
/// A reader that gets no other event gets a keep-alive at this interval.
const SIGN_EVERY: Duration = Duration::from_secs(5);

/// All readers.
#[derive(Default)]
pub(super) struct Hub {
    readers: Mutex<Readers>,
    changed: Condvar,
}

#[derive(Default)]
struct Readers {
    all: Vec<Reader>,
    /// Whether a reader joined since the last round.
    is_new: bool,
    is_over: bool,
}

impl Hub {
    /// Adds a reader; `None` if there are too many.
    pub(super) fn join(&self, view: View) -> Option<Stream> {
        let mut readers = self.readers();
        readers.all.retain(|reader| !reader.sender.is_closed());
        if readers.all.len() >= READERS {
            return None;
        }
        let (sender, stream) = stream(WAITING);
        readers.all.push(Reader::new(view, sender));
        readers.is_new = true;
        self.changed.notify_all();
        Some(stream)
    }

    /// Whether there are readers.
    pub(super) fn has_readers(&self) -> bool {
        let mut readers = self.readers();
        readers.all.retain(|reader| !reader.sender.is_closed());
        !readers.all.is_empty()
    }

    /// The distinct requests of the readers.
    pub(super) fn asks(&self) -> Vec<Ask> {
        let mut readers = self.readers();
        readers.is_new = false;
        readers.all.retain(|reader| !reader.sender.is_closed());
        let mut asks: Vec<Ask> = Vec::new();
        for reader in &readers.all {
            if !asks.contains(&reader.view.ask) {
                asks.push(reader.view.ask);
            }
        }
        asks
    }

    /// Sends the changes in a frame to the readers that requested it.
    pub(super) fn send(&self, frame: &Frame, started_wall_ns: u64) {
        let mut readers = self.readers();
        readers.all.retain_mut(|reader| {
            reader.view.ask != frame.ask || reader.send(frame, started_wall_ns).is_ok()
        });
    }

    /// Waits for `limit`, or until a reader joins; returns whether to continue.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let waits = |readers: &mut Readers| !readers.is_new && !readers.is_over;
        let waited = self
            .changed
            .wait_timeout_while(self.readers(), limit, waits);
        let (readers, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !readers.is_over
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        self.readers().is_over = true;
        self.changed.notify_all();
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Reader {
    view: View,
    sender: Sender,
    /// The newest data sent of each kind.
    now: String,
    course: (String, Option<Instant>),
    table: (String, Option<Arc<Table>>),
    sent: Instant,
}

impl Reader {
    fn new(view: View, sender: Sender) -> Self {
        Self {
            view,
            sender,
            now: String::new(),
            course: (String::new(), None),
            table: (String::new(), None),
            sent: Instant::now(),
        }
    }

    fn send(&mut self, frame: &Frame, started_wall_ns: u64) -> Result<(), Closed> {
        let now = json(&Now::of(frame));
        if now != self.now && self.put("now", &now)? {
            self.now = now;
        }
        let is_sent = |table: &Arc<Table>| Arc::ptr_eq(table, &frame.table);
        if !self.table.1.as_ref().is_some_and(is_sent) {
            let table = json(&Shown::of(&frame.table, &self.view));
            if table == self.table.0 || self.put("table", &table)? {
                self.table = (table, Some(frame.table.clone()));
            }
        }
        if self.course.1.is_none_or(|at| at.elapsed() >= COURSE_EVERY) {
            let course = json(&courses(frame, started_wall_ns));
            if course == self.course.0 || self.put("course", &course)? {
                self.course = (course, Some(Instant::now()));
            }
        }
        if self.sent.elapsed() >= SIGN_EVERY && self.sender.try_send(":\n\n".into())? {
            self.sent = Instant::now();
        }
        Ok(())
    }

    /// Buffers an event; returns whether there was space.
    fn put(&mut self, kind: &str, json: &str) -> Result<bool, Closed> {
        let event = format!("event: {kind}\ndata: {json}\n\n");
        let has_room = self.sender.try_send(Bytes::from(event))?;
        if has_room {
            self.sent = Instant::now();
        }
        Ok(has_room)
    }
}

/// These types have no maps with keys other than text, so serialization cannot fail; an empty object would show
/// nothing.
fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).unwrap_or_else(|_| "{}".into())
}
