//! The kinds of causes of failed allocations.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of cause of a failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The request alone is larger than the card, or than its limit.
    TooLarge,
    /// Other processes hold at least as much of the card as this one, and the request would fit without them.
    OtherProcesses,
    /// The driver refused the request although the card had enough free memory, for example because of a limit of the
    /// process.
    NotMemory,
    /// Autograd graphs are kept from round to round of a loop in which more than half of the rounds run a backward.
    KeptGraphs,
    /// Autograd graphs are kept from round to round of a loop in which at most half of the rounds run a backward.
    NoGrad,
    /// A line keeps more tensors after each round of its loop.
    KeptTensors,
    /// The tensors of a line become larger with each round, while their number stays constant, as with `torch.cat`.
    Lengthened,
    /// The framework refused the request because of its memory limit, without a call to the driver; the card had
    /// enough free memory.
    OwnLimit,
    /// The free memory would be enough as one block, and at least 25 % of PyTorch's reserved memory is unallocated.
    Fragmentation,
    /// The driver refused memory for kernel code or a call without a size, which cannot use PyTorch's cache, and at
    /// least 25 % of PyTorch's reserved memory is unallocated.
    Cached,
    /// The largest part of the live memory is optimizer state, or an optimizer's first step made the request.
    OptimizerState,
    /// Workspaces of cuBLAS are the largest part of the live memory, or a large one was requested.
    Workspaces,
    /// Nothing grows, and tensors that forward allocated are the largest part of the live memory.
    Activations,
    /// Nothing grows, and parameters and buffers of modules are the largest part of the live memory.
    Model,
    /// Nothing grows, and the largest part of the live memory is none of the parts above. The line that owns the most
    /// of it is shown.
    Largest,
    /// The request was for pinned host memory, which the system refused.
    Host,
    /// The capture does not show what held the memory.
    Unknown,
}
