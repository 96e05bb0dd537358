//! The input of the model.

use crate::version::Version;

/// The figure of a range to take where NCCL's choice is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// As little as NCCL may take.
    Low,
    /// What it probably takes.
    #[default]
    Likely,
    /// As much as it may take.
    High,
}

impl Level {
    /// The figure.
    pub(crate) fn of<T>(self, low: T, likely: T, high: T) -> T {
        match self {
            Self::Low => low,
            Self::Likely => likely,
            Self::High => high,
        }
    }
}

/// Sizes of a connection's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// NCCL_LL_BUFFSIZE: 8 lines × 512 threads × 8 steps × 16 bytes.
    pub ll: u64,
    /// NCCL_LL128_BUFFSIZE: 120 × 640 × 8 × 8 bytes.
    pub ll128: u64,
    /// NCCL_BUFFSIZE.
    pub simple: u64,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            ll: 524_288,
            ll128: 4_915_200,
            simple: 4_194_304,
        }
    }
}

/// Sizes of the pieces into which send and receive divide messages.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// NCCL_P2P_NVL_CHUNKSIZE: if NVLink connects all ranks, and for a single rank.
    pub nvlink: u64,
    /// NCCL_P2P_PCI_CHUNKSIZE: on any other node.
    pub pci: u64,
    /// NCCL_P2P_NET_CHUNKSIZE: for several nodes.
    pub network: u64,
}

impl Default for Chunks {
    fn default() -> Self {
        Self {
            nvlink: 1 << 19,
            pci: 1 << 17,
            network: 1 << 17,
        }
    }
}

/// Limits on channels that a program may set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// NCCL_MIN_CTAS, NCCL_MIN_NCHANNELS, `config.minCTAs`.
    pub least: Option<u64>,
    /// NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS, `config.maxCTAs`.
    pub most: Option<u64>,
    /// NCCL_MIN_P2P_NCHANNELS.
    pub least_p2p: Option<u64>,
    /// NCCL_MAX_P2P_NCHANNELS.
    pub most_p2p: Option<u64>,
    /// NCCL_NCHANNELS_PER_PEER, or NCCL_NCHANNELS_PER_NET_PEER and its configuration on several nodes.
    pub per_peer: Option<u64>,
    /// NCCL_NVLS_NCHANNELS, `config.nvlsCTAs`.
    pub nvls: Option<u64>,
}

/// One communicator on one machine.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// NCCL's version.
    pub version: Version,
    /// Ranks.
    pub world: u64,
    /// Ranks on this node.
    pub local: u64,
    /// Compute capability, ten times.
    pub capability: u32,
    /// Whether the node's GPUs are joined by an NVSwitch.
    pub nvswitch: bool,
    /// Whether GPUs of a node access each other's memory. If not, data goes through host memory.
    pub peers: bool,
    /// Whether network cards read and write device memory (GPUDirect RDMA).
    pub direct: bool,
    /// Whether device memory comes from `cuMemCreate`.
    pub cumem: bool,
    /// Whether connections are made at their first use.
    pub late: bool,
    /// Whether NVLS may be used (NCCL_NVLS_ENABLE).
    pub nvls: bool,
    /// NCCL_NVLS_CHUNKSIZE.
    pub nvls_chunk: u64,
    /// Channels of collectives, if they are known (NCCL_DEBUG=INFO prints them).
    pub channels: Option<u64>,
    /// Limits that the program sets.
    pub limits: Limits,
    /// Sizes of buffers.
    pub buffers: Buffers,
    /// Sizes of pieces.
    pub chunks: Chunks,
    /// The figure of a range to take.
    pub level: Level,
    /// Whether it shares its parent's peers and buffers (`ncclCommSplit` with `splitShare`).
    pub shares: bool,
}

impl Setup {
    /// A communicator with NCCL's defaults, on a node with these GPUs.
    pub fn new(version: Version, world: u64, local: u64, capability: u32, nvswitch: bool) -> Self {
        let cumem = version.uses_cumem(None, 12_000);
        Self {
            version,
            world: world.max(1),
            local: local.clamp(1, world.max(1)),
            capability,
            nvswitch,
            peers: true,
            direct: true,
            cumem,
            late: version.connects_late(cumem, None),
            nvls: true,
            nvls_chunk: 131_072,
            channels: None,
            limits: Limits::default(),
            buffers: Buffers::default(),
            chunks: Chunks::default(),
            level: Level::Likely,
            shares: false,
        }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u64 {
        self.world.div_ceil(self.local.max(1))
    }
}
