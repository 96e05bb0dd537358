//! A hint, and the least number of bytes for one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::Owner;
use crate::views::ledger::Place;

/// The least number of bytes for a hint, in percent of the device's peak.
pub const NOTABLE: u64 = 5;

/// The condition that a hint reports. It determines the meaning of the hint's `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    /// An allocation failed because memory ran out. `bytes`: the `bytes` of its cause.
    OutOfMemory,
    /// Optimizer state is live at the peak. `bytes`: that state.
    OptimizerState,
    /// Results of relu, leaky_relu, elu, celu or selu are live at the peak together with their inputs. `bytes`: the
    /// results.
    NotInPlace,
    /// Autograd created nodes, but the program never trains. `bytes`: live at the peak and allocated within a
    /// function named `forward`.
    NoGrad,
    /// In a program that trains, at least three tensors that forward had allocated were freed one after the other,
    /// with no backward since their allocation. `bytes`: the most that was freed together in this way.
    NoBackward,
    /// Lines within functions named `forward` hold more after each group of steps, or of rounds of a loop without
    /// steps, in a program whose autograd created nodes, with gradients on. `bytes`: live after the last step or round
    /// less those after the first.
    KeptGraphs,
    /// Other lines hold more after each group of steps or rounds. `bytes`: as for `kept_graphs`.
    Growing,
    /// Workspaces of cuBLAS are live at the peak. `bytes`: the workspaces.
    Workspaces,
    /// Blocks that were live at the peak were freed within 16 events of their allocation, and the largest such blocks
    /// of the same calls differ at least twofold between steps. `bytes`: the blocks at the peak.
    Spikes,
    /// At least 10 % of the reserved memory of PyTorch's pool was unallocated at the peak. `bytes`: the unallocated
    /// memory.
    CachedUnused,
    /// The driver refused a request of PyTorch's allocator, and the request succeeded after the allocator had freed
    /// its cache. `bytes`: as for `cache_emptied`; 0 if it would be too little for that hint.
    Retries,
    /// PyTorch's pool returned memory to the driver and allocated it again. `bytes`: allocated again, over the whole
    /// run.
    CacheEmptied,
    /// The peaks of the GPUs differ by at least 20 % of the largest peak. `bytes`: the largest peak less the
    /// smallest.
    Imbalance,
    /// Other processes held at least 5 % of the card at the peak. `bytes`: their memory, by NVML.
    OtherProcesses,
}

/// A line that owns a part of a hint's bytes, or the holder of such memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The line.
    #[serde(flatten)]
    pub place: Place,
    /// The part of the hint's bytes that this line allocated. In `holder`: the line's live bytes after the last step.
    pub bytes: u64,
    /// Number of blocks that these bytes are in.
    pub blocks: u64,
    /// The owner that `place` was made from.
    #[serde(skip)]
    pub owner: Owner,
}

/// A way to use less memory, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hint {
    /// The condition that the hint reports.
    pub kind: HintKind,
    /// Ordinal of the GPU that the hint is about. With `imbalance`: the GPU with the largest peak. With
    /// `out_of_memory`: the device of the cause.
    pub device: u8,
    /// Bytes that the hint is about; `kind` determines which ones.
    pub bytes: u64,
    /// The observation with its figures, as text.
    pub what: String,
    /// The recommended change, as text.
    pub advice: String,
    /// Lines that own most of the bytes, the largest first, at most five. Empty if the kind of hint has no lines.
    pub lines: Vec<Evidence>,
    /// The line whose tensor probably keeps the memory of `lines` live, with the line's own memory. Only with
    /// `kept_graphs`; absent if no such line was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Evidence>,
}

/// Whether `part` is above 0 and at least `percent` percent of `of`.
pub(super) fn is_notable(part: u64, of: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}
