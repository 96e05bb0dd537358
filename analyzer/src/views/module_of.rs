//! The module of PyTorch that stacks belong to.

use crate::names::{NO_MODULE, Names};
use crate::replay::StackKey;

/// The module that a stack's bytes belong to and the modules around it, the outermost first.
pub(super) fn module_path(names: &Names, stacks: StackKey) -> Vec<String> {
    match names.module_of(stacks.py) {
        Some(module) => names.module_path(module),
        None => vec![NO_MODULE.into()],
    }
}

/// Whether a pattern matches the module of these stacks.
pub(super) fn takes(names: &Names, stacks: StackKey, pattern: &str) -> bool {
    match names.module_of(stacks.py) {
        Some(module) => names.module_matches(module, pattern),
        None => pattern == NO_MODULE,
    }
}
