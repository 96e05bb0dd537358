//! A hint, and the least size of memory for one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::Owner;
use crate::views::ledger::Place;

/// The least percentage of a device's peak for a hint.
pub const NOTABLE: u64 = 5;

/// What a hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    /// Why the program ran out of memory.
    OutOfMemory,
    /// State that an optimizer allocated and keeps.
    OptimizerState,
    /// Activation functions whose results are live together with their inputs.
    NotInPlace,
    /// Autograd's graph was built, and never used.
    NoGrad,
    /// A graph was built in a program that trains, and no backward came for it.
    NoBackward,
    /// What forwards allocated stays from step to step, and more of it each time.
    KeptGraphs,
    /// Other lines that hold more after each step.
    Growing,
    /// Workspaces of cuBLAS.
    Workspaces,
    /// Short-lived blocks whose size changes.
    Spikes,
    /// Memory that PyTorch's pool held free at the peak.
    CachedUnused,
    /// The driver refused a request, and it succeeded after PyTorch's allocator had freed its cache.
    Retries,
    /// PyTorch's pool gave memory back and took it again.
    CacheEmptied,
    /// Devices that held unequally much.
    Imbalance,
    /// Other processes on the card.
    OtherProcesses,
}

/// A line that bears a hint out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The line.
    #[serde(flatten)]
    pub place: Place,
    /// What of the hint's bytes is its.
    pub bytes: u64,
    /// Blocks of those.
    pub blocks: u64,
    /// The same line.
    #[serde(skip)]
    pub owner: Owner,
}

/// One hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hint {
    /// What about.
    pub kind: HintKind,
    /// Device ordinal.
    pub device: u8,
    /// How many bytes it is about.
    pub bytes: u64,
    /// What was seen.
    pub what: String,
    /// What can be done.
    pub advice: String,
    /// Lines, those with most first; at most five.
    pub lines: Vec<Evidence>,
    /// The line whose tensor probably keeps what they hold, with what it has itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Evidence>,
}

/// Whether a part is large enough for a hint.
pub(super) fn is_notable(part: u64, of: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}
