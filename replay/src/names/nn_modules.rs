//! PyTorch modules (`torch.nn.Module`): their definitions, and which of them the frames of a stack call.

use gpumem_capture::{NnModuleId, PyModule, StackId};
use rustc_hash::FxHashMap;

use crate::serialize::{Serialize, serialize};

/// The name to which allocations outside all modules are charged.
pub const NO_MODULE: &str = "(no module)";

/// A module object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NnModule {
    pub(super) class: String,
    /// Its position among the modules of its class in the order of their first calls, from 1.
    pub(super) ordinal: u32,
    /// Its name in the program; empty if that is unknown.
    pub(super) name: String,
    /// The module that called it first, or the module itself.
    pub(super) caller: NnModuleId,
}

/// The modules of a capture.
#[derive(Clone, Debug, Default)]
pub(super) struct NnModules {
    pub(super) modules: FxHashMap<NnModuleId, NnModule>,
    /// Which frames of a Python stack call modules, the newest first; no entry for stacks without.
    pub(super) calls: FxHashMap<StackId, Vec<PyModule>>,
    /// The number of modules of each class.
    classes: FxHashMap<String, u32>,
}

impl NnModules {
    pub(super) fn define(&mut self, id: NnModuleId, class: String) {
        if self.modules.contains_key(&id) {
            return;
        }
        let ordinal = self.classes.entry(class.clone()).or_default();
        *ordinal += 1;
        let module = NnModule {
            class,
            ordinal: *ordinal,
            name: String::new(),
            caller: id,
        };
        self.modules.insert(id, module);
    }

    pub(super) fn name(&mut self, id: NnModuleId, name: String) {
        if let Some(module) = self.modules.get_mut(&id) {
            module.name = name;
        }
    }

    pub(super) fn stack(&mut self, stack: StackId, calls: Vec<PyModule>) {
        for pair in calls.windows(2) {
            let (called, caller) = (pair[0].module, pair[1].module);
            if let Some(module) = self.modules.get_mut(&called)
                && module.caller == called
            {
                module.caller = caller;
            }
        }
        match calls.is_empty() {
            true => drop(self.calls.remove(&stack)),
            false => drop(self.calls.insert(stack, calls)),
        }
    }

    /// Drops the stacks for which `is_kept` is false.
    pub(super) fn retain_stacks(&mut self, is_kept: impl Fn(StackId) -> bool) {
        self.calls.retain(|stack, _| is_kept(*stack));
        self.calls.shrink_to_fit();
    }
}

serialize! {
    NnModuleId { 0 }
    PyModule { frame, module }
    NnModule { class, ordinal, name, caller }
}

impl Serialize for NnModules {
    fn put(&self, to: &mut Vec<u8>) {
        self.modules.put(to);
        self.calls.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let modules: FxHashMap<NnModuleId, NnModule> = Serialize::take(from)?;
        let mut classes: FxHashMap<String, u32> = FxHashMap::default();
        for module in modules.values() {
            let most = classes.entry(module.class.clone()).or_default();
            *most = module.ordinal.max(*most);
        }
        Some(Self {
            modules,
            calls: Serialize::take(from)?,
            classes,
        })
    }
}
