//! PyTorch's tensors: its reports of blocks, turned into events.
//!
//! A training reports some hundred blocks in a step, in the midst of other work: what a report costs is not its
//! instructions but the cache lines that it touches, of code too. So this is a way of its own beside that of all
//! other calls ([`crate::record`]): what happens each time stands here in a row, the rest elsewhere.

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, StackId, Writer};
use gpumem_unwind::Registers;

use crate::lifecycle::{self, Session};
use crate::live::{self, Block};
use crate::stacks::{self, Stacks};
use crate::thread::{self, Quiet, Thread};
use crate::{account, workspace};

/// A report of a block.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) api: ApiId,
    /// From where PyTorch's function was called.
    pub(crate) from: Registers,
    pub(crate) ptr: u64,
    /// Bytes handed out if positive, given back if negative.
    pub(crate) size: i64,
    pub(crate) device: DeviceOrdinal,
    /// By PyTorch's count: bytes handed out, and bytes that it holds.
    pub(crate) figures: Option<(u64, u64)>,
}

/// Records a report; the first one opens the capture.
#[inline(always)]
pub(crate) fn reported(report: &Report) {
    if report.size == 0 || report.ptr == 0 {
        return;
    }
    // What was last touched by the thread that added the tensor comes while the stacks are taken.
    let tensor = live::tensor(report.ptr);
    match lifecycle::session() {
        Some(session) => {
            if let Some(quiet) = Quiet::begin() {
                record(session, quiet.thread, report, tensor);
            }
        }
        None => before_the_capture(*report),
    }
}

#[cold]
#[inline(never)]
fn before_the_capture(report: Report) {
    // Before the capture is open nothing is live, so no release is to be recorded.
    if report.size > 0 {
        let _ = thread::in_hook(|thread| {
            if let Some(session) = lifecycle::open_session() {
                record(session, thread, &report, live::tensor(report.ptr));
            }
        });
    }
}

/// Both ways go on in one place: what they share is in a near cache the sooner. All that may panic is in functions of
/// its own, which let nothing out.
#[inline(always)]
fn record(session: &'static Session, thread: &Thread, report: &Report, tensor: live::Tensor<'_>) {
    let writer = session.writer;
    let (kind, block, stacks) = if report.size > 0 {
        if account::is_new() || !session.knows_device(report.device) {
            write_what_is_new(session, report.device);
        }
        let stacks = match session.stacks {
            Stacks::Off => (StackId::NONE, StackId::NONE),
            wanted => take(writer, wanted, report.from),
        };
        let block = Block {
            bytes: report.size.unsigned_abs(),
            context: 0,
            device: report.device,
            flags: workspace::flag(thread),
            py_stack: stacks.0,
        };
        if !tensor.insert_in_line(&block) {
            insert_otherwise(writer, thread, *report, tensor, block);
        }
        (EventKind::ALLOC, block, stacks)
    } else {
        let Some(block) = tensor.remove_from_line() else {
            return released_otherwise(session, thread, *report, tensor);
        };
        (EventKind::FREE, block, (own_python(session), StackId::NONE))
    };
    let event = Event {
        py_stack: stacks.0,
        native_stack: stacks.1,
        ..event(writer, thread, report, kind, &block)
    };
    let live = report.figures.map(|(allocated, _)| allocated);
    if writer.usual_event(&event, live).is_none() {
        record_otherwise(writer, event, live);
    }
}

#[cold]
#[inline(never)]
fn write_what_is_new(session: &'static Session, device: DeviceOrdinal) {
    let _ = thread::caught(|| {
        account::write_if_new(session.writer);
        session.know_device(device);
    });
}

#[inline(never)]
fn take(writer: &'static Writer, wanted: Stacks, from: Registers) -> (StackId, StackId) {
    thread::caught(|| stacks::take_at(writer, wanted, from))
        .unwrap_or((StackId::NONE, StackId::NONE))
}

/// The stack of a release, where that is asked for.
#[inline(always)]
fn own_python(session: &'static Session) -> StackId {
    #[cold]
    #[inline(never)]
    fn take(writer: &'static Writer) -> StackId {
        thread::caught(|| stacks::own_python(writer)).unwrap_or(StackId::NONE)
    }
    match session.free_stacks {
        true => take(session.writer),
        false => StackId::NONE,
    }
}

/// The first event of a device, or one for which there is no room.
#[cold]
#[inline(never)]
fn record_otherwise(writer: &Writer, event: Event, live: Option<u64>) {
    let _ = thread::caught(|| writer.event_to(&event, live));
}

/// An event of the present moment that is about `block`.
#[inline(always)]
fn event(
    writer: &Writer,
    thread: &Thread,
    report: &Report,
    kind: EventKind,
    block: &Block,
) -> Event {
    Event {
        time: writer.now(),
        ptr: report.ptr,
        bytes: block.bytes,
        aux: report.figures.map_or(0, |(_, reserved)| reserved),
        thread: thread.id(),
        kind,
        level: Level::TENSOR,
        device: block.device,
        api: report.api,
        flags: block.flags,
        ..Event::default()
    }
}

/// A block that finds no room in its line, or whose address was handed out again: the release of the one that
/// was there went unseen.
#[cold]
#[inline(never)]
fn insert_otherwise(
    writer: &Writer,
    thread: &Thread,
    report: Report,
    tensor: live::Tensor<'_>,
    block: Block,
) {
    let _ = thread::caught(|| {
        let Some(stale) = tensor.insert(&block) else {
            return;
        };
        account::missed_release();
        let _ = writer.event(&Event {
            aux: 0,
            flags: stale.flags.with(EventFlags::MISMATCH),
            ..event(writer, thread, &report, EventKind::FREE, &stale)
        });
    });
}

/// The release of a block that is not in its line, or of which nothing is known: from before the capture.
#[cold]
#[inline(never)]
fn released_otherwise(
    session: &'static Session,
    thread: &Thread,
    report: Report,
    tensor: live::Tensor<'_>,
) {
    let writer = session.writer;
    let _ = thread::caught(|| {
        let Some(block) = tensor.remove() else {
            return released_unknown(writer, thread, &report);
        };
        let event = Event {
            py_stack: own_python(session),
            ..event(writer, thread, &report, EventKind::FREE, &block)
        };
        let _ = writer.event_to(&event, report.figures.map(|(allocated, _)| allocated));
    });
}

fn released_unknown(writer: &Writer, thread: &Thread, report: &Report) {
    let (live, bytes) = (
        writer.live(report.device, Level::TENSOR),
        report.size.unsigned_abs(),
    );
    let differs = report
        .figures
        .is_some_and(|(allocated, _)| allocated != live.wrapping_sub(bytes));
    let block = Block {
        device: DeviceOrdinal::NONE,
        flags: match differs {
            true => EventFlags::UNKNOWN_POINTER.with(EventFlags::MISMATCH),
            false => EventFlags::UNKNOWN_POINTER,
        },
        ..Block::default()
    };
    let _ = writer.event(&event(writer, thread, report, EventKind::FREE, &block));
}
