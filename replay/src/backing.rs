//! The physical memory behind a driver block.

use gpumem_capture::EventFlags;

/// How a driver block is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Its own pages.
    Pages,
    /// A handle of virtual memory management.
    Handle,
    /// A CUDA memory pool.
    Pool,
    /// A graph.
    Graph,
    /// Managed memory: pages of the card or of the host.
    Unknown,
}

impl Backing {
    /// Reads the backing from a block's flags.
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
