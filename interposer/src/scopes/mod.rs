//! Scopes: the program marks the start and the end of a part of its work, and gets the memory added in it and its peak,
//! exact in the order of events.
//!
//! The start and the end of a scope are events, and its figures are those of exactly that position in the order
//! ([`gpumem_capture::CounterSnapshot`]): a replay of the capture computes the same. A scope that begins before there
//! is a capture waits for it with zeros, which is the value of all counters until then, and is recorded first once
//! there is one. Scopes belong to a process: a forked child has no scopes.

mod table;

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use gpumem_capture::{
    ApiId, Attempt, DeviceOrdinal, Event, EventKind, Level, Refused, RowSnapshot, ThreadId, Writer,
};

use crate::account::{self, Once};
use crate::session::{self, Session};
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use crate::{message, names};
use gpumem_capture::writer::lock::{Guard, Lock};
pub use table::GpumemScopeFigures;
use table::{Name, Table, Waiting};

/// The scopes of one process.
struct Scopes {
    process: u32,
    /// Numbers are never reused, not even in a child, where they are invalid.
    next: AtomicU64,
    inside: Lock<Inside>,
}

#[derive(Default)]
struct Inside {
    table: Table,
    /// The capture, once there is one.
    session: Option<&'static Session>,
}

/// The scopes of this process, or of the parent that it was forked from. Scopes may begin before there is a session.
static SCOPES: AtomicPtr<Scopes> = AtomicPtr::new(null_mut());

/// This process's scopes. A parent's scopes, whose lock may have been held at the fork, are not used.
fn scopes() -> &'static Scopes {
    let process = std::process::id();
    let mut found = SCOPES.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or leaked by this function, here or in a parent.
        let known = unsafe { found.as_ref() };
        if let Some(scopes) = known.filter(|scopes| scopes.process == process) {
            return scopes;
        }
        let new = Box::into_raw(Box::new(Scopes {
            process,
            next: AtomicU64::new(known.map_or(1, |scopes| scopes.next.load(Ordering::Relaxed))),
            inside: Lock::default(),
        }));
        found = match SCOPES.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and given to nobody.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
}

fn inside() -> Guard<'static, Inside> {
    scopes().inside.lock()
}

/// The event of a scope's start or end.
fn event(writer: &Writer, thread: ThreadId, kind: EventKind, number: u64, name: u32) -> Event {
    Event {
        time: writer.now(),
        thread,
        kind,
        ptr: u64::from(name),
        aux: number,
        ..Event::default()
    }
}

impl Inside {
    fn begin(
        &mut self,
        attempt: Attempt,
        writer: &Writer,
        thread: ThreadId,
        number: u64,
        name: u32,
    ) -> Result<(), Refused> {
        let event = event(writer, thread, EventKind::SCOPE_BEGIN, number, name);
        if let Ok(snapshot) = writer.counter_snapshot_without_waiting(attempt, &event, true)? {
            self.table.begin(number, name, &snapshot.rows);
        }
        Ok(())
    }

    /// Returns whether there is such a scope.
    fn end(&mut self, attempt: Attempt, thread: ThreadId, number: u64) -> Result<bool, Refused> {
        let name = match self.table.name(number) {
            None => return Ok(false),
            Some(Name::Known(name)) => *name,
            Some(Name::Text(_)) => 0,
        };
        match self.session {
            Some(session) if self.table.is_open(number) => {
                let writer = session.writer;
                let event = event(writer, thread, EventKind::SCOPE_END, number, name);
                if let Ok(snapshot) =
                    writer.counter_snapshot_without_waiting(attempt, &event, false)?
                {
                    self.table.end(number, &snapshot.rows);
                }
            }
            _ => self.table.end_waiting(number),
        }
        Ok(true)
    }
}

/// Makes a change under the lock and records it there without waiting: snapshots are in the same order as in the table.
fn in_order<R>(mut change: impl FnMut(&mut Inside, Attempt) -> Result<R, Refused>) -> R {
    let mut attempt = Attempt::FIRST;
    loop {
        let mut inside = inside();
        let session = inside.session;
        match (change(&mut inside, attempt), session) {
            (Ok(result), _) => return result,
            (Err(refused), Some(session)) => {
                drop(inside);
                attempt = session.writer.wait_for_room(refused);
            }
            // A capture exists by now.
            (Err(_), None) => {}
        }
    }
}

