//! Who kept the memory at a failure.

use gpumem_capture::DeviceOrdinal;
use gpumem_judge::HolderKind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::Names;

/// A Python object that kept tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Holder {
    /// What it is: `object`; `parameters` of a module, its buffers included; `gradients`; the `graph` that hangs on a tensor; a
    /// frame that a `traceback` keeps; `native` code, or a value that a running call works with; a reference `cycle`.
    #[schemars(extend("enum" = holder_kinds()))]
    pub kind: &'static str,
    /// Whether it is in the program's own code. Otherwise it is in that of an installed package.
    pub own: bool,
    /// How Python code would refer to it: `metric.preds[0…213]`.
    pub text: String,
    /// Where that is: `local of main (train.py:31)`, `global of __main__`.
    pub place: String,
    /// Bytes of the tensors.
    pub bytes: u64,
    /// Number of the tensors' blocks.
    pub blocks: u64,
    /// Bytes that become free if the container is emptied, or the one reference is deleted. `None`: not known.
    pub frees_bytes: Option<u64>,
    /// Bytes of the views, if the tensors are views of larger ones that no other object keeps. `None`: they are not.
    pub covers_bytes: Option<u64>,
    /// Whether `text` begins with a variable that the functions which run do not read again, so that `del` of it is safe. Python
    /// 3.8 to 3.14.
    pub unused: bool,
}

/// Who kept tensors at a failure: the result of the recorder's walk through the program's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Holders {
    /// The bound that ended the walk too early: `time`, `size` or `memory`. `None`: it was complete.
    pub cut: Option<String>,
    /// Duration of the walk.
    pub time_us: u64,
    /// Live bytes of the GPU's tensors at that time.
    pub live_bytes: u64,
    /// The largest holders, the largest first.
    pub rows: Vec<Holder>,
}

/// Who kept a GPU's tensors near its peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeakHolders {
    /// Number of the event with which the tensors had a new peak. The search came soon after it.
    pub event: u64,
    /// The objects, and how the search for them ended.
    #[serde(flatten)]
    pub holders: Holders,
}

impl PeakHolders {
    /// Those of a device; `None`: the recorder did not look for them (`GPUMEM_HOLDERS`).
    pub fn of(names: &Names, device: DeviceOrdinal) -> Option<Self> {
        let (seq, holders) = gpumem_judge::Holders::at_peak(names, device)?;
        Some(Self {
            event: seq.0,
            holders: Holders::of(&holders),
        })
    }
}

impl Holder {
    fn of(of: &gpumem_judge::Holder) -> Self {
        Self {
            kind: of.kind.name(),
            own: of.is_own,
            text: of.text.clone(),
            place: of.place.clone(),
            bytes: of.bytes,
            blocks: of.blocks,
            frees_bytes: of.frees,
            covers_bytes: of.covers,
            unused: of.unused,
        }
    }

    /// What keeps the tensors, in words.
    pub fn name(&self) -> String {
        match self.kind {
            "object" if !self.own => format!("values of {}", self.text),
            kind => holder_name(kind, &self.text),
        }
    }
}

/// What keeps tensors, in words.
pub fn holder_name(kind: &str, text: &str) -> String {
    match kind {
        "graph" => format!("graph of {text}"),
        "parameters" => format!("{text}: parameters, buffers"),
        "gradients" => format!("{text}: gradients"),
        _ => text.to_owned(),
    }
}

impl Holders {
    /// Why the search ended too early.
    pub fn why_cut(&self) -> Option<&'static str> {
        Some(match self.cut.as_deref()? {
            "time" => "it ran out of time",
            "size" => "the program has too many objects",
            _ => "there was no memory for it",
        })
    }

    pub(super) fn of(holders: &gpumem_judge::Holders) -> Self {
        Self {
            cut: holders.cut.clone(),
            time_us: holders.micros,
            live_bytes: holders.live,
            rows: holders.all.iter().map(Holder::of).collect(),
        }
    }
}

/// The names of all kinds.
pub(in crate::views) fn holder_kinds() -> Vec<&'static str> {
    HolderKind::ALL.iter().map(|kind| kind.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_not_read_again_are_marked() {
        let holder = |unused| gpumem_judge::Holder {
            kind: HolderKind::Object,
            text: "logits".into(),
            place: "local of main (train.py:3)".into(),
            is_own: true,
            bytes: 4,
            blocks: 1,
            frees: Some(4),
            covers: None,
            double: 0,
            unused,
            also: None,
        };
        let rows = [true, false].map(|unused| Holder::of(&holder(unused)).unused);
        assert_eq!(rows, [true, false]);
    }
}
