//! Modules, libraries and kernels. Code is never looked at, but for what PTX text declares: every name
//! exists in every module, and its kernels do nothing.
//!
//! The model: a module costs device memory in its context from the moment that it is loaded: as much as is set, or
//! whole pages for the variables that its text declares if those are more. A
//! library belongs to no context and costs nothing, until one of its kernels is first used in a
//! context (or at once in the current one, with `CUDA_MODULE_LOADING=EAGER`). The memory goes back
//! when the module or library is unloaded, and with the context.

use super::handles::Handles;
use super::ptx::Ptx;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Bytes of a module variable of which no text tells. None of the clients tried needs more or asks for the true size.
pub const GLOBAL_BYTES: u64 = 64 << 10;

/// A module or a library.
#[derive(Debug)]
pub struct Module {
    /// Its context; 0 for a library, which belongs to none.
    pub context: usize,
    /// What its text declares.
    pub(crate) ptx: Ptx,
    /// Device memory that it costs in a context.
    pub(crate) bytes: u64,
    /// Where it costs memory: contexts, with their devices.
    pub(crate) loaded: BTreeMap<usize, usize>,
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
    /// Local memory of each of its threads, as far as the module's text tells.
    pub local_bytes: usize,
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
    /// A new module of a context, or a library (context 0), that costs nothing yet.
    pub fn add(&mut self, context: usize, ptx: Ptx, bytes: u64) -> usize {
        self.modules.insert(Module {
            context,
            ptx,
            bytes,
            loaded: BTreeMap::new(),
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
        let stack = name
            .to_str()
            .ok()
            .and_then(|name| found.ptx.stacks.get(name));
        let handle = self.functions.insert(Function {
            module,
            local_bytes: stack.map_or(0, |bytes| *bytes as usize),
            name: Box::leak(name.to_owned().into_boxed_c_str()),
            attributes: BTreeMap::new(),
        });
        found.functions.insert(name.to_owned(), handle);
        Some(handle)
    }

    pub(crate) fn remove(&mut self, module: usize) -> Option<Module> {
        let gone = self.modules.remove(module)?;
        for handle in gone.functions.values() {
            self.functions.remove(*handle);
        }
        Some(gone)
    }
}
