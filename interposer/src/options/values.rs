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
    /// In unnamed memory.
    Memfd,
    /// In the capture itself.
    File,
    /// In a file in this folder, which is in memory.
    Folder(OsString),
}

/// The options in force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Pattern of the capture's path.
    pub(crate) output: Option<OsString>,
    /// Whether the line at exit is omitted.
    pub(crate) quiet: bool,
    /// Whether failed allocations are reported at once; `None`: unless `quiet` is set.
    pub(crate) postmortem: Option<bool>,
    /// Whether to find who keeps the largest blocks when PyTorch's allocator fails.
    pub(crate) holders: bool,
    /// Also at peaks of tensors above these bytes.
    pub(crate) holders_above: Option<u64>,
    /// Which stacks are captured.
    pub(crate) stacks: Stacks,
    /// Mean distance in allocated bytes of the tensors whose stacks are captured; `None`: all.
    pub(crate) stack_sample: Option<NonZeroU64>,
    /// Whether PyTorch's backward is charged to forward lines, and phases and steps are recorded.
    pub(crate) backward: bool,
    /// Whether releases carry a Python stack too.
    pub(crate) free_stacks: bool,
    /// Where the ring is kept.
    pub(crate) ring: Ring,
    /// Slots of the ring.
    pub(crate) ring_slots: u32,
    /// The percentage of used memory of a card that causes a warning; `None`: never.
    pub(crate) warn_at: Option<u64>,
    /// How often NVML is read; `None`: only at certain events.
    pub(crate) sample_every: Option<Duration>,
    /// The fixed size of the file in bytes; `None`: it grows.
    pub(crate) bounded: Option<u64>,
    /// The rank's position in the job's parallelism.
    pub(crate) coordinates: Option<Coordinates>,
    /// The installed packages whose code is the user's own.
    pub(crate) code: Option<String>,
    /// The list that the capture's path is added to.
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
            holders: true,
            holders_above: None,
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
            code: None,
            list: None,
            holder: None,
        }
    }
}
