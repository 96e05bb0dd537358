//! Where a block that PyTorch reports comes from.

use gpumem_capture::{DeviceOrdinal, Event, PlacementId};

use super::block::Reported;
use super::placements::Pool;
use super::seen::tell;
use super::{attach, streams};
use crate::session::Session;
use crate::thread;

/// Where a block comes from, and how much larger it is than what was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) placement: PlacementId,
    pub(crate) slack: u32,
}

impl Source {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        placement: PlacementId::UNKNOWN,
        slack: Event::SLACK_UNKNOWN,
    };
}

/// The source of an allocation that PyTorch reports, with its lock of the device held.
#[inline(always)]
pub(crate) fn source(session: &'static Session, of: &Reported) -> Source {
    let allocator = &session.allocator;
    if !allocator.trace.is_idle() {
        return traced(session, of);
    }
    let Some(block) = allocator.sites.read(of) else {
        return unknown_site(session, of);
    };
    // Nothing comes from another pool before the trace is on.
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
    let traced = thread::caught(|| {
        let was_on = session.allocator.trace.is_on();
        let Some(entry) = session.allocator.trace.alloc_of(of) else {
            if was_on {
                tell(session);
            }
            return None;
        };
        let placement = match (entry.stream, entry.pool) {
            (0, (0, 0)) => PlacementId::DEFAULT,
            (stream, pool) => place(session, of.device, stream, pool),
        };
        let slack = slack(of.bytes, Some(entry.requested));
        Some(Source { placement, slack })
    });
    // Without a trace blocks may be of any pool.
    let of_block = || Source {
        slack: session
            .allocator
            .sites
            .read(of)
            .map_or(Event::SLACK_UNKNOWN, |block| {
                slack(of.bytes, block.requested)
            }),
        ..Source::UNKNOWN
    };
    traced.flatten().unwrap_or_else(of_block)
}

/// The report comes from code that is not known: it is looked at, and if it does not tell, the trace has to.
#[cold]
#[inline(never)]
fn unknown_site(session: &'static Session, of: &Reported) -> Source {
    let source = thread::caught(|| {
        let allocator = &session.allocator;
        let is_new = allocator.sites.learn(of);
        let block = allocator.sites.read(of);
        // The trace's loop is over when a block is reported, and the allocator's lock may be taken again by the thread
        // that has it.
        let attached = block.is_none() && attach::attach(session);
        if is_new || attached {
            tell(session);
        }
        let block = block?;
        let placement = match block.stream {
            0 => PlacementId::DEFAULT,
            stream => place(session, of.device, stream, (0, 0)),
        };
        Some(Source {
            placement,
            slack: slack(of.bytes, block.requested),
        })
    });
    source.flatten().unwrap_or(Source::UNKNOWN)
}

#[inline(always)]
fn place(session: &'static Session, device: DeviceOrdinal, stream: u64, pool: Pool) -> PlacementId {
    let id = || streams::id_of(device, stream);
    session
        .allocator
        .placements
        .of_block(session.writer, device, stream, id, pool)
}
