//! What PyTorch's caching allocator decides by, so that a replay of a capture can decide as it did.
//!
//! | what | from |
//! |---|---|
//! | bytes that were asked for, stream | the allocator's own block, which its report of an allocation has just read ([`block`]) |
//! | pools, streams that a block is used on, fraction, settings | calls of the allocator ([`slots`], [`calls`]) |
//! | pool of a block, when a block that waited for streams is free | its trace ([`trace`]), from the first such call on |
//!
//! PyTorch calls all of this with its lock of the device held, but for the calls. What cannot be seen of a release of
//! PyTorch's is said (`allocator_sees`), and nothing is guessed.

pub(crate) mod block;
pub(crate) mod calls;
mod placements;
pub(crate) mod slots;
mod streams;
mod trace;

use gpumem_capture::{DeviceOrdinal, Event, PlacementId};
use gpumem_unwind::Registers;

use crate::session::Session;
use crate::{definitions, thread};

/// What is known of the allocator in a session.
#[derive(Default)]
pub(crate) struct Allocator {
    sites: block::Sites,
    placements: placements::Placements,
    trace: trace::Trace,
}

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

/// A block as the allocator reports it.
#[derive(Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) from: Registers,
    /// The register that may hold the address of the allocator's block.
    pub(crate) rax: u64,
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceOrdinal,
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
        stream => placements::of_block(session, of.device, stream, (0, 0)),
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
            (stream, pool) => placements::of_block(session, of.device, stream, pool),
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
        let attached = block.is_none() && trace::attach(session);
        if is_new || attached {
            tell(session);
        }
        let block = block?;
        let placement = match block.stream {
            0 => PlacementId::DEFAULT,
            stream => placements::of_block(session, of.device, stream, (0, 0)),
        };
        Some(Source {
            placement,
            slack: slack(of.bytes, block.requested),
        })
    });
    source.flatten().unwrap_or(Source::UNKNOWN)
}

/// Writes what is seen of the allocator.
fn tell(session: &'static Session) {
    let allocator = &session.allocator;
    let (blocks, traces) = (allocator.sites.sees(), allocator.trace.is_on());
    let calls = slots::are_taken();
    let can_trace = traces || allocator.trace.is_idle() && slots::attach_trace().is_some();
    let words = [
        ("requested", blocks.requested || traces),
        ("stream", blocks.stream || traces),
        ("record_stream", calls),
        ("released", calls && can_trace),
        ("pool", calls && can_trace),
        ("calls", calls),
        ("settings", calls),
    ];
    let seen = words.into_iter().filter(|(_, seen)| *seen);
    let seen: Vec<_> = seen.map(|(word, _)| word).collect();
    definitions::write_seen(session.writer, &seen.join(" "));
}
