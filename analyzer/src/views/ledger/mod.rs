//! The parts of a device's memory at a point in time. They sum to NVML's figure.

mod asked;
mod backing;
mod categories;
mod moment;
mod names;
mod parts;
mod place;
mod pool;
mod rows;
mod tensors;
#[cfg(test)]
mod tests;

use gpumem_capture::{Nanos, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use crate::account::When;
use crate::attribution::Owner;
use crate::replay::Reading;
use crate::views::CategoryBytes;

pub use asked::{Asked, By, LedgerAt};
pub use moment::LedgerWatch;
pub use place::Place;
pub use pool::{Pool, PoolLine, Segment, SegmentLine};

/// Part of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Live tensors. If PyTorch does not use its pool: the memory that it requested from CUDA for them.
    Tensors,
    /// Memory that PyTorch's pool has reserved, minus the live tensors.
    Cached,
    /// Memory that a library requested from the driver; without a `library`, the caller is not known.
    Library,
    /// Live memory of the nodes of CUDA graphs.
    Graph,
    /// Memory reserved for CUDA graphs, minus the live memory of their nodes.
    GraphUnused,
    /// Memory reserved by CUDA's own memory pools, minus the live memory in them.
    Pool,
    /// Physical memory minus the requested bytes in it: the rounding up to whole pages.
    Rounding,
    /// A CUDA context with its limits; one row per context.
    Context,
    /// Streams of all contexts.
    Streams,
    /// Loaded modules and libraries, that is kernels and their data.
    Module,
    /// Part of the bytes that are otherwise unexplained that managed memory can explain, at most its size. Its
    /// location is not known.
    Managed,
    /// Memory of other processes, by NVML.
    OtherProcesses,
    /// Memory that the driver reserves for itself, by NVML.
    DriverReserved,
    /// Memory in use on the GPU that NVML attributes to no process and not to the driver.
    NoProcess,
    /// NVML's figure of this process, minus the explained bytes.
    Unexplained,
    /// With `--by owner`: all memory of one library, except contexts.
    Owner,
    /// With `--by line`: all memory that one line led to.
    Line,
}

/// One part of a device's memory at the point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerRow {
    /// What the memory is.
    pub kind: Kind,
    /// Label of the row in the text output.
    pub name: String,
    /// Bytes of the part. Negative only for differences of two figures, such as `unexplained` and `rounding`.
    pub bytes: i64,
    /// Library that the memory belongs to, for the kinds `library`, `owner`, `module`, `context` (its creator) and
    /// `line` (without a Python line). `None` for other kinds, or if not known.
    pub library: Option<String>,
    /// The line that led to most of the memory, or the line of a row of `--by line`.
    #[serde(flatten)]
    pub place: Place,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Option<Owner>,
    /// Further details for the text output.
    #[serde(skip)]
    pub detail: Option<String>,
}

/// Workspaces of cuBLAS in PyTorch's pool. They are part of the tensors, not a separate row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workspaces {
    /// Bytes of the workspaces that are live at the point in time.
    pub bytes: u64,
    /// Number of the workspaces that are live at the point in time.
    pub blocks: u64,
    /// The line that led to most of the bytes.
    #[serde(flatten)]
    pub place: Place,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Owner,
}

/// A change of the unexplained bytes from one reading of NVML to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JumpRow {
    /// Time of the earlier reading, in nanoseconds since the capture was opened; 0 if the change is that of the first
    /// reading.
    pub from_ns: u64,
    /// Time of the later reading, in nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Event number of the later reading.
    pub seq: u64,
    /// Change of the unexplained bytes; negative: they decreased.
    pub bytes: i64,
    /// The line of the last event on the device before the later reading that has a stack.
    #[serde(flatten)]
    pub place: Place,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Option<Owner>,
}

/// The reading of NVML that a ledger uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadingRow {
    /// Event number of the reading.
    pub seq: u64,
    /// Time of the reading, in nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Live bytes of the physical level when NVML was read.
    pub physical_bytes: u64,
    /// Whether memory changed during the reading, or a figure was computed from other figures.
    pub estimated: bool,
}

