//! PyTorch in the recorded process.

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// PyTorch in the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PyTorchSummary {
    /// Its version; `None`: not known.
    pub version: Option<String>,
    /// Its allocator: `native`, `cudaMallocAsync`, `pluggable`; `None`: not known.
    pub allocator: Option<String>,
    /// The allocator's settings at the start; `None`: none were given.
    pub allocator_settings: Option<String>,
    /// What of the allocator was seen: see SPEC.md, `allocator_sees`.
    pub allocator_seen: Vec<String>,
    /// What else of it is not known: see SPEC.md, `allocator_unknown`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocator_unknown: Vec<String>,
}

impl PyTorchSummary {
    /// `None` if nothing is known.
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

/// The allocator and its settings as text, for readers of its segments.
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
