//! Bytes by the module of PyTorch (`torch.nn.Module`) that ran.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::ByStack;
use super::json::ordinal;
use crate::account::{Phase, phase_of};
use crate::replay::{Figure, Replay};

/// One module's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModuleRow {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// Its qualified name, or its class and which one of that it is; `None`: no module ran.
    pub module: Option<String>,
    /// Its class.
    pub class: Option<String>,
    /// Whether they are workspaces of cuBLAS.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub workspace: bool,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The standard error of the bytes, where stacks are sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
}

/// All modules of a level at a point in time, largest first. Memory of no module is a row, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules {
    /// The rows.
    pub rows: Vec<ModuleRow>,
    /// For each device the level's own figure, where the rows do not sum to it: (device, sum, figure).
    pub mismatches: Vec<(DeviceOrdinal, u64, u64)>,
}

impl Modules {
    /// Modules of the stacks in `held`. `wanted` selects phases of the allocations.
    pub fn of(replay: &Replay, held: &ByStack, wanted: impl Fn(Option<Phase>) -> bool) -> Self {
        let names = &replay.names;
        let mut modules = Self {
            rows: Vec::new(),
            mismatches: Vec::new(),
        };
        let sampling = replay.sampling.filter(|_| held.level == Level::TENSOR);
        for on in &held.devices {
            let mut by_name: BTreeMap<(Option<String>, bool), (Option<String>, Figure)> =
                BTreeMap::new();
            for (stacks, figure) in &on.figures {
                if !wanted(phase_of(replay, *stacks)) {
                    continue;
                }
                let module = names.module_of(stacks.py);
                let class = || module.and_then(|id| names.module_class(id));
                let name = module.map(|id| names.module_name(id));
                let of = by_name.entry((name, stacks.purpose.is_workspace()));
                of.or_insert_with(|| (class().map(str::to_owned), Figure::default()))
                    .1 += *figure;
            }
            let sum = on.figures.iter().map(|(_, figure)| figure.bytes).sum();
            if let Some(total) = on.total.filter(|total| *total != sum) {
                modules.mismatches.push((on.device, sum, total));
            }
            let rows = by_name.into_iter().map(|(of, (class, figure))| {
                let (module, workspace) = of;
                let error_bytes = sampling.map(|sampling| sampling.standard_error(figure));
                ModuleRow {
                    device: ordinal(on.device),
                    module,
                    class,
                    workspace,
                    bytes: figure.bytes,
                    blocks: figure.blocks,
                    error_bytes,
                }
            });
            modules.rows.extend(rows);
        }
        let order = |row: &ModuleRow| (Reverse((row.bytes, row.blocks)), row.device);
        modules.rows.sort_by(|a, b| {
            let by_size = order(a).cmp(&order(b));
            by_size.then_with(|| (&a.module, a.workspace).cmp(&(&b.module, b.workspace)))
        });
        modules
    }

    /// Bytes over all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }
}
