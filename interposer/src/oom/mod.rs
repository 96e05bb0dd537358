//! The report that is printed when an allocation fails with out of memory: the cause, the owners of the
//! memory, and what could be freed.
//!
//! | part | purpose |
//! |---|---|
//! | [`figures`] | the figures of the card, the ledgers and the live blocks at that time |
//! | [`verdict`] | why the allocation failed, from the capture so far |
//! | [`walk`] | who keeps memory, which the failing thread searches for meanwhile |
//! | [`attempt`] | whether it is one of a convolution's attempts |
//! | [`ending`] | which failure ended the program |
//! | [`lines`] | the lines of the stacks, from the capture's own names |
//! | [`text`] | the lines on stderr |
//!
//! Runs on a separate thread, because the failing thread may have a small stack; that thread waits for
//! it, but only briefly, and the end of the process waits for the rest. PyTorch tries again after the driver has refused,
//! and only then reports a failure. So the driver's refusals of PyTorch's requests are not reported, PyTorch's failures
//! are: once PyTorch has released its lock and calls its observers ([`crate::holders`]), where it has such.
//!
//! Whether a program survives a failure is known only later. So the first failures are reported at once, and the end of the
//! process reports the one after which the program did not go on, unless its report is there. An attempt of a convolution has
//! one line, and what a handler of the program's end fails to allocate has none.

mod attempt;
mod ending;
mod figures;
mod lines;
mod recorded;
mod text;
mod verdict;
mod walk;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use gpumem_capture::{ApiId, Event, EventKind, Level, ProcessKey, Seq, StackId, ThreadId};

use crate::session::{Failures, Session, Walked};
use crate::thread::{self, Started, Thread};
use crate::{account, holders, hook, message};

use self::figures::Figures;
use self::recorded::Recorded;
use self::verdict::{Judgement, Reason};
use self::walk::Walk;
use crate::failed::Failed;

/// The number of failures that are judged: programs may catch many failures and continue.
const JUDGED: usize = 16;
/// The number of full reports. Failures for the same reason share one, such as the attempts of one convolution.
const TOLD: usize = 3;
/// How long the failing thread waits for the report, if it holds no lock of PyTorch's.
const UNLOCKED: Duration = Duration::from_millis(500);
/// How long it waits otherwise: it may hold a lock of PyTorch's allocator, for which other threads wait.
const PATIENCE: Duration = Duration::from_millis(100);
const _: () = assert!(
    PATIENCE.as_millis() <= 100,
    "a promise of docs/commands/oom.md"
);
/// How long the process's end waits for a report.
const AT_THE_END: Duration = Duration::from_secs(2);
/// How long to wait until the file has the names of the newest records.
const FOR_NAMES: Duration = Duration::from_millis(200);

/// The state of a session's failure reports.
pub(crate) struct Reports {
    /// The number of failures that were judged, or would have been.
    count: AtomicU32,
    /// The searches for holders that begin once PyTorch calls its observers.
    waiting: [AtomicPtr<Waiting>; JUDGED],
    /// The threads that judge, and print the reports.
    running: [OnceLock<Started>; JUDGED],
    /// What was judged, in the order of the reports.
    judged: Mutex<Vec<Judged>>,
    /// Whether it was printed that a failure is not.
    is_left_out: AtomicBool,
    /// The newest failure's number.
    newest: AtomicU64,
}

/// A failure whose thread searches for holders.
struct Waiting {
    thread: ThreadId,
    walk: Arc<Walk>,
}

/// A failure that was judged.
struct Judged {
    seq: Seq,
    /// The report.
    text: String,
    /// `None`: it is not known.
    reason: Option<Reason>,
    printed: Printed,
}

