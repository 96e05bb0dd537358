//! Stream capture: work for a stream becomes nodes of a graph instead of being done.
//!
//! ```text
//!             begin                       end
//!  no capture ─────► active ──────────────────► graph
//!                       │ a call that the rules forbid     end
//!                       └───────────────────► invalidated ─────► no graph
//! ``` Another stream joins a capture by waiting for an event that was recorded in it. The origin
//! stream must wait for it before the capture ends. A capture's state is its *tips*: for each
//! stream, the nodes that the next node depends on.

use super::stream::On;
use crate::ffi::{Answer, CuError};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// `CUstreamCaptureMode`: no unsafe call on any thread.
pub const GLOBAL: u32 = 0;
/// `CUstreamCaptureMode`: all calls are allowed.
pub const RELAXED: u32 = 2;

/// `CU_EVENT_RECORD_EXTERNAL`, `CU_EVENT_WAIT_EXTERNAL`: a separate node.
pub const EXTERNAL: u32 = 1;

thread_local!(pub(crate) static MODE: Cell<u32> = const { Cell::new(GLOBAL) });

/// `cuThreadExchangeStreamCaptureMode`.
pub fn exchange_mode(mode: u32) -> u32 {
    MODE.with(|current| current.replace(mode))
}

/// The dependencies of a stream's next node. Clients get the lists' addresses, which stay valid
/// until the stream is used again.
#[derive(Clone, Debug, Default)]
pub struct Tip {
    /// Nodes.
    pub nodes: Vec<usize>,
    /// The edges' data: ports and types, all zero.
    pub edges: Vec<[u8; 8]>,
}

impl Tip {
    pub(crate) fn of(nodes: Vec<usize>) -> Self {
        let edges = vec![[0; 8]; nodes.len()];
        Self { nodes, edges }
    }

    pub(crate) fn join(&mut self, nodes: &[usize]) {
        let mut all = std::mem::take(&mut self.nodes);
        all.extend(nodes);
        let mut seen = BTreeSet::new();
        all.retain(|node| seen.insert(*node));
        *self = Self::of(all);
    }
}

/// One capture.
#[derive(Debug)]
pub struct Capture {
    /// The graph that it makes.
    pub graph: usize,
    /// Whether all calls were allowed.
    pub valid: bool,
    /// Whether it captures into an existing graph.
    pub(crate) into_existing: bool,
    pub(crate) origin: On,
    pub(crate) thread: usize,
    pub(crate) mode: u32,
    pub(crate) context: usize,
    pub(crate) tips: BTreeMap<On, Tip>,
}

/// All captures, by their numbers.
#[derive(Debug, Default)]
pub struct Captures {
    pub(crate) live: BTreeMap<u64, Capture>,
    pub(crate) made: u64,
}

impl Captures {
    /// The capture that a stream is in, and its tip there.
    pub fn of(&self, on: On) -> Option<(u64, &Capture, &Tip)> {
        let mut all = self.live.iter();
        all.find_map(|(id, capture)| Some((*id, capture, capture.tips.get(&on)?)))
    }

    pub(crate) fn id_of(&self, on: On) -> Option<u64> {
        self.of(on).map(|(id, ..)| id)
    }

    /// A context has ended, and with it the captures of its streams. Their unfinished graphs cannot
    /// be launched.
    pub fn drop_context(&mut self, context: usize) {
        self.live.retain(|_, capture| capture.context != context);
    }

    pub(crate) fn invalidate(&mut self, id: u64) {
        if let Some(capture) = self.live.get_mut(&id) {
            capture.valid = false;
        }
    }

    /// The mutable capture that a stream is in.
    pub(crate) fn active(&mut self, on: On) -> Answer<Option<(u64, &mut Capture)>> {
        let Some(id) = self.id_of(on) else {
            return Ok(None);
        };
        match self.live.get_mut(&id) {
            Some(capture) if capture.valid => Ok(Some((id, capture))),
            _ => Err(CuError::STREAM_CAPTURE_INVALIDATED),
        }
    }
}
