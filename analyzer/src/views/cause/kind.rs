//! The kinds of causes.

use schemars::JsonSchema;
use serde::Serialize;

/// What kind of cause it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The request is larger than the card, or than its limit.
    TooLarge,
    /// Other processes hold what is missing.
    OtherProcesses,
    /// Enough was free in one piece, and the driver refused.
    NotMemory,
    /// Graphs of a training are kept from round to round.
    KeptGraphs,
    /// Graphs are kept that no backward uses.
    NoGrad,
    /// Tensors are kept from round to round.
    KeptTensors,
    /// A tensor is replaced by a larger one again and again.
    Lengthened,
    /// A limit that the framework was given.
    OwnLimit,
    /// There was enough, but not in one piece.
    Fragmentation,
    /// A call outside the framework's cache had no memory, and the cache had some that no tensor used.
    Cached,
    /// The first step of an optimizer allocates its state.
    OptimizerState,
    /// Workspaces of cuBLAS.
    Workspaces,
    /// What one forward keeps for its backward.
    Activations,
    /// Parameters and buffers of modules.
    Model,
    /// One line holds most.
    Largest,
    /// Pinned memory is the host's.
    Host,
    /// Too little is known.
    Unknown,
}
