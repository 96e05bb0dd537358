//! A run of an autograd node.

use gpumem_capture::StackId;

use crate::ids::NodeId;
use crate::serialize::serialize;

/// A run of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backward {
    /// Its class.
    pub node: NodeId,
    /// The stack of the forward that made it; 0 if there was no Python. It may refer to another
    /// node.
    pub forward: StackId,
    /// The Python stack of the thread that ran it; 0 if there was none.
    pub own: StackId,
    /// The number of its newest frames that are newer than the node's run.
    pub newer: usize,
    /// Whether the record of its forward was lost.
    pub lost: bool,
}

serialize! {
    Backward { node, forward, own, newer, lost }
}
