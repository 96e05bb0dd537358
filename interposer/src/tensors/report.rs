//! PyTorch's tensors: converts its reports of blocks into events.
//!
//! A training reports about a hundred blocks per step, in the middle of other work. The cost of a report is not its
//! instructions but the cache lines that it touches, including those of code. So this is a separate path from that of
//! all other calls ([`crate::record`]): the frequent code is contiguous here, the rest is elsewhere.

use gpumem_capture::{
    ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, PlacementId, StackId, Writer,
};
use gpumem_stacks::Stacks;
use gpumem_tracker::Block;
use gpumem_unwind::Registers;

use crate::allocator::block::Reported;
use crate::allocator::source::{self, Source};
use crate::holders::at_peak;
use crate::session::{self, Session};
use crate::tensors::Tensor;
use crate::thread::{self, ReentryGuard, Thread};
use crate::{account, definitions, stack, stacks, workspace};

/// A report of a block.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) api: ApiId,
    /// The call site of PyTorch's function.
    pub(crate) from: Registers,
    /// The caller's value of this register.
    pub(crate) rax: u64,
    pub(crate) ptr: u64,
    /// Bytes allocated if positive, freed if negative.
    pub(crate) size: i64,
    pub(crate) device: DeviceOrdinal,
    /// PyTorch's counts: allocated bytes and reserved bytes.
    pub(crate) figures: Option<(u64, u64)>,
}

/// Records a report; the first one opens the capture.
#[inline(always)]
pub(crate) fn reported(report: &Report) {
    if report.size == 0 || report.ptr == 0 {
        return;
    }
    match session::session() {
        Some(session) => {
            // Prefetches data that the thread that added the tensor touched last, while the stacks are captured.
            let tensor = session.tensors.tensor(report.device, report.ptr);
            if let Some(quiet) = ReentryGuard::begin() {
                record(session, quiet.thread, report, tensor);
            }
        }
        None => before_the_capture(*report),
    }
}

#[cold]
#[inline(never)]
fn before_the_capture(report: Report) {
    // Before the capture is open nothing is live, so there is no release to record.
    if report.size > 0 {
        let _ = thread::in_hook(|thread| {
            if let Some(session) = session::open() {
                let tensor = session.tensors.tensor(report.device, report.ptr);
                record(session, thread, &report, tensor);
            }
        });
    }
}

/// Both paths continue at one place, so that shared code is in a near cache sooner. Everything that may panic is in
/// separate functions, which catch panics.
#[inline(always)]
fn record(session: &'static Session, thread: &Thread, report: &Report, tensor: Tensor<'_>) {
    let writer = session.writer;
    let allocates = report.size > 0;
    let (kind, flags, stacks, source) = if allocates {
        if account::is_new() || !session.knows_device(report.device) {
            write_what_is_new(session, report.device);
        }
        let stacks = match session.stacks {
            Stacks::Off => (StackId::NONE, StackId::NONE),
            _ if !is_sampled(session, thread, report) => {
                (StackId::NOT_SAMPLED, StackId::NOT_SAMPLED)
            }
            wanted => take(session, wanted, report.from),
        };
        let flags = workspace::flag(thread).with(grad_flag(session));
        let source = source::source(session, &of_allocator(report));
        (EventKind::ALLOC, flags, stacks, source)
    } else {
        source::released(session, report.device);
        let stacks = (own_python(session), StackId::NONE);
        (EventKind::FREE, EventFlags::NONE, stacks, NO_SOURCE)
    };
    let mut event = Event {
        time: writer.now(),
        ptr: report.ptr,
        bytes: report.size.unsigned_abs(),
        aux: report.figures.map_or(0, |(_, reserved)| reserved),
        py_stack: stacks.0,
        native_stack: stacks.1,
        thread: thread.id(),
        kind,
        level: Level::TENSOR,
        device: report.device,
        api: report.api,
        flags,
        placement: source.placement,
        slack: source.slack,
    };
    let live = report.figures.map(|(allocated, _)| allocated);
    let Some(mut holding) = tensor.hold() else {
        return record_otherwise(writer, tensor, event, live);
    };
    let found = if allocates {
        holding.insert(&block(&event))
    } else if let Some(block) = holding.remove() {
        (event.bytes, event.flags) = (block.bytes, block.flags);
        true
    } else {
        false
    };
    if !found {
        drop(holding);
        record_otherwise(writer, tensor, event, live);
        return;
    }
    let Some(seq) = holding.record(&event, live) else {
        return record_without_room(writer, event, live);
    };
    if let (Some(peaks), Some(live), true) = (&session.peaks, live, allocates)
        && peaks.is_new(report.device, live)
    {
        at_peak::reached(peaks, report.device, live, (seq, event.time));
    }
}

