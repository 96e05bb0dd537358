//! What is said at once when an allocation fails for want of memory: the cause, who holds what, and what
//! could be given back.
//!
//! | part | what it does |
//! |---|---|
//! | [`figures`] | what the card, the ledgers and the live blocks say at that moment |
//! | [`pieces`] | what a framework's cache has free, and in how large pieces |
//! | [`cause`] | why the allocation failed, from those figures |
//! | [`lines`] | whose lines the stacks are, from the capture's own names |
//! | [`text`] | the lines on stderr |
//!
//! The work is done on a thread of its own, since the one that failed may have a small stack; that one
//! waits for it, but never long. PyTorch tries again after the driver has refused, and only then says
//! that it failed: what the driver refuses PyTorch is not told, what PyTorch says is.

mod cause;
mod figures;
mod lines;
mod pieces;
mod recorded;
mod text;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gpumem_capture::{ApiId, DefKind, Level, ProcessKey, Seq, StackId};

use crate::session::{Failures, Session};
use crate::thread::{self, Thread};
use crate::{account, hook, message};

use self::figures::Figures;
use self::recorded::Recorded;
use crate::failed::Failed;

/// How many failures are told in full; a program may well live on failures that it catches.
const TOLD: u32 = 3;
/// How long the failing thread waits until all is said.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the file is waited for to have the names of what was recorded just now.
const FOR_NAMES: Duration = Duration::from_millis(200);
/// Devices of which it is kept whether the driver refused.
const DEVICES: usize = 64;

/// What was reported of a session's failures.
pub(crate) struct Reports {
    /// What the driver last refused of each device.
    refused: [Refused; DEVICES],
    /// How many were told, or would have been.
    count: AtomicU32,
}

/// What the driver refused to a thread.
struct Refused {
    /// 0 once the framework has told.
    thread: AtomicU32,
    bytes: AtomicU64,
}

/// By these functions PyTorch tells of failures, if it has one of them.
const FRAMEWORK_TELLS: [&[u8]; 2] = [
    b"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    b"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
];

/// Whether the call comes from PyTorch's own allocator, which will tell itself if trying again does not
/// help.
fn is_pytorchs_to_tell(failed: &Failed) -> bool {
    failed.level == Level::DRIVER
        && FRAMEWORK_TELLS
            .iter()
            .any(|name| hook::by_name(name).is_some_and(|hook| hook.real() != 0))
        && !is_stream_ordered(failed.api)
        && is_the_allocators(failed.caller)
}

/// Whether a function is one of those that PyTorch's other allocator calls, which does not tell.
fn is_stream_ordered(api: ApiId) -> bool {
    let hook = hook::by_id(api.0);
    hook.is_some_and(|hook| hook.name.to_string_lossy().contains("Async"))
}

/// Whether an address lies in the library of PyTorch's allocator.
fn is_the_allocators(address: u64) -> bool {
    // The call is before the address that it returns to.
    let module = gpumem_unwind::modules::describe(address.wrapping_sub(1));
    let name = module.as_ref().and_then(|module| module.path.file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("libc10_cuda"))
}

impl Reports {
    /// None so far.
    pub(crate) const fn new() -> Self {
        Self {
            refused: [const {
                Refused {
                    thread: AtomicU32::new(0),
                    bytes: AtomicU64::new(0),
                }
            }; DEVICES],
            count: AtomicU32::new(0),
        }
    }

    /// The number of this failure among those that are told, from 1.
    fn count(&self) -> u32 {
        let before = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        before.map_or(u32::MAX, |n| n + 1)
    }
}

impl Failures for Reports {
    /// Says why an allocation failed and who holds the memory, unless somebody else will.
    fn tell(
        &self,
        session: &'static Session,
        thread: &Thread,
        failed: Failed,
        seq: Seq,
        stacks: (StackId, StackId),
    ) {
        let refused = self.refused.get(usize::from(failed.device.0));
        let me = thread.id().0;
        if failed.level != Level::TENSOR
            && let Some(refused) = refused
        {
            refused.bytes.store(failed.bytes, Ordering::Relaxed);
            refused.thread.store(me, Ordering::Relaxed);
        }
        if !session.postmortem || is_pytorchs_to_tell(&failed) {
            return;
        }
        let refused = match (failed.level, refused) {
            (Level::TENSOR, Some(refused)) => {
                let is_mine = refused.thread.swap(0, Ordering::Relaxed) == me;
                is_mine.then(|| refused.bytes.load(Ordering::Relaxed))
            }
            _ => Some(failed.bytes),
        };
        // What is refused counts as an allocation that was recorded, once its call has returned.
        let told = thread.told.take();
        let now = thread.allocated.get();
        if failed.is_told && told.is_some_and(|then| now.wrapping_sub(then) <= 1) {
            return; // of what was refused before
        }
        if !failed.is_told && failed.level != Level::TENSOR {
            thread.told.set(Some(now));
        }
        let number = self.count();
        if number > TOLD {
            if number == TOLD + 1 {
                message::line(
                    "out of memory again: this failure and later ones are in the capture, and not printed here",
                );
            }
            return;
        }
        let recorded = Recorded {
            failed,
            seq,
            stacks,
            refused,
            free: crate::driver::free_bytes()
                .filter(|_| crate::driver::current_device() == failed.device),
        };
        if let Ok(started) = thread::start(c"gpumem-oom", move || say(session, &recorded)) {
            started.join_within(PATIENCE);
        }
    }
}

/// Works the post-mortem out, prints it and keeps it in the capture.
fn say(session: &'static Session, recorded: &Recorded) {
    let figures = Figures::of(session, recorded);
    let cause = cause::judge(&figures);
    let path = session.storage.path(session.writer);
    let names = path.and_then(|path| {
        session.writer.await_written(FOR_NAMES);
        lines::read(path, figures.stacks(recorded))
    });
    let text = text::render(session, recorded, &figures, &cause, names.as_ref());
    message::line(text.trim_end());
    let key = format!("{}{}", ProcessKey::POSTMORTEM, recorded.seq.0);
    let parts = [key.as_bytes(), text.as_bytes()];
    let lengths = parts.map(|part| (part.len() as u32).to_le_bytes());
    let kept = session.writer.definition(
        DefKind::PROCESS,
        &[&lengths[0], parts[0], &lengths[1], parts[1]],
    );
    if kept.is_err() {
        account::note(
            session.writer,
            "a printed post-mortem did not fit into the capture",
        );
    }
}
