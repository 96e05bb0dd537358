//! The forward line that created a node.

use core::sync::atomic::Ordering;

use gpumem_capture::StackId;

use super::layout::Verdict;
use super::node::{NO_SEQUENCE, Node};
use super::thread_nodes::Found;
use crate::account;
use crate::session::Session;

/// The account's note if the layout is refuted.
const REFUTED_NOTE: &str = "PyTorch's autograd nodes have an unknown layout: allocations of backward are not charged to forward lines";

/// The forward that created a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forward {
    /// The stack of the call that created it; none if it is lost.
    pub(super) stack: StackId,
    pub(super) lost: bool,
}

impl Forward {
    pub(super) const LOST: Self = Self {
        stack: StackId::NONE,
        lost: true,
    };
}

/// Looks up the forward that created a node.
pub(super) fn look_up(session: &'static Session, node: Node) -> Forward {
    let nodes = &session.nodes;
    let layout = nodes.layout();
    let (thread, sequence) = node.key(layout);
    if sequence == NO_SEQUENCE {
        return node
            .parameters_stack(layout)
            .map_or(Forward::LOST, |stack| Forward { stack, lost: false });
    }
    let found = nodes.made.get(thread, sequence);
    let is_known = match found {
        Found::Place(_) | Found::Overwritten => Some(true),
        Found::Unknown => Some(false),
        Found::Before => None,
    };
    if is_known.is_some_and(|known| nodes.check.looked_up(known) == Verdict::Refuted) {
        nodes.refuted.store(true, Ordering::Relaxed);
        account::note(session.writer, REFUTED_NOTE);
    }
    match found {
        Found::Place(id) if id != 0 => Forward {
            stack: StackId(id),
            lost: false,
        },
        _ => Forward::LOST,
    }
}
