//! The options in force.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::time::Duration;

use gpumem_capture::Coordinates;
use gpumem_stacks::Stacks;

/// Where the ring is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// In a file in memory, in /dev/shm or $XDG_RUNTIME_DIR.
    Memory,
    /// In memory without a name.
    Memfd,
    /// In the capture itself.
    File,
    /// In a file in this folder, which lies in memory.
    Folder(OsString),
}

/// The options in force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Pattern of the capture's path.
    pub(crate) output: Option<OsString>,
    /// Whether the line at exit is left out.
    pub(crate) quiet: bool,
    /// Whether allocations that fail are told of at once; `None`: unless it is to be quiet.
    pub(crate) postmortem: Option<bool>,
    /// Which stacks are taken.
    pub(crate) stacks: Stacks,
    /// Mean distance in allocated bytes of those tensors whose stacks are taken; `None`: all are.
    pub(crate) stack_sample: Option<NonZeroU64>,
    /// Whether PyTorch's backward is charged to forward lines, and phases and steps are told.
    pub(crate) backward: bool,
    /// Whether releases carry a Python stack too.
    pub(crate) free_stacks: bool,
    /// Where the ring is kept.
    pub(crate) ring: Ring,
    /// Slots of the ring.
    pub(crate) ring_slots: u32,
    /// From how many percent of a card in use on that is told of; `None`: never.
    pub(crate) warn_at: Option<u64>,
    /// How often NVML is read; `None`: only when something happens.
    pub(crate) sample_every: Option<Duration>,
    /// Bytes of the file for all time; `None`: it grows.
    pub(crate) bounded: Option<u64>,
    /// Where the rank stands in the job's parallelism.
    pub(crate) coordinates: Option<Coordinates>,
    /// Where the capture's path is added to.
    pub(crate) list: Option<OsString>,
    /// The socket that the ring is passed to.
    pub(crate) holder: Option<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            output: None,
            quiet: false,
            postmortem: None,
            stacks: Stacks::Mixed,
            stack_sample: None,
            backward: true,
            free_stacks: false,
            ring: Ring::Memory,
            ring_slots: 65_536,
            warn_at: None,
            sample_every: Some(Duration::from_millis(100)),
            bounded: None,
            coordinates: None,
            list: None,
            holder: None,
        }
    }
}
