//! What is true of a failure, and how it is known.

use gpumem_replay::attribution::Owner;

kinds! {
    /// How a verdict is known.
    Certainty {
        /// A replay of the allocator, or a walk through the program's objects, shows it.
        Proven = "proven",
        /// It follows from the recorded events.
        Follows = "follows",
        /// The events fit, and would also fit something else.
        Likely = "likely",
    }
}

kinds! {
    /// The kind of a cause.
    Kind {
        /// The request alone is larger than the card, or than its limit.
        TooLarge = "too_large",
        /// Other processes hold at least as much of the card as this one, and the request would fit without them.
        OtherProcesses = "other_processes",
        /// The driver refused the request although the card had enough free memory.
        NotMemory = "not_memory",
        /// The framework refused because of a limit in the framework, without a call to the driver.
        OwnLimit = "own_limit",
        /// Memory of this process outside of the framework is a large part.
        OtherLibrary = "other_library",
        /// An exception keeps the frames of a call that failed, and what their variables hold.
        Exception = "exception",
        /// Reference cycles, which only the collector frees.
        Cycle = "reference_cycle",
        /// One object of the program, such as a list, keeps a large part.
        Held = "held",
        /// Autograd graphs of earlier rounds are kept; these rounds run a backward.
        KeptGraphs = "kept_graphs",
        /// Graphs of earlier rounds are kept, and no backward has used them.
        NoBackward = "no_backward",
        /// Graphs of earlier rounds of this loop wait for a backward that comes after the loop.
        Waiting = "waiting_for_backward",
        /// Tensors of earlier rounds are kept.
        KeptTensors = "kept_tensors",
        /// Memory of the round before is still live.
        PreviousRound = "previous_round",
        /// Models of earlier rounds, with their optimizer state, are still live.
        EarlierModels = "earlier_models",
        /// A tensor becomes larger with each round.
        Lengthened = "lengthened",
        /// Free memory of the framework's pool belongs to other streams.
        OtherStreams = "other_streams",
        /// Free memory of the framework's pool belongs to private pools.
        PrivatePools = "private_pools",
        /// Free memory of the pool would be enough, but no block of it is.
        Fragmentation = "fragmentation",
        /// The framework holds free memory, which a request outside of it cannot use.
        Cached = "cached",
        /// The request is much larger than earlier ones of its line.
        LargeRequest = "large_request",
        /// Lines hold memory that earlier rounds did not need.
        New = "new",
        /// Several tensors have the request's size, or half of it.
        Alike = "alike",
        /// Optimizer state is the largest part, or its first step made the request.
        OptimizerState = "optimizer_state",
        /// Workspaces of cuBLAS are the largest part.
        Workspaces = "workspaces",
        /// Tensors that a forward keeps for its backward are the largest part.
        Activations = "activations",
        /// Parameters and buffers are the largest part.
        Model = "model",
        /// Lines hold equal amounts outside of forwards.
        Copies = "copies",
        /// The largest part is none of these.
        Largest = "largest",
        /// The system refused pinned host memory.
        Host = "host",
        /// The capture does not show it.
        Unknown = "unknown",
    }
}

/// The cause of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it is.
    pub kind: Kind,
    /// How it is known.
    pub certainty: Certainty,
    /// The bytes that it is about.
    pub bytes: u64,
    /// The blocks that it is about; 0 if it is not about blocks.
    pub blocks: u64,
    /// Who keeps the memory that it is about: indices in [`crate::Holders::all`], the one that keeps most first.
    pub holders: Vec<usize>,
    /// The line that it is about.
    pub line: Option<Owner>,
    /// The index of the loop in [`crate::Facts::kept`], for memory of earlier rounds.
    pub(crate) of_loop: Option<usize>,
}
