//! Labels of rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, ProcessKey};

use super::Kind;
use crate::attribution::Owner;
use crate::replay::Replay;
use crate::units::bytes as text;

/// The libraries that a line's memory belongs to.
pub(super) fn through(libraries: &BTreeMap<String, i128>) -> Option<String> {
    let mut libraries: Vec<(&String, &i128)> = libraries.iter().collect();
    libraries.sort_by_key(|(name, bytes)| (Reverse(**bytes), *name));
    let names: Vec<String> = libraries
        .iter()
        .take(3)
        .map(|(name, bytes)| format!("{name} {}", text((**bytes).max(0) as u64)))
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The label of a row.
pub(super) fn name(
    kind: &Kind,
    library: Option<&str>,
    bytes: i128,
    owner: Option<&Owner>,
    replay: &Replay,
    stray_of: Option<DeviceOrdinal>,
) -> String {
    let negative = bytes < 0;
    match kind {
        Kind::Tensors => "tensors live".into(),
        Kind::Cached => "reserved but unallocated".into(),
        Kind::Library | Kind::Owner => library.unwrap_or("unknown caller (no native stack)").into(),
        Kind::Line => owner.map_or("(no stack)".into(), |owner| owner.label(&replay.names)),
        Kind::Graph => "CUDA graphs, live".into(),
        Kind::GraphUnused | Kind::Pool | Kind::Rounding if negative => {
            "requested, not yet allocated".into()
        }
        Kind::GraphUnused => "CUDA graphs, reserved but unused".into(),
        Kind::Pool => "CUDA's pools, reserved but unused".into(),
        Kind::Rounding => "rounded up to whole pages".into(),
        Kind::Context => context(replay, stray_of),
        Kind::Streams => "CUDA streams".into(),
        Kind::Module => format!("kernels of {}", library.unwrap_or("an unknown library")),
        Kind::Managed => "managed memory, at most".into(),
        Kind::OtherProcesses => "other processes".into(),
        Kind::DriverReserved => "reserved by the driver".into(),
        Kind::NoProcess => "used by no process (NVML)".into(),
        Kind::Unexplained => "unexplained".into(),
    }
}

fn context(replay: &Replay, stray_of: Option<DeviceOrdinal>) -> String {
    let Some(main) = stray_of else {
        return "CUDA context".into();
    };
    let rank = replay
        .names
        .fact(ProcessKey::RANK)
        .map(|rank| format!(" of rank {rank}"))
        .unwrap_or_default();
    format!("stray CUDA context{rank}, which uses GPU {}", main.0)
}
