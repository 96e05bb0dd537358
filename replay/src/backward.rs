//! Allocations of autograd nodes: the line of the forward that each belongs to.
//!
//! A node runs long after the line that made it, usually on a thread without Python. The recorder stores the stack of
//! the forward with each run of a node. If the node was made while another one ran (double backward, checkpoints that
//! recompute), that stack is again such a record.

use gpumem_capture::{PyFrame, StackId};

use crate::names::Names;
pub use crate::node::Backward;

/// What made a chain of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The forward with this Python stack.
    Forward(StackId),
    /// A forward without Python.
    NoPython,
    /// Unknown.
    Lost,
}

/// The longest chain of nodes that is followed; a longer one, such as the cycle of a damaged capture, counts as lost.
const DEPTH: usize = 64;

/// A node and the nodes that made one another before it, newest first, and the origin of the oldest.
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
    /// The frames newer than the node's run, newest first: its own Python code, a hook, a recomputed forward.
    pub fn newer_frames<'a>(&self, names: &'a Names) -> &'a [PyFrame] {
        let frames = names
            .py_stacks
            .get(&self.own)
            .map_or(&[][..], |(frames, _)| frames);
        &frames[..self.newer.min(frames.len())]
    }

    /// Whether the capture has every stack that the node refers to.
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