/// For a release.
const NO_SOURCE: Source = Source {
    placement: PlacementId::DEFAULT,
    slack: 0,
};

#[inline(always)]
fn of_allocator(report: &Report) -> Reported {
    Reported {
        from: report.from,
        rax: report.rax,
        ptr: report.ptr,
        bytes: report.size.unsigned_abs(),
        device: report.device,
    }
}

/// [`EventFlags::NO_GRAD`] for allocations of the calling thread now, if gradients are off on it.
#[inline(always)]
fn grad_flag(session: &Session) -> EventFlags {
    match session.backward && session.nodes.no_grad() {
        true => EventFlags::NO_GRAD,
        false => EventFlags::NONE,
    }
}

/// Whether an allocation has stacks.
#[inline(always)]
fn is_sampled(session: &Session, thread: &Thread, report: &Report) -> bool {
    session.stack_sample.is_none_or(|every| {
        let bytes = report.size.unsigned_abs();
        thread.stack_sample.takes(bytes, every.get())
    })
}

/// The block of an allocation.
#[inline(always)]
fn block(event: &Event) -> Block {
    Block {
        bytes: event.bytes,
        context: 0,
        device: event.device,
        flags: event.flags,
        py_stack: event.py_stack,
    }
}

#[cold]
#[inline(never)]
fn write_what_is_new(session: &'static Session, device: DeviceOrdinal) {
    let _ = thread::caught(|| {
        definitions::write_if_new(session.writer);
        session.know_device(device);
    });
}

#[inline(never)]
fn take(session: &'static Session, wanted: Stacks, from: Registers) -> (StackId, StackId) {
    thread::caught(|| stack::take_at(session, wanted, from))
        .unwrap_or((StackId::NONE, StackId::NONE))
}

/// The stack of a release, if requested.
#[inline(always)]
fn own_python(session: &'static Session) -> StackId {
    #[cold]
    #[inline(never)]
    fn take(session: &'static Session) -> StackId {
        thread::caught(|| stacks::own_python(session)).unwrap_or(StackId::NONE)
    }
    match session.free_stacks {
        true => take(session),
        false => StackId::NONE,
    }
}

/// Records an event of a tensor that is in its line, or was just removed: the first one of a device, or one without
/// room at this time.
#[cold]
#[inline(never)]
fn record_without_room(writer: &Writer, event: Event, live: Option<u64>) {
    let _ = thread::caught(|| writer.event_to(&event, live));
}

/// Records an event of a tensor that is not in its line, finds no room there, or whose address was allocated again.
#[cold]
#[inline(never)]
fn record_otherwise(writer: &Writer, tensor: Tensor<'_>, event: Event, live: Option<u64>) {
    let _ = thread::caught(|| {
        if event.kind == EventKind::ALLOC {
            allocated_otherwise(writer, tensor, event, live);
        } else {
            released_otherwise(writer, tensor, event, live);
        }
    });
}

/// Records an allocation. If the address was allocated again, the release of the earlier block was missed.
fn allocated_otherwise(writer: &Writer, tensor: Tensor<'_>, event: Event, live: Option<u64>) {
    if let Some(stale) = tensor.insert(&block(&event)) {
        account::missed_release();
        let _ = writer.event(&Event {
            bytes: stale.bytes,
            aux: 0,
            py_stack: StackId::NONE,
            native_stack: StackId::NONE,
            kind: EventKind::FREE,
            device: stale.device,
            flags: stale.flags.with(EventFlags::MISMATCH),
            ..event
        });
    }
    let _ = writer.event_to(&event, live);
}

/// Records the release of an unknown block, from before the capture.
fn released_otherwise(writer: &Writer, tensor: Tensor<'_>, event: Event, live: Option<u64>) {
    if let Some(block) = tensor.remove() {
        let event = Event {
            bytes: block.bytes,
            device: block.device,
            flags: block.flags,
            ..event
        };
        let _ = writer.event_to(&event, live);
        return;
    }
    let counted = writer.live(event.device, Level::TENSOR);
    let differs = live.is_some_and(|live| live != counted.wrapping_sub(event.bytes));
    let flags = match differs {
        true => EventFlags::UNKNOWN_POINTER.with(EventFlags::MISMATCH),
        false => EventFlags::UNKNOWN_POINTER,
    };
    let _ = writer.event(&Event {
        bytes: 0,
        py_stack: StackId::NONE,
        device: DeviceOrdinal::NONE,
        flags,
        ..event
    });
}
