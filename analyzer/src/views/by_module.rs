//! Bytes by the module of PyTorch (`torch.nn.Module`) that ran.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::Level;

use super::by_stack::ByStack;
use super::json::ordinal;
use crate::replay::{Figure, Replay};

/// Live memory at a point in time that was allocated while one module of PyTorch ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRow {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The innermost module that ran, such as `blocks.3.attn`, or `Block#3` if its name is not known; `None`: none.
    pub module: Option<String>,
    /// Its class; `None`: not known.
    pub class: Option<String>,
    /// Whether the blocks are workspaces of cuBLAS.
    pub workspace: bool,
    /// Live bytes at the point in time. An estimate if stacks are sampled.
    pub bytes: u64,
    /// Number of live blocks at the point in time. An estimate if stacks are sampled.
    pub blocks: u64,
    /// The standard error of `bytes`; `None`: stacks are not sampled, or another level than that of tensors.
    pub error_bytes: Option<u64>,
}

/// Modules of the stacks in `held`, the largest first. Memory that was allocated while no module ran is a row, too.
pub fn modules(replay: &Replay, held: &ByStack) -> Vec<ModuleRow> {
    let names = &replay.names;
    let sampling = replay.sampling.filter(|_| held.level == Level::TENSOR);
    let mut modules = Vec::new();
    for on in &held.devices {
        let mut by_name: BTreeMap<(Option<String>, bool), (Option<String>, Figure)> =
            BTreeMap::new();
        for (stacks, figure) in &on.figures {
            let module = names.module_of(stacks.py);
            let class = || module.and_then(|id| names.module_class(id));
            let name = module.map(|id| names.module_name(id));
            let of = by_name.entry((name, stacks.purpose.is_workspace()));
            of.or_insert_with(|| (class().map(str::to_owned), Figure::default()))
                .1 += *figure;
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
        modules.extend(rows);
    }
    let order = |row: &ModuleRow| (Reverse((row.bytes, row.blocks)), row.device);
    modules.sort_by(|a, b| {
        let by_size = order(a).cmp(&order(b));
        by_size.then_with(|| (&a.module, a.workspace).cmp(&(&b.module, b.workspace)))
    });
    modules
}
