//! Backward charged to the forward line: which place in the program made the autograd node that runs
//! now.
//!
//! PyTorch runs backward on threads of its own, with no Python frames; half of a training's memory is
//! allocated there. Each node remembers who made it: the thread and a running number, drawn from a
//! function that PyTorch exports. That function is hooked: the Python stack of the moment is kept by
//! that key ([`sequence_map`]). When PyTorch evaluates a node, which is hooked as well, the node is noted as
//! the thread's running one ([`run`]); what is allocated then gets a stack of the kind
//! `DefKind::BACKWARD`, which names the node's forward.
//!
//! # Rules
//! 1. While a node runs, Python frames newer than its run (a custom function, a hook, a recomputation)
//!    come first; the reader looks for a line of the user's among them, then at the forward.
//! 2. While none runs, nothing is different from any other allocation.
//! 3. A node that is made while a node runs inherits the running one's forward, unless there are newer
//!    frames.
//! 4. A node that accumulates a parameter's gradient has no number: its parameter's own line owns what
//!    it makes.
//!
//! # Design constraints
//! - Never a guess: where the forward is not known, the capture says that it is lost.
//! - PyTorch's objects are read where its layout is known and look-ups find what they must; else all
//!   this is switched off, and the account says so.

pub(crate) mod gradients;
mod known;
mod layout;
mod made;
mod memory;
mod node;
pub(crate) mod nodes;
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
    /// Where this thread has its ring; null before its first node and after its end.
    fn place() -> *const ThreadNodes as "gpumem_nodes";
}

/// This thread's ring.
#[inline(always)]
fn mine() -> Option<&'static ThreadNodes> {
    // SAFETY: the word is this thread's alone, lives as long as the thread, and holds null or the address of a
    // ring, whose memory is never given back.
    unsafe { place().read().as_ref() }
}

fn set_mine(ring: *const ThreadNodes) {
    // SAFETY: as above.
    unsafe { place().write(ring) };
}

/// The session, if backward is looked at in it.
#[inline]
fn session() -> Option<&'static Session> {
    session::session().filter(|session| session.backward)
}

/// The session, if the layout has not been refuted either.
#[inline]
fn trusted_session() -> Option<&'static Session> {
    session().filter(|session| !session.nodes.is_refuted())
}

/// The calling thread has drawn `sequence` for a node that it is making.
#[inline]
pub(crate) fn made(sequence: u64) {
    if let Some(session) = trusted_session() {
        let _ = thread::guarded(|_| keep(session, sequence));
    }
}

/// Keeps what makes a node.
fn keep(session: &'static Session, sequence: u64) {
    if let Some(ring) = mine().or_else(|| ring_of_this_thread(&session.nodes, sequence)) {
        let made = site(session);
        session.nodes.made.put(ring, sequence, made.0);
    }
}

/// What makes a node at this moment, as an allocation would have it.
fn site(session: &'static Session) -> StackId {
    let Some(run) = running::current() else {
        return stacks::own_python(session);
    };
    match run.newer() {
        0 => run.forward(session).stack,
        _ => run.stack(session, stacks::own_python(session)),
    }
}

/// This thread's ring, made now; None if there is no room for it.
#[cold]
fn ring_of_this_thread(nodes: &Nodes, sequence: u64) -> Option<&'static ThreadNodes> {
    let ring = nodes.made.nodes_for(nodes.this_thread()?, sequence)?;
    set_mine(ring);
    nodes.at_end.ask(ring);
    Some(ring)
}

/// Those of a session that opens.
pub(crate) fn nodes() -> Nodes {
    Nodes::new(thread_ends)
}

/// Gives the thread's ring to others. Should the thread make a node after this, it has its ring again, and
/// this runs once more.
unsafe extern "C" fn thread_ends(ring: *mut c_void) {
    set_mine(null());
    // SAFETY: what `ring_of_this_thread` asked with: a ring, which is never given back.
    let ring = unsafe { &*ring.cast_const().cast::<ThreadNodes>() };
    if let Some(session) = session::session_of_process() {
        session.nodes.made.end(ring);
    }
}

/// A run of the node at `address`, if it is to be noted.
///
/// # Safety
/// As [`RunningNode::new`].
#[inline]
pub(crate) unsafe fn run(address: usize) -> Option<RunningNode> {
    trusted_session()?;
    // SAFETY: promised by the caller.
    unsafe { RunningNode::new(address) }
}

/// Makes a run the one of this thread, until the result is dropped.
#[inline]
pub(crate) fn enter(run: &Option<RunningNode>) -> Option<Entered<'_>> {
    run.as_ref().map(RunningNode::enter)
}

/// Whose an allocation of this moment is, where the thread's own Python stack is `own`.
#[inline]
pub(crate) fn owner(session: &'static Session, own: StackId) -> StackId {
    match running::current() {
        Some(run) if !session.nodes.is_refuted() => run.stack(session, own),
        _ => own,
    }
}
