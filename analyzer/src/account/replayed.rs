//! The facts about a replay in a capture that the replay wrote: see `gpumem whatif --save`.

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::Names;
use crate::units::bytes;

/// A replay of PyTorch's allocator on one device of a recorded capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replayed {
    /// Path of the recorded capture that was replayed.
    pub capture: String,
    /// Ordinal of the GPU whose allocations were replayed; 0 if the capture does not have it.
    pub device: u8,
    /// Settings of the allocator in the replay, in the syntax of `PYTORCH_ALLOC_CONF`; empty: the default settings.
    pub settings: String,
    /// Memory in bytes of the simulated GPU; 0 if the capture does not have it.
    pub card_bytes: u64,
    /// Version of PyTorch whose allocator was replayed; empty if the capture does not have it.
    pub pytorch: String,
    /// Reasons why a real run may differ from the replay, one text each; empty if there is no reason.
    pub doubts: Vec<String>,
}

impl Replayed {
    /// Reads the facts of a capture; `None` if no replay wrote it.
    pub(super) fn of(names: &Names) -> Option<Self> {
        let fact = |key| names.fact(key).unwrap_or_default().to_owned();
        let capture = names.fact(ProcessKey::REPLAYED_CAPTURE)?.to_owned();
        let pytorch = fact(ProcessKey::REPLAYED_PYTORCH);
        let doubts = fact(ProcessKey::REPLAYED_DOUBTS);
        let doubts = doubts.lines().map(str::to_owned).collect();
        Some(Self {
            capture,
            device: fact(ProcessKey::REPLAYED_DEVICE).parse().unwrap_or(0),
            settings: fact(ProcessKey::REPLAYED_SETTINGS),
            card_bytes: fact(ProcessKey::REPLAYED_CARD).parse().unwrap_or(0),
            pytorch,
            doubts,
        })
    }

    /// The file's name without its folder.
    pub fn file(&self) -> &str {
        self.capture.rsplit('/').next().unwrap_or(&self.capture)
    }

    /// The settings and the card, such as `expandable_segments:True on 16.0 GiB`.
    pub fn under(&self) -> String {
        let settings = match self.settings.as_str() {
            "" => "default settings",
            settings => settings,
        };
        format!("{settings} on {}", bytes(self.card_bytes))
    }

    /// A short title, such as `replay of report.bin under expandable_segments:True on 16.0 GiB`.
    pub fn title(&self) -> String {
        format!("replay of {} under {}", self.file(), self.under())
    }
}
