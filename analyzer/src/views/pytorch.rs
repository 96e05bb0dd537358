//! PyTorch in the recorded process.

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// PyTorch in the recorded process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PyTorchSummary {
    /// Version of PyTorch, such as `2.15.0+cu132`; `None`: not known.
    pub version: Option<String>,
    /// Allocator that PyTorch used: `native`, `cudaMallocAsync` or `pluggable`; `None`: not known.
    pub allocator: Option<String>,
    /// Settings of the allocator at the start (`PYTORCH_ALLOC_CONF`), at the end for an imported capture; `None`: no
    /// settings are known.
    pub allocator_settings: Option<String>,
    /// Facts about the allocator that were recorded: `requested`, `stream`, `pool`, `record_stream`, `released`,
    /// `calls`, `settings` (`allocator_sees` in SPEC.md). Empty: no such facts.
    pub allocator_seen: Vec<String>,
    /// Facts that are not known and that affect how the allocator behaves under other settings, one text each; absent
    /// if no such facts are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocator_unknown: Vec<String>,
}

impl PyTorchSummary {
    /// Reads the facts of a capture; `None` if PyTorch is not known to be in the process.
    pub(super) fn of(replay: &Replay) -> Option<Self> {
        let fact = |key: &str| replay.names.fact(key).map(str::to_owned);
        let parts = |key: &str, between: char| {
            let fact = replay.names.fact(key);
            fact.map(|parts| parts.split(between).map(str::to_owned).collect())
        };
        let unknown = parts(ProcessKey::ALLOCATOR_UNKNOWN, '\n');
        let version = fact(ProcessKey::PYTORCH);
        let is_there = version.is_some() || unknown.is_some();
        is_there.then(|| Self {
            version,
            allocator: fact(ProcessKey::ALLOCATOR_BACKEND),
            allocator_settings: fact(ProcessKey::ALLOCATOR_CONF),
            allocator_seen: parts(ProcessKey::ALLOCATOR_SEES, ' ').unwrap_or_default(),
            allocator_unknown: unknown.unwrap_or_default(),
        })
    }
}

/// The allocator and its settings as text, to be shown with its segments.
pub(super) fn allocator_words(replay: &Replay) -> Option<String> {
    let pytorch = PyTorchSummary::of(replay)?;
    let settings = pytorch.allocator_settings.filter(|text| !text.is_empty());
    let settings = match settings {
        Some(settings) => format!("settings {settings}"),
        None => "default settings".into(),
    };
    let allocator = pytorch.allocator?;
    let version = pytorch
        .version
        .map(|version| format!(" of PyTorch {version}"));
    Some(format!(
        "{allocator} allocator{}, {settings}",
        version.unwrap_or_default()
    ))
}
