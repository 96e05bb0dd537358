//! What is true of a failure, and how it is known.

use gpumem_replay::attribution::Owner;

/// How a verdict is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// A replay of the allocator, or a walk through the program's objects, shows it.
    Proven,
    /// It follows from the recorded events.
    Follows,
    /// The events fit, and would also fit something else.
    Likely,
}

impl Certainty {
    /// Its name in output for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Follows => "follows",
            Self::Likely => "likely",
        }
    }
}

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The request alone is larger than the card, or than its limit.
    TooLarge,
    /// Other processes hold at least as much of the card as this one, and the request would fit without them.
    OtherProcesses,
    /// The driver refused the request although the card had enough free memory.
    NotMemory,
    /// The framework refused because of a limit in the framework, without a call to the driver.
    OwnLimit,
    /// Memory of this process outside of the framework is a large part.
    OtherLibrary,
    /// An exception keeps the frames of a call that failed, and what their variables hold.
    Exception,
    /// Reference cycles, which only the collector frees.
    Cycle,
    /// One object of the program, such as a list, keeps a large part.
    Held,
    /// Autograd graphs of earlier rounds are kept; these rounds run a backward.
    KeptGraphs,
    /// Graphs of earlier rounds are kept, and no backward has used them.
    NoBackward,
    /// Graphs of earlier rounds of this loop wait for a backward that comes after the loop.
    Waiting,
    /// Tensors of earlier rounds are kept.
    KeptTensors,
    /// Memory of the round before is still live.
    PreviousRound,
    /// Models of earlier rounds, with their optimizer state, are still live.
    EarlierModels,
    /// A tensor becomes larger with each round.
    Lengthened,
    /// Free memory of the framework's pool belongs to other streams.
    OtherStreams,
    /// Free memory of the framework's pool belongs to private pools.
    PrivatePools,
    /// Free memory of the pool would be enough, but no block of it is.
    Fragmentation,
    /// The framework holds free memory, which a request outside of it cannot use.
    Cached,
    /// The request is much larger than earlier ones of its line.
    LargeRequest,
    /// Lines hold memory that earlier rounds did not need.
    New,
    /// Several tensors have the request's size, or half of it.
    Alike,
    /// Optimizer state is the largest part, or its first step made the request.
    OptimizerState,
    /// Workspaces of cuBLAS are the largest part.
    Workspaces,
    /// Tensors that a forward keeps for its backward are the largest part.
    Activations,
    /// Parameters and buffers are the largest part.
    Model,
    /// Lines hold equal amounts outside of forwards.
    Copies,
    /// The largest part is none of these.
    Largest,
    /// The system refused pinned host memory.
    Host,
    /// The capture does not show it.
    Unknown,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 30] = [
        Self::TooLarge,
        Self::OtherProcesses,
        Self::NotMemory,
        Self::OwnLimit,
        Self::OtherLibrary,
        Self::Exception,
        Self::Cycle,
        Self::Held,
        Self::KeptGraphs,
        Self::NoBackward,
        Self::Waiting,
        Self::KeptTensors,
        Self::PreviousRound,
        Self::EarlierModels,
        Self::Lengthened,
        Self::OtherStreams,
        Self::PrivatePools,
        Self::Fragmentation,
        Self::Cached,
        Self::LargeRequest,
        Self::New,
        Self::Alike,
        Self::OptimizerState,
        Self::Workspaces,
        Self::Activations,
        Self::Model,
        Self::Copies,
        Self::Largest,
        Self::Host,
        Self::Unknown,
    ];

    /// Its name in output for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::OtherProcesses => "other_processes",
            Self::NotMemory => "not_memory",
            Self::OwnLimit => "own_limit",
            Self::OtherLibrary => "other_library",
            Self::Exception => "exception",
            Self::Cycle => "reference_cycle",
            Self::Held => "held",
            Self::KeptGraphs => "kept_graphs",
            Self::NoBackward => "no_backward",
            Self::Waiting => "waiting_for_backward",
            Self::KeptTensors => "kept_tensors",
            Self::PreviousRound => "previous_round",
            Self::EarlierModels => "earlier_models",
            Self::Lengthened => "lengthened",
            Self::OtherStreams => "other_streams",
            Self::PrivatePools => "private_pools",
            Self::Fragmentation => "fragmentation",
            Self::Cached => "cached",
            Self::LargeRequest => "large_request",
            Self::New => "new",
            Self::Alike => "alike",
            Self::OptimizerState => "optimizer_state",
            Self::Workspaces => "workspaces",
            Self::Activations => "activations",
            Self::Model => "model",
            Self::Copies => "copies",
            Self::Largest => "largest",
            Self::Host => "host",
            Self::Unknown => "unknown",
        }
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
