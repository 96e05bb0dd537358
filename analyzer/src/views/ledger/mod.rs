//! The parts of a device's memory at a point in time. They sum to NVML's figure.

mod asked;
mod backing;
mod categories;
mod moment;
mod names;
mod parts;
mod place;
mod pool;
mod pool_now;
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
pub use place::Place;
pub use pool::{Pool, PoolLine, Segment, SegmentLine};
pub(super) use pool_now::pool_now;

/// What a part of a device's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Tensors live.
    Tensors,
    /// What PyTorch's pool holds beyond them.
    Cached,
    /// Driver memory that a library allocated itself.
    Library,
    /// Memory nodes of CUDA graphs, live.
    Graph,
    /// What stands behind graphs beyond that.
    GraphUnused,
    /// What CUDA's own pools hold beyond what is live in them.
    Pool,
    /// What whole pages take beyond the requested bytes.
    Rounding,
    /// Contexts.
    Context,
    /// Streams of contexts.
    Streams,
    /// Kernels that were loaded.
    Module,
    /// Managed memory, as far as it can explain what NVML saw.
    Managed,
    /// Other processes.
    OtherProcesses,
    /// Reserved by the driver.
    DriverReserved,
    /// On the card, and of no process that NVML names.
    NoProcess,
    /// What nothing explains.
    Unexplained,
    /// All that one library holds: with `--by owner`.
    Owner,
    /// All that one line led to: with `--by line`.
    Line,
}

/// One part of a device's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerRow {
    /// What it is.
    pub kind: Kind,
    /// The part as people read it.
    pub name: String,
    /// Bytes; only what is left over between figures can be negative.
    pub bytes: i64,
    /// The library that it belongs to, if it is one's.
    pub library: Option<String>,
    /// The line that holds most of it.
    #[serde(flatten)]
    pub place: Place,
    /// The same.
    #[serde(skip)]
    pub owner: Option<Owner>,
    /// Further details.
    #[serde(skip)]
    pub detail: Option<String>,
}

/// Workspaces of cuBLAS, which PyTorch takes from its own pool: a part of the tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workspaces {
    /// Bytes.
    pub bytes: u64,
    /// How many.
    pub blocks: u64,
    /// The line that holds most of them.
    #[serde(flatten)]
    pub place: Place,
    /// The same.
    #[serde(skip)]
    pub owner: Owner,
}

/// A change of what is unexplained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JumpRow {
    /// The earlier reading of NVML.
    pub from_ns: u64,
    /// The later one, at which the change was seen.
    pub time_ns: u64,
    /// Which event that is.
    pub seq: u64,
    /// By how much.
    pub bytes: i64,
    /// The line of the device's event nearest before.
    #[serde(flatten)]
    pub place: Place,
    /// The same.
    #[serde(skip)]
    pub owner: Option<Owner>,
}

/// The reading of NVML that a ledger uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadingRow {
    /// Which event.
    pub seq: u64,
    /// When.
    pub time_ns: u64,
    /// The physical level at that moment.
    pub physical_bytes: u64,
    /// Whether memory moved while it was read, or a figure was worked out from others.
    pub estimated: bool,
}

/// A device's memory at a moment. The rows sum to `bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ledger {
    /// Ordinal.
    pub device: u8,
    /// The event of the moment.
    pub seq: Option<u64>,
    /// Its time, ns since the capture was opened.
    pub time_ns: Option<u64>,
    /// What the program was at.
    #[serde(flatten)]
    pub when: When,
    /// All rows: NVML's used figure of the card at the moment, if NVML was read.
    pub bytes: u64,
    /// Memory of the card.
    pub total_bytes: Option<u64>,
    /// The parts.
    pub rows: Vec<LedgerRow>,
    /// The driver level then: what programs asked CUDA for.
    pub driver_bytes: u64,
    /// The driver level's own peak, which may come later: a pool keeps unused memory.
    pub driver_peak_bytes: u64,
    /// The physical level then: what the card gave; `None`: not recorded.
    pub physical_bytes: Option<u64>,
    /// Pinned host memory then; not part of the sum, because it is not on the card.
    pub host_bytes: u64,
    /// Managed memory then, wherever it resided.
    pub managed_bytes: u64,
    /// Memory that this process can reach and others own (IPC, imports); not part of the sum.
    pub alias_bytes: u64,
    /// NVML's figure of this process, when it was read.
    pub nvml_process_bytes: Option<u64>,
    /// NVML's used figure of the card, when it was read.
    pub nvml_used_bytes: Option<u64>,
    /// NVML's figures of all other processes.
    pub other_processes_bytes: Option<u64>,
    /// What the driver reserves, by NVML.
    pub driver_reserved_bytes: Option<u64>,
    /// NVML's figure of this process less everything accounted for; `None`: not measured.
    pub unexplained_bytes: Option<i64>,
    /// The reading that these come from.
    pub reading: Option<ReadingRow>,
    /// The time of the later reading that contexts and code are as of; `None`: they are as of the moment.
    pub contexts_and_code_ns: Option<u64>,
    /// PyTorch's pool; `None`: there was none.
    pub pool: Option<Pool>,
    /// Workspaces of cuBLAS among the tensors; `None`: there were none.
    pub workspaces: Option<Workspaces>,
    /// What the tensors are for, the largest first; empty where that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
    /// The largest changes of what is unexplained, over the whole run, largest first.
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

    /// The point in time.
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
