//! Allocations of autograd's nodes: which line of the forward each belongs to.
//!
//! A node runs long after the line that made it, and mostly on a thread with no Python. The recorder
//! notes for it the stack of its forward; where a node was made while another one ran (double backward,
//! checkpoints that run again), that is again such a note.

use gpumem_capture::{PyFrame, StackId};

use crate::names::Names;
pub use crate::node::Backward;

/// What made a chain of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A forward with this Python stack.
    Forward(StackId),
    /// A forward with no Python.
    NoPython,
    /// It is not known.
    Lost,
}

/// Nodes made by nodes are followed so far; a chain that goes on (a damaged one may end nowhere) is lost.
const DEPTH: usize = 64;

/// A node and those that made one another before it, the newest first, and what made the oldest.
pub fn chain<'a>(names: &'a Names, ran: &'a Backward) -> (Vec<&'a Backward>, Origin) {
    let mut chain = vec![ran];
    let mut at = ran;
    loop {
        if at.lost {
            return (chain, Origin::Lost);
        }
        match names.backwards.get(&at.forward) {
            Some(_) if chain.len() == DEPTH => return (chain, Origin::Lost),
            Some(made_by) => {
                chain.push(made_by);
                at = made_by;
            }
            None if at.forward == StackId::NONE => return (chain, Origin::NoPython),
            None => return (chain, Origin::Forward(at.forward)),
        }
    }
}

impl Backward {
    /// The frames that are newer than the node's run, the newest first: its own Python code, a hook,
    /// a forward that runs again.
    pub fn newer_frames<'a>(&self, names: &'a Names) -> &'a [PyFrame] {
        let frames = names
            .py_stacks
            .get(&self.own)
            .map_or(&[][..], |(frames, _)| frames);
        &frames[..self.newer.min(frames.len())]
    }

    /// Whether every stack that it names is in the capture.
    pub fn is_whole(&self, names: &Names) -> bool {
        let known = |stack: StackId| stack.is_named() || names.py_stacks.contains_key(&stack);
        let (chain, origin) = chain(names, self);
        let made = match origin {
            Origin::Forward(stack) => known(stack),
            Origin::NoPython | Origin::Lost => true,
        };
        made && chain.iter().all(|ran| known(ran.own))
    }
}
