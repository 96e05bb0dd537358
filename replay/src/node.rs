//! A node of PyTorch's autograd that ran.

use gpumem_capture::StackId;

use crate::ids::NodeId;
use crate::serialize::serialize;

/// A node that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Its class.
    pub node: NodeId,
    /// The stack of the forward that made it; 0: there was no Python. May be that of another node.
    pub forward: StackId,
    /// The Python stack of the thread that it ran on; 0: none.
    pub own: StackId,
    /// How many of the newest frames of that are newer than the node's run.
    pub newer: usize,
    /// Whether it is lost which forward made it.
    pub lost: bool,
}

serialize! {
    Backward { node, forward, own, newer, lost }
}
