//! Charges backward to the forward line: the place in the program that created the running autograd node.
//!
//! PyTorch runs backward on its own threads, which have no Python frames; half of a training's memory is
//! allocated there. Each node stores its creator: the thread and a sequence number, which comes from an
//! exported PyTorch function. That function is hooked, and the current Python stack is stored under that key
//! ([`sequence_map`]). PyTorch's evaluation of a node is hooked as well, and sets the node as the thread's
//! running one ([`run`]). Allocations then get a stack of the kind `DefKind::BACKWARD`, which refers to the
//! node's forward.
//!
//! # Rules
//! 1. While a node runs, Python frames newer than its run (a custom function, a hook, a recomputation) come
//!    first; the reader looks for a line of the user's code among them, then at the forward.
//! 2. Without a running node, allocations are recorded as usual.
//! 3. A node that is created while a node runs inherits the running one's forward, unless there are newer
//!    frames.
//! 4. A node that accumulates a parameter's gradient has no number: its allocations belong to the line of its
//!    parameter.
//!
//! # Design constraints
//! - No guesses: where the forward is unknown, the capture marks it as lost.
//! - PyTorch's objects are read only if the layout is known and look-ups succeed as expected; otherwise this
//!   is switched off, and the account reports it.

pub(crate) mod gradients;
mod known;
mod layout;
mod made;
mod memory;
mod node;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod phases;
mod places;
mod running;
mod sequence_map;
pub(crate) mod steps;
mod thread_nodes;

use core::ffi::c_void;
use core::ptr::null;

use gpumem_capture::StackId;
use gpumem_stacks::thread_static;

use crate::session::{self, Session};
use crate::{stacks, thread};
use nodes::Nodes;
use running::Entered;
pub(crate) use running::RunningNode;
use thread_nodes::ThreadNodes;

thread_static! {
    /// The address of this thread's ring; null before its first node and after its end.
    fn place() -> *const ThreadNodes as "gpumem_nodes";
}

/// This thread's ring.
#[inline(always)]
fn mine() -> Option<&'static ThreadNodes> {
    // SAFETY: the word belongs to this thread only, lives as long as the thread, and holds null or the address
    // of a ring, whose memory is never freed.
    unsafe { place().read().as_ref() }
}

fn set_mine(ring: *const ThreadNodes) {
    // SAFETY: as above.
    unsafe { place().write(ring) };
}

/// The session, if backward is recorded in it.
#[inline]
fn session() -> Option<&'static Session> {
    session::session().filter(|session| session.backward)
}

/// The session, if the layout has not been refuted, either.
#[inline]
fn trusted_session() -> Option<&'static Session> {
    session().filter(|session| !session.nodes.is_refuted())
}

/// Records that the calling thread has drawn `sequence` for a node that it is creating.
#[inline]
pub(crate) fn made(sequence: u64) {
    if let Some(session) = trusted_session() {
        let _ = thread::guarded(|_| keep(session, sequence));
    }
}

/// Stores the creator of a node.
fn keep(session: &'static Session, sequence: u64) {
    if let Some(ring) = mine().or_else(|| ring_of_this_thread(&session.nodes, sequence)) {
        let made = site(session);
        session.nodes.made.put(ring, sequence, made.0);
    }
}

/// The current creator of nodes: the stack that an allocation would get.
fn site(session: &'static Session) -> StackId {
    let Some(run) = running::current() else {
        return stacks::own_python(session);
    };
    match run.newer() {
        0 => run.forward(session).stack,
        _ => run.stack(session, stacks::own_python(session)),
    }
}

/// Creates this thread's ring; None if there is no room for it.
#[cold]
fn ring_of_this_thread(nodes: &Nodes, sequence: u64) -> Option<&'static ThreadNodes> {
    let ring = nodes.made.nodes_for(nodes.this_thread()?, sequence)?;
    set_mine(ring);
    nodes.at_end.ask(ring);
    Some(ring)
}

/// The nodes of a session that opens.
pub(crate) fn nodes() -> Nodes {
    Nodes::new(thread_ends)
}

/// Releases the thread's ring for other threads. If the thread creates a node after this, it takes its ring
/// again, and this runs once more.
unsafe extern "C" fn thread_ends(ring: *mut c_void) {
    set_mine(null());
    // SAFETY: the argument that `ring_of_this_thread` registered: a ring, which is never freed.
    let ring = unsafe { &*ring.cast_const().cast::<ThreadNodes>() };
    if let Some(session) = session::session_of_process() {
        session.nodes.made.end(ring);
    }
}

/// A run of the node at `address`, if it must be recorded.
///
/// # Safety
/// As [`RunningNode::new`].
#[inline]
pub(crate) unsafe fn run(address: usize) -> Option<RunningNode> {
    trusted_session()?;
    // SAFETY: promised by the caller.
    unsafe { RunningNode::new(address) }
}

/// Sets a run as this thread's, until the result is dropped.
#[inline]
pub(crate) fn enter(run: &Option<RunningNode>) -> Option<Entered<'_>> {
    run.as_ref().map(RunningNode::enter)
}

/// The stack for an allocation now, where the thread's own Python stack is `own`.
#[inline]
pub(crate) fn owner(session: &'static Session, own: StackId) -> StackId {
    match running::current() {
        Some(run) if !session.nodes.is_refuted() => run.stack(session, own),
        _ => own,
    }
}
