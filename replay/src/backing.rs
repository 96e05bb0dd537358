//! How the card stands behind what was asked for.

use gpumem_capture::EventFlags;

/// How a driver block is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// By pages of its own.
    Pages,
    /// It is a handle of virtual memory management.
    Handle,
    /// It is of a pool of CUDA's.
    Pool,
    /// It is a graph's.
    Graph,
    /// Managed memory: by pages of the card or of the host.
    Unknown,
}

impl Backing {
    /// By a block's flags.
    pub fn of(flags: EventFlags) -> Self {
        [
            (EventFlags::MANAGED, Self::Unknown),
            (EventFlags::VMM_HANDLE, Self::Handle),
            (EventFlags::GRAPH, Self::Graph),
            (EventFlags::STREAM_ORDERED, Self::Pool),
        ]
        .into_iter()
        .find(|(flag, _)| flags.contains(*flag))
        .map_or(Self::Pages, |(_, backing)| backing)
    }
}