/// The number of a text in the capture; 0 if it has none.
fn number_of(session: &'static Session, text: &[u8]) -> u32 {
    match text {
        b"" => 0,
        _ => session.names.id_of(session.writer, text).unwrap_or(0),
    }
}

impl Name {
    fn number(&self, session: &'static Session) -> u32 {
        match self {
            Self::Known(number) => *number,
            Self::Text(text) => number_of(session, text),
        }
    }
}

/// Begins a scope; returns its number, or 0 if there are too many.
pub(crate) fn begin(thread: &Thread, name: &[u8]) -> u64 {
    let scopes = scopes();
    let mut inside = scopes.inside.lock();
    if inside.table.is_full() {
        drop(inside);
        too_many();
        return 0;
    }
    let number = scopes.next.fetch_add(1, Ordering::Relaxed);
    let Some(session) = inside.session else {
        inside.table.wait(Waiting {
            number,
            name: Name::Text(names::cut(name).into()),
            thread: thread.id().0,
        });
        return number;
    };
    drop(inside);
    let name = number_of(session, name);
    let writer = session.writer;
    in_order(|inside, attempt| inside.begin(attempt, writer, thread.id(), number, name));
    number
}

/// Reported once: the program continues without the scope.
fn too_many() {
    if account::is_first(Once::TooManyScopes) {
        message::line(&format!(
            "{} scopes exist, which is the maximum: new ones are ignored until you free some with gpumem_scope_forget.",
            table::MOST
        ));
    }
}

/// Restarts a scope, whether it is running or has ended. False if there is no such scope.
pub(crate) fn reset(thread: &Thread, number: u64) -> bool {
    let mut inside = inside();
    let Some(name) = inside.table.name(number).cloned() else {
        return false;
    };
    let Some(session) = inside.session else {
        inside.table.wait(Waiting {
            number,
            name,
            thread: thread.id().0,
        });
        return true;
    };
    drop(inside);
    let name = name.number(session);
    let writer = session.writer;
    in_order(|inside, attempt| {
        // Another thread may have freed it meanwhile.
        let is_there = inside.table.name(number).is_some();
        if is_there {
            inside.begin(attempt, writer, thread.id(), number, name)?;
        }
        Ok(is_there)
    })
}

/// Ends a scope; no effect if it has ended. False if there is no such scope.
pub(crate) fn end(thread: &Thread, number: u64) -> bool {
    in_order(|inside, attempt| inside.end(attempt, thread.id(), number))
}

/// Ends a scope and frees its slot. False if there is no such scope.
pub(crate) fn forget(thread: &Thread, number: u64) -> bool {
    in_order(|inside, attempt| {
        Ok(inside.end(attempt, thread.id(), number)? && inside.table.forget(number))
    })
}

/// The figures of a scope for a device and level. None if there is no such scope.
pub(crate) fn read(number: u64, device: DeviceOrdinal, level: Level) -> Option<GpumemScopeFigures> {
    let inside = inside();
    let Some(row) = RowSnapshot::number(device, level) else {
        return inside
            .table
            .name(number)
            .map(|_| GpumemScopeFigures::default());
    };
    let now = (inside.session).and_then(|session| session.writer.row_now(row));
    inside.table.figures(number, row, now)
}

/// Called when a capture was opened, before its first event: scopes that waited for it begin there.
pub(crate) fn opened(session: &'static Session) {
    let waiting = {
        let mut inside = inside();
        // From here on other threads record their scopes themselves. Nothing is counted yet: in any order, all begin
        // with zeros.
        inside.session = Some(session);
        inside.table.waiting()
    };
    for Waiting {
        number,
        name,
        thread,
    } in waiting
    {
        let name = name.number(session);
        in_order(|inside, attempt| match inside.table.is_waiting(number) {
            true => inside.begin(attempt, session.writer, ThreadId(thread), number, name),
            // It has ended, or was restarted.
            false => Ok(()),
        });
    }
}

/// Records a mark of the program. False if nothing is recorded.
pub(crate) fn mark(thread: &Thread, name: &[u8]) -> bool {
    let Some(session) = session::session() else {
        return false;
    };
    let what = Sideband {
        aux: u64::from(number_of(session, name)),
        ..Sideband::default()
    };
    sideband::record(thread, ApiId(0), EventKind::MARK, Level::TENSOR, what);
    true
}