/// Memory of one GPU at a point in time, by default the GPU's peak. The rows sum to `bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ledger {
    /// Ordinal of the GPU.
    pub device: u8,
    /// Number of the event at the point in time. The figures are those just after this event.
    pub seq: Option<u64>,
    /// The point in time, in nanoseconds since the capture was opened.
    pub time_ns: Option<u64>,
    /// Step, phase and range at the point in time; all `None` at the end of the capture.
    #[serde(flatten)]
    pub when: When,
    /// Sum of all rows. If NVML was read: its used figure of the GPU, adjusted by the known changes between the
    /// reading and the point in time.
    pub bytes: u64,
    /// Total memory of the GPU in bytes; `None`: not known.
    pub total_bytes: Option<u64>,
    /// The parts of the memory, in the order of the text output.
    pub rows: Vec<LedgerRow>,
    /// Live bytes of the driver level at the point in time: device memory that the process requested from CUDA,
    /// managed memory included.
    pub driver_bytes: u64,
    /// Peak in bytes of the driver level over the whole run. It can be at another point in time, because a pool keeps
    /// unused memory.
    pub driver_peak_bytes: u64,
    /// Physical memory of the process in bytes at the point in time; `None`: the capture does not have the physical
    /// level.
    pub physical_bytes: Option<u64>,
    /// Live bytes of pinned host memory of this GPU at the point in time. They are not on the GPU and not in `bytes`.
    pub host_bytes: u64,
    /// Live bytes of managed memory at the point in time, on the host and on the GPU.
    pub managed_bytes: u64,
    /// Bytes of aliases at the point in time: memory of another process or API that this process can access (IPC,
    /// imports). Not in `bytes`.
    pub alias_bytes: u64,
    /// NVML's figure of this process in bytes, as read; `None`: NVML was not read or does not report it.
    pub nvml_process_bytes: Option<u64>,
    /// NVML's figure of the used memory of the GPU in bytes, as read; `None`: NVML was not read.
    pub nvml_used_bytes: Option<u64>,
    /// NVML's figure of all other processes in bytes, as read; `None`: NVML was not read or does not report it.
    pub other_processes_bytes: Option<u64>,
    /// Bytes that the driver reserves for itself by NVML, as read; `None`: NVML was not read or does not report it.
    pub driver_reserved_bytes: Option<u64>,
    /// NVML's figure of this process, minus the physical level and the bytes that managed memory can explain. If NVML
    /// does not report that figure: the used memory of the GPU minus that of the driver and of other processes.
    /// Negative: more is explained than NVML shows; `None`: not measured.
    pub unexplained_bytes: Option<i64>,
    /// The reading of NVML that these figures come from; `None`: NVML was not read.
    pub reading: Option<ReadingRow>,
    /// Time of the later reading from which the bytes of contexts and modules are taken, in nanoseconds since the
    /// capture was opened; `None`: they are those of the point in time.
    pub contexts_and_code_ns: Option<u64>,
    /// PyTorch's pool at the point in time; `None`: the capture has no tensors of a pool on this GPU.
    pub pool: Option<Pool>,
    /// Workspaces of cuBLAS among the tensors; `None`: the tensors have no workspaces.
    pub workspaces: Option<Workspaces>,
    /// Bytes of the tensors by category, the largest first; absent if the categories at the point in time are not
    /// known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
    /// The up to 16 largest changes of the unexplained bytes over the whole run, the largest first; empty if no change
    /// was measured.
    pub jumps: Vec<JumpRow>,
    /// The requested point in time.
    #[serde(skip)]
    pub at: LedgerAt,
}

impl Ledger {
    /// The categories of its tensors; empty if no specific category is known.
    pub fn categories_told_apart(&self) -> &[CategoryBytes] {
        let mut all = self.categories.iter();
        match all.any(|of| of.category.is_specific()) {
            true => &self.categories,
            false => &[],
        }
    }

    /// Event and time of the point in time.
    pub fn moment(&self) -> Option<(Seq, Nanos)> {
        Some((Seq(self.seq?), Nanos(self.time_ns?)))
    }
}

impl From<Reading> for ReadingRow {
    fn from(reading: Reading) -> Self {
        Self {
            seq: reading.seq.0,
            time_ns: reading.time.0,
            physical_bytes: reading.physical,
            estimated: reading.estimated,
        }
    }
}
