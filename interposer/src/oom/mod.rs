//! The report that is printed when an allocation fails with out of memory: the cause, the owners of the
//! memory, and what could be freed.
//!
//! | part | purpose |
//! |---|---|
//! | [`figures`] | the figures of the card, the ledgers and the live blocks at that time |
//! | [`pieces`] | the free memory in a framework's segments, and the sizes of its free blocks |
//! | [`cause`] | why the allocation failed, from those figures |
//! | [`lines`] | the lines of the stacks, from the capture's own names |
//! | [`text`] | the lines on stderr |
//!
//! Runs on a separate thread, because the failing thread may have a small stack; that thread waits for
//! it, but only briefly, and the end of the process waits for the rest. PyTorch tries again after the driver has refused, and only then reports a
//! failure. So the driver's refusals of PyTorch's requests are not reported, PyTorch's failures are.

mod cause;
mod figures;
mod lines;
mod pieces;
mod recorded;
mod text;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use gpumem_capture::{ApiId, DefKind, Level, ProcessKey, Seq, StackId};

use crate::session::{Failures, Session};
use crate::thread::{self, Started, Thread};
use crate::{account, holders, hook, message};

use self::figures::Figures;
use self::recorded::Recorded;
use crate::failed::Failed;

/// The number of failures with a full report: programs may catch many failures and continue.
const TOLD: usize = 3;
/// How long the failing thread waits for the report: it may hold a lock of PyTorch's allocator, for which other threads
/// wait.
const PATIENCE: Duration = Duration::from_millis(100);
const _: () = assert!(
    PATIENCE.as_millis() <= 100,
    "a promise of docs/commands/oom.md"
);
/// How long the process's end waits for a report.
const AT_THE_END: Duration = Duration::from_secs(2);
/// How long to wait until the file has the names of the newest records.
const FOR_NAMES: Duration = Duration::from_millis(200);
/// The number of devices whose last refusal is stored.
const DEVICES: usize = 64;

/// The state of a session's failure reports.
pub(crate) struct Reports {
    /// The last refusal of the driver on each device.
    refused: [Refused; DEVICES],
    /// The number of failures that were reported, or would have been.
    count: AtomicU32,
    /// The threads that make them.
    running: [OnceLock<Started>; TOLD],
}

/// A refusal of the driver, by thread.
struct Refused {
    /// 0 once the framework has reported the failure.
    thread: AtomicU32,
    bytes: AtomicU64,
}

/// The functions by which PyTorch reports failures; a release has at most one of them.
const FRAMEWORK_TELLS: [&[u8]; 2] = [
    b"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    b"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
];

/// Whether the call comes from PyTorch's own allocator, which will report a failure itself if its next
/// attempt fails, too.
fn is_pytorchs_to_tell(failed: &Failed) -> bool {
    failed.level == Level::DRIVER
        && FRAMEWORK_TELLS
            .iter()
            .any(|name| hook::by_name(name).is_some_and(|hook| hook.real() != 0))
        && !is_stream_ordered(failed.api)
        && is_the_allocators(failed.caller)
}

/// Whether PyTorch's other allocator calls this function: that allocator does not report failures.
fn is_stream_ordered(api: ApiId) -> bool {
    let hook = hook::by_id(api.0);
    hook.is_some_and(|hook| hook.name.to_string_lossy().contains("Async"))
}

/// Whether an address is in the library of PyTorch's allocator.
fn is_the_allocators(address: u64) -> bool {
    // The call instruction is before the return address.
    let module = gpumem_unwind::modules::describe(address.wrapping_sub(1));
    let name = module.as_ref().and_then(|module| module.path.file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("libc10_cuda"))
}

impl Reports {
    /// No failures so far.
    pub(crate) const fn new() -> Self {
        Self {
            refused: [const {
                Refused {
                    thread: AtomicU32::new(0),
                    bytes: AtomicU64::new(0),
                }
            }; DEVICES],
            count: AtomicU32::new(0),
            running: [const { OnceLock::new() }; TOLD],
        }
    }

    /// The number of this failure among the reported ones, from 1.
    fn count(&self) -> u32 {
        let before = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        before.map_or(u32::MAX, |n| n + 1)
    }
}

impl Failures for Reports {
    /// Reports why an allocation failed and who holds the memory, unless PyTorch will report the
    /// failure.
    fn tell(
        &self,
        session: &'static Session,
        thread: &Thread,
        failed: Failed,
        seq: Seq,
        stacks: (StackId, StackId),
    ) {
        if failed.level == Level::TENSOR {
            holders::expect(session, thread, seq);
        }
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
        // A refusal counts as a recorded allocation once its call has returned.
        let told = thread.told.take();
        let now = thread.allocated.get();
        if failed.is_told && told.is_some_and(|then| now.wrapping_sub(then) <= 1) {
            return; // of what was refused before
        }
        if !failed.is_told && failed.level != Level::TENSOR {
            thread.told.set(Some(now));
        }
        let number = self.count();
        let Some(running) = self.running.get(number as usize - 1) else {
            if number as usize == TOLD + 1 {
                message::line(
                    "out of memory again: this failure and later ones are in the capture, and not printed here",
                );
            }
            return;
        };
        let recorded = Recorded {
            failed,
            seq,
            stacks,
            refused,
            free: crate::driver::free_bytes()
                .filter(|_| crate::driver::current_device() == failed.device),
        };
        if let Ok(started) = thread::start(c"gpumem-oom", move || say(session, &recorded)) {
            running.get_or_init(|| started).join_within(PATIENCE);
        }
    }

    fn finish(&self) {
        for started in self.running.iter().filter_map(OnceLock::get) {
            started.join_within(AT_THE_END);
        }
    }
}

/// Creates the post-mortem, prints it and stores it in the capture.
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
