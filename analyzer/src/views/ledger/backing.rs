//! How the card stands behind what was asked for.

use gpumem_capture::EventFlags;

/// How a driver block is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    Pages,
    Handle,
    Pool,
    Graph,
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

/// Bytes by how they are backed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backed {
    pub pages: u64,
    pub handles: u64,
    pub pools: u64,
    pub graphs: u64,
}

impl Backed {
    /// All of it.
    pub fn sum(self) -> u64 {
        self.pages + self.handles + self.pools + self.graphs
    }
}