/// What was printed of a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Printed {
    Nothing,
    /// The line of an attempt.
    Line,
    Report,
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
            count: AtomicU32::new(0),
            waiting: [const { AtomicPtr::new(core::ptr::null_mut()) }; JUDGED],
            running: [const { OnceLock::new() }; JUDGED],
            judged: Mutex::new(Vec::new()),
            is_left_out: AtomicBool::new(false),
            newest: AtomicU64::new(0),
        }
    }

    /// Prints, once, that failures are left out.
    fn left_out(&self) {
        if !self.is_left_out.swap(true, Ordering::Relaxed) {
            message::line(
                "out of memory again: failures after the third, and those for the same reason, are in the capture and not printed",
            );
        }
    }

    /// Ends the search of the failure that waits there, of this thread; false if no failure does.
    fn end_walk(&self, place: usize, thread: Option<&Thread>, walked: &mut Option<Walked>) -> bool {
        let Some(slot) = self.waiting.get(place) else {
            return false;
        };
        // SAFETY: null, or from `Box::into_raw`; only the thread that it is of takes it, or the end of the process, when
        // that thread has not.
        let waiting = unsafe { slot.load(Ordering::Acquire).as_ref() };
        let is_of = |of: &Waiting| thread.is_none_or(|thread| thread.id() == of.thread);
        if !waiting.is_some_and(is_of) {
            return false;
        }
        let taken = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if taken.is_null() {
            return false;
        }
        // SAFETY: as above, and it was taken out.
        unsafe { Box::from_raw(taken) }.walk.end(walked.take());
        true
    }

    /// Starts a report.
    fn start(
        &'static self,
        session: &'static Session,
        (place, recorded): (usize, Recorded),
        walk: Arc<Walk>,
    ) {
        let report = move || self.say(session, &recorded, &walk);
        if let Some(running) = self.running.get(place)
            && let Ok(started) = thread::start(c"gpumem-oom", report)
        {
            running.get_or_init(|| started);
        }
    }

    /// Waits for a report, at most `limit`; returns whether it is complete.
    fn wait(&self, place: usize, limit: Duration) -> bool {
        let running = self.running.get(place).and_then(OnceLock::get);
        running.is_none_or(|of| of.join_within(limit))
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
        &'static self,
        session: &'static Session,
        thread: &Thread,
        failed: Failed,
        seq: Seq,
        stacks: (StackId, StackId),
    ) {
        let has_observer = failed.level == Level::TENSOR && holders::expect(session, thread, seq);
        if !session.postmortem || is_pytorchs_to_tell(&failed) {
            return;
        }
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
        self.newest.fetch_max(seq.0, Ordering::Relaxed);
        let place = number as usize - 1;
        let Some(waiting) = self.waiting.get(place) else {
            return self.left_out();
        };
        let recorded = Recorded {
            failed,
            seq,
            stacks,
            free: crate::driver::free_bytes()
                .filter(|_| crate::driver::current_device() == failed.device),
        };
        if !has_observer {
            self.start(session, (place, recorded), Arc::new(Walk::none()));
            self.wait(place, PATIENCE);
            return;
        }
        let walk = Arc::new(Walk::running());
        let of_thread = Box::new(Waiting {
            thread: thread.id(),
            walk: Arc::clone(&walk),
        });
        waiting.store(Box::into_raw(of_thread), Ordering::Release);
        self.start(session, (place, recorded), walk);
    }

    fn observed(&'static self, thread: &Thread, mut walked: Option<Walked>) {
        // The newest: of an older one of this thread, PyTorch has not called its observers.
        let mut places = (0..JUDGED).rev();
        let place = places.find(|place| self.end_walk(*place, Some(thread), &mut walked));
        if let Some(place) = place {
            self.wait(place, UNLOCKED);
        }
    }

    fn finish(&'static self, session: &'static Session) {
        for place in 0..JUDGED {
            self.end_walk(place, None, &mut None);
        }
        // Without a look at the clock, whose library may have ended.
        let is_done = (0..JUDGED).all(|place| self.wait(place, AT_THE_END));
        if is_done && self.is_ending_open() {
            let ending = move || self.say_ending(session);
            if let Ok(started) = thread::start(c"gpumem-oom", ending) {
                started.join_within(AT_THE_END);
            }
        }
    }
}

impl Reports {
    /// Judges a failure, prints its post-mortem and stores that in the capture.
    fn say(&self, session: &'static Session, recorded: &Recorded, walk: &Walk) {
        let figures = Figures::of(session, recorded);
        let path = session.storage.path(session.writer);
        let (names, read) = path.map_or((None, None), |path| {
            session.writer.await_written(FOR_NAMES);
            let names = lines::read(path, figures.stacks(recorded));
            let event = Event {
                bytes: recorded.failed.bytes,
                device: recorded.failed.device,
                level: recorded.failed.level,
                kind: EventKind::OUT_OF_MEMORY,
                ..Event::default()
            };
            let of = (recorded.seq, event, recorded.stacks.1);
            (
                names,
                Judgement::read(
                    path,
                    of,
                    (figures.lines_of(), figures.tensors.blocks()),
                    false,
                ),
            )
        });
        let walked = walk.wait();
        let verdict = read.and_then(|read| read.verdict(walked.as_ref()));
        let table = walked.as_ref().map(|of| &*of.table);
        let read = (names.as_ref(), verdict.as_ref(), table);
        let text = text::render(session, recorded, &figures, read);
        // Until it is printed, because a failure for the same reason refers to it.
        let mut judged = self.judged();
        let reason = verdict.as_ref().map(|of| of.reason.clone());
        let of_same = |kind: Printed| {
            let is_same = |of: &Judged| of.printed == kind && of.reason == reason;
            reason.is_some() && judged.iter().any(is_same)
        };
        let reports = judged.iter().filter(|of| of.printed == Printed::Report);
        let printed = match &verdict {
            Some(of) if of.is_of_handler => Printed::Nothing,
            Some(of) if of.is_attempt && !of_same(Printed::Line) => Printed::Line,
            Some(of) if of.is_attempt => Printed::Nothing,
            _ if reports.count() >= TOLD || of_same(Printed::Report) => Printed::Nothing,
            _ => Printed::Report,
        };
        match (&verdict, printed) {
            (_, Printed::Report) => message::line(text.trim_end()),
            (Some(of), Printed::Line) => message::line(&text::attempt(&recorded.failed, of)),
            (Some(of), Printed::Nothing) if of.is_attempt => {}
            _ => self.left_out(),
        }
        if printed == Printed::Report {
            store(session, recorded.seq, &text);
        }
        judged.push(Judged {
            seq: recorded.seq,
            text,
            reason,
            printed,
        });
    }

    fn judged(&self) -> MutexGuard<'_, Vec<Judged>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a report in the capture.
fn store(session: &'static Session, seq: Seq, text: &str) {
    let key = format!("{}{}", ProcessKey::POSTMORTEM, seq.0);
    if session.writer.fact(key, text).is_err() {
        account::note(
            session.writer,
            "a printed post-mortem did not fit into the capture",
        );
    }
}
