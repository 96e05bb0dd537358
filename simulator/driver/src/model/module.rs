//! Modules, libraries and kernels. Code is never looked at: every name exists in every module, and
//! its kernels do nothing.

use super::handles::Handles;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Bytes of every module variable. None of the clients tried needs more or asks for the true size.
pub const GLOBAL_BYTES: u64 = 64 << 10;

/// A module or a library.
#[derive(Debug)]
pub struct Module {
    /// Its context; 0 for a library, which belongs to none.
    pub context: usize,
    /// Functions that were asked for, by name.
    pub functions: BTreeMap<CString, usize>,
    /// Addresses of variables that were asked for, by name.
    pub globals: BTreeMap<CString, u64>,
}

/// A kernel. Its name is never freed: clients keep the pointer.
#[derive(Debug)]
pub struct Function {
    /// Its module or library.
    pub module: usize,
    /// Its name.
    pub name: &'static CStr,
    /// Attributes that were set.
    pub attributes: BTreeMap<u32, i32>,
}

/// All of them.
#[derive(Debug)]
pub struct Modules {
    /// Modules and libraries.
    pub modules: Handles<Module>,
    /// Their kernels.
    pub functions: Handles<Function>,
}

impl Default for Modules {
    fn default() -> Self {
        Self {
            modules: Handles::new(6),
            functions: Handles::new(7),
        }
    }
}

impl Modules {
    /// A new module of a context, or a library (context 0).
    pub fn load(&mut self, context: usize) -> usize {
        self.modules.insert(Module {
            context,
            functions: BTreeMap::new(),
            globals: BTreeMap::new(),
        })
    }

    /// The kernel of that name.
    pub fn function(&mut self, module: usize, name: &CStr) -> Option<usize> {
        let found = self.modules.get_mut(module)?;
        if let Some(handle) = found.functions.get(name) {
            return Some(*handle);
        }
        let handle = self.functions.insert(Function {
            module,
            name: Box::leak(name.to_owned().into_boxed_c_str()),
            attributes: BTreeMap::new(),
        });
        found.functions.insert(name.to_owned(), handle);
        Some(handle)
    }

    /// Unloads a module; gives the addresses of its variables.
    pub fn unload(&mut self, module: usize) -> Option<Vec<u64>> {
        let gone = self.modules.remove(module)?;
        for handle in gone.functions.values() {
            self.functions.remove(*handle);
        }
        Some(gone.globals.into_values().collect())
    }

    /// Drops the modules of a context, whose variables go with its other memory.
    pub fn drop_context(&mut self, context: usize) {
        let of_context: Vec<usize> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == context)
            .map(|(handle, _)| handle)
            .collect();
        for handle in of_context {
            self.unload(handle);
        }
    }
}
