//! Modules of PyTorch's (`torch.nn.Module`): their definitions, and which of them the frames of a stack call.

use gpumem_capture::{NnModuleId, PyModule, StackId};
use rustc_hash::FxHashMap;

use crate::serialize::{Serialize, serialize};

/// What allocations are charged to that no module made.
pub const NO_MODULE: &str = "(no module)";

/// A module object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NnModule {
    pub(super) class: String,
    /// The how many-th of its class was seen, from 1.
    pub(super) ordinal: u32,
    /// What the program calls it; empty if that is not known.
    pub(super) name: String,
    /// The module that called it first, or itself.
    pub(super) caller: NnModuleId,
}

/// The modules of a capture.
#[derive(Clone, Debug, Default)]
pub(super) struct NnModules {
    pub(super) modules: FxHashMap<NnModuleId, NnModule>,
    /// Which frames of a Python stack call modules, the newest first; none for stacks without.
    pub(super) calls: FxHashMap<StackId, Vec<PyModule>>,
    /// How many there are of each class.
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

    /// Forgets the stacks that `is_kept` does not take.
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
