//! Modules, libraries and kernels. Code is never read, except the declarations in PTX text. Every
//! name exists in every module, and kernels do nothing.
//!
//! The model: a module costs device memory in its context while it is loaded: the configured size,
//! or whole pages for the variables that its text declares if those are more. A library belongs to
//! no context and costs nothing until one of its kernels is first used in a context (with
//! `CUDA_MODULE_LOADING=EAGER`, it is loaded into the current context at once). The memory is freed
//! when the module or library is unloaded, and with the context.

use super::handles::Handles;
use super::ptx::Ptx;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Bytes of a module variable that no text declares. The tested clients do not need more, and do
/// not query the true size.
pub const GLOBAL_BYTES: u64 = 64 << 10;

/// A module or a library.
#[derive(Debug)]
pub struct Module {
    /// Its context; 0 for a library, which has no context.
    pub context: usize,
    /// The declarations of its text.
    pub(crate) ptx: Ptx,
    /// Device memory that it costs in a context.
    pub(crate) bytes: u64,
    /// The contexts in which it costs memory, with their devices.
    pub(crate) loaded: BTreeMap<usize, usize>,
    /// Functions that were looked up, by name.
    pub functions: BTreeMap<CString, usize>,
    /// Addresses of variables that were looked up, by name.
    pub globals: BTreeMap<CString, u64>,
}

/// A kernel. Its name is never freed: clients keep the pointer.
#[derive(Debug)]
pub struct Function {
    /// Its module or library.
    pub module: usize,
    /// Its name.
    pub name: &'static CStr,
    /// Local memory of each of its threads, if the module's text declares it.
    pub local_bytes: usize,
    /// Attributes that were set.
    pub attributes: BTreeMap<u32, i32>,
}

/// All modules and kernels.
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
    /// Adds a module of a context, or a library (context 0). It costs nothing yet.
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

    /// The kernel with this name.
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
