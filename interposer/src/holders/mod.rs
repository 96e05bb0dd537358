//! Who keeps the largest blocks: names of Python objects. When PyTorch's allocator fails they are printed and recorded; the
//! program can request them at any time.
//!
//! PyTorch lets observers of its allocator take the interpreter's lock: it calls them from the failing thread, after it has
//! released its lock of the device and before it raises. An observer is attached at the first failure, from within the
//! report that precedes the observers' calls, so a program that never fails has none. A thread that calls
//! `gpumem_holders` says by it that it may take the lock.
//!
//! | part | purpose |
//! |---|---|
//! | [`graph`] | reads what the nodes of a graph keep |
//! | [`at_peak`], [`peaks`] | a search at a new peak, if the program wants one |
//! | [`tensors`] | reads PyTorch's tensors: storage, gradient, whether a graph hangs on it |
//! | [`text`] | the lines on stderr, and those in the capture |
//! | [`walks`] | how many searches a session has made |
//! | `gpumem_holders` | the walk |

pub(crate) mod at_peak;
mod graph;
pub(crate) mod peaks;
mod tensors;
mod text;
pub(crate) mod walks;

use core::ffi::c_void;
use core::sync::atomic::Ordering;
use std::time::Duration;

use gpumem_capture::{DeviceOrdinal, ProcessKey, Seq};
use gpumem_holders::{Holders, Limits, Lock};
use gpumem_python_frames::{Finding, finding};
use gpumem_torch_abi::Function;

use crate::allocator::found;
use crate::session::{self, Session, Walked};
use crate::thread::{self, Thread};
use crate::{account, process};

/// The maximum processor time of a walk.
const TIME: Duration = Duration::from_secs(1);
/// The maximum number of failures with a walk, and the time after which there are no more of them. The newest failure is
/// the one that ends a program.
const WALKS: u32 = 1000;
const ALL: Duration = Duration::from_secs(5);

/// A failure is being reported by PyTorch's allocator, which calls its observers next. Returns whether ours is one.
pub(crate) fn expect(session: &Session, thread: &Thread, seq: Seq) -> bool {
    let (Some(walks), Some((object, method))) = (&session.walks, found::attach_observer()) else {
        return false;
    };
    thread.failure.set(seq.0);
    if walks.is_attached.swap(true, Ordering::AcqRel) {
        return true;
    }
    type Attach = extern "C-unwind" fn(usize, &mut Function);
    // SAFETY: the address is that of `attachOutOfMemoryObserver(std::function<…>)` of the object's class; a function is
    // passed by its address.
    let attach: Attach = unsafe { core::mem::transmute(method) };
    let mut ours = Function::new([0; 2], observed as *const c_void);
    attach(object, &mut ours);
    true
}

/// Called by PyTorch's allocator when an allocation has failed, without its lock of the device.
extern "C-unwind" fn observed(_: *const c_void, device: &i64, _: &u64, _: &u64, _: &u64) {
    if process::is_aside() {
        return;
    }
    let Ok(device) = u8::try_from(*device) else {
        return;
    };
    let Some(session) = session::session() else {
        return;
    };
    let seq = thread::with(|thread| thread.failure.replace(0));
    if seq == 0 {
        return;
    }
    // Outside of what catches panics: see `lock`.
    let lock = may_walk(session).then(gpumem_holders::lock).flatten();
    let walked = lock.as_ref().and_then(|lock| {
        thread::guarded_with_room(|_| walk(session, lock, seq, DeviceOrdinal(device))).flatten()
    });
    drop(lock);
    thread::in_hook(|thread| session.failures.observed(thread, walked));
}

/// Whether another failure has a walk.
fn may_walk(session: &Session) -> bool {
    session.walks.as_ref().is_some_and(|walks| {
        let spent = Duration::from_micros(walks.micros.load(Ordering::Relaxed));
        walks.count.fetch_add(1, Ordering::Relaxed) < WALKS && spent < ALL
    })
}

/// Searches for the holders, and records them.
fn walk(session: &'static Session, lock: &Lock, seq: u64, device: DeviceOrdinal) -> Option<Walked> {
    let (holders, live) = find(session, lock, device)?;
    let micros = u64::try_from(holders.time.as_micros()).unwrap_or(u64::MAX);
    if let Some(walks) = &session.walks {
        walks.micros.fetch_add(micros, Ordering::Relaxed);
    }
    let key = format!("{}{seq}", ProcessKey::HOLDERS);
    let value = text::recorded(&holders, live);
    if session.writer.fact(key.clone(), value.clone()).is_err() {
        account::note(
            session.writer,
            "the holders of blocks did not fit into the capture",
        );
    }
    Some(Walked {
        table: text::shown(&holders, live),
        fact: (key, value),
    })
}

/// Who keeps the blocks of a device, and the live bytes of its tensors.
fn find(session: &'static Session, lock: &Lock, device: DeviceOrdinal) -> Option<(Holders, u64)> {
    let live = session.tensors.live_bytes(device);
    let mut tensors = tensors::Reader::new(session, device);
    let holders = gpumem_holders::walk(lock, &mut tensors, &Limits::new(TIME))?;
    Some((holders, live))
}

/// Why no list of holders can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The thread must not take the interpreter's lock.
    Lock,
    /// There is no interpreter, or one that cannot be read.
    Interpreter,
}

/// Who keeps the blocks of a device now, in the form of the capture's key. Takes the interpreter's lock, unless the thread
/// has it.
pub(crate) fn current(session: &'static Session, device: DeviceOrdinal) -> Result<String, Refusal> {
    if !matches!(finding(), Some(Finding::Readable(_))) {
        return Err(Refusal::Interpreter);
    }
    let lock = gpumem_holders::lock().ok_or(Refusal::Lock)?;
    let walked = thread::guarded_with_room(|_| find(session, &lock, device)).flatten();
    let (holders, live) = walked.ok_or(Refusal::Lock)?;
    Ok(text::recorded(&holders, live))
}
