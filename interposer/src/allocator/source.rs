//! The source of a block that PyTorch reports.

use gpumem_capture::{DeviceOrdinal, Event, PlacementId};

use super::block::{Block, Reported};
use super::placements::Pool;
use super::seen::tell;
use super::{attach, streams};
use crate::session::Session;
use crate::thread;

/// The source of a block, and the difference between its size and the requested size.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) placement: PlacementId,
    pub(crate) slack: u32,
}

impl Source {
    /// Nothing is known about the source.
    pub(crate) const UNKNOWN: Self = Self {
        placement: PlacementId::UNKNOWN,
        slack: Event::SLACK_UNKNOWN,
    };
}

/// The placement of a failed allocation.
pub(crate) fn of_failure(session: &'static Session, device: DeviceOrdinal) -> PlacementId {
    let allocator = &session.allocator;
    let wanted = match allocator.trace.is_idle() {
        // Before the trace is on, all blocks come from the default pool.
        true => streams::current_handle(device).map(|stream| (stream, Some((0, 0)))),
        false => match allocator.trace.failed(device) {
            // This release has no trace.
            None => streams::current_handle(device).map(|stream| (stream, None)),
            failed => failed,
        },
    };
    wanted.map_or(PlacementId::UNKNOWN, |(stream, pool)| {
        let pool = pool.unwrap_or_else(|| allocator.routes.pool(device, stream));
        let id = || streams::id_of(device, stream);
        allocator
            .placements
            .of(session.writer, device, stream, id, pool)
    })
}

/// The source of an allocation that PyTorch reports, with its lock of the device held.
#[inline(always)]
pub(crate) fn source(session: &'static Session, of: &Reported) -> Source {
    let allocator = &session.allocator;
    if !allocator.trace.is_idle() {
        return traced(session, of);
    }
    match allocator.sites.read(of) {
        Some(block) => of_block(session, of, block),
        None => unknown_site(session, of),
    }
}

/// Records the reported release of a block, with PyTorch's lock of the device held.
#[inline(always)]
pub(crate) fn released(session: &'static Session, device: DeviceOrdinal) {
    let trace = &session.allocator.trace;
    if !trace.is_idle() {
        trace.freed(device);
    }
}

/// The source according to the block: before the trace is on, all blocks come from the default pool.
#[inline(always)]
fn of_block(session: &'static Session, of: &Reported, block: Block) -> Source {
    let placement = match block.stream {
        0 => PlacementId::DEFAULT,
        stream => place(session, of.device, stream, (0, 0)),
    };
    Source {
        placement,
        slack: slack(of.bytes, block.requested),
    }
}

#[inline(always)]
fn slack(bytes: u64, requested: Option<u64>) -> u32 {
    let slack = requested.and_then(|requested| bytes.checked_sub(requested));
    slack.map_or(Event::SLACK_UNKNOWN, |slack| {
        u32::try_from(slack).unwrap_or(Event::SLACK_UNKNOWN)
    })
}

#[cold]
#[inline(never)]
fn traced(session: &'static Session, of: &Reported) -> Source {
    let source = thread::caught(|| {
        let allocator = &session.allocator;
        let was_on = allocator.trace.is_on();
        if let Some(entry) = allocator.trace.alloc_of(of) {
            let asked = || allocator.routes.pool(of.device, entry.stream);
            let pool = entry.pool.unwrap_or_else(asked);
            let slack = slack(of.bytes, Some(entry.requested));
            return Some(Source {
                placement: anywhere(session, of, entry.stream, pool),
                slack,
            });
        }
        if was_on {
            tell(session);
        }
        let block = allocator.sites.read(of)?;
        let pool = allocator.routes.pool(of.device, block.stream);
        Some(Source {
            placement: anywhere(session, of, block.stream, pool),
            slack: slack(of.bytes, block.requested),
        })
    });
    source.flatten().unwrap_or(Source::UNKNOWN)
}

/// Handles a report from unknown code: decodes the code, and attaches the trace if that does not work.
#[cold]
#[inline(never)]
fn unknown_site(session: &'static Session, of: &Reported) -> Source {
    let source = thread::caught(|| {
        let allocator = &session.allocator;
        let is_new = allocator.sites.learn(of);
        let block = allocator.sites.read(of);
        // The trace's loop has ended when a block is reported, and the allocator's lock may be taken again by the
        // thread that holds it.
        let attached = block.is_none() && attach::attach(session);
        if is_new || attached {
            tell(session);
        }
        Some(of_block(session, of, block?))
    });
    source.flatten().unwrap_or(Source::UNKNOWN)
}

/// The placement of a block from any pool.
fn anywhere(session: &'static Session, of: &Reported, stream: u64, pool: Pool) -> PlacementId {
    match (stream, pool) {
        (0, (0, 0)) => PlacementId::DEFAULT,
        (stream, pool) => place(session, of.device, stream, pool),
    }
}

#[inline(always)]
fn place(session: &'static Session, device: DeviceOrdinal, stream: u64, pool: Pool) -> PlacementId {
    let id = || streams::id_of(device, stream);
    session
        .allocator
        .placements
        .of_block(session.writer, device, stream, id, pool)
}
