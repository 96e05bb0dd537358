//! Which forward line made a node.

use core::sync::atomic::{AtomicBool, Ordering};

use gpumem_capture::{StackId, Writer};

use super::layout::{Check, Verdict};
use super::node::{NO_SEQUENCE, Node};
use super::sequence_map::SequenceMap;
use super::thread_nodes::Found;
use crate::account;

/// What all threads' nodes were made by.
pub(super) static MADE: SequenceMap = SequenceMap::new();

/// Whether PyTorch's nodes are laid out as we know them.
static CHECK: Check = Check::new();

/// The layout is none that we know: nothing of it is used any more.
static REFUTED: AtomicBool = AtomicBool::new(false);

/// What the account says then.
const REFUTED_NOTE: &str = "PyTorch's autograd nodes are laid out in a way that is not known: what backward \
                            allocates is not charged to forward lines";

/// Whether the layout of nodes is none that is known.
#[inline]
pub(super) fn is_refuted() -> bool {
    REFUTED.load(Ordering::Relaxed)
}

/// What made a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forward {
    /// The stack of the call that made it; none if it is lost.
    pub(super) stack: StackId,
    pub(super) lost: bool,
}

impl Forward {
    pub(super) const LOST: Self = Self {
        stack: StackId::NONE,
        lost: true,
    };
}

/// What made a node.
pub(super) fn look_up(writer: &'static Writer, node: Node) -> Forward {
    let (thread, sequence) = node.key();
    if sequence == NO_SEQUENCE {
        return node
            .parameters_stack()
            .map_or(Forward::LOST, |stack| Forward { stack, lost: false });
    }
    let found = MADE.get(thread, sequence);
    let is_known = match found {
        Found::Place(_) | Found::Overwritten => Some(true),
        Found::Unknown => Some(false),
        Found::Before => None,
    };
    if is_known.is_some_and(|known| CHECK.looked_up(known) == Verdict::Refuted) {
        REFUTED.store(true, Ordering::Relaxed);
        account::note(writer, REFUTED_NOTE);
    }
    match found {
        Found::Place(id) if id != 0 => Forward {
            stack: StackId(id),
            lost: false,
        },
        _ => Forward::LOST,
    }
}
