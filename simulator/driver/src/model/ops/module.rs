//! Operations on the state: modules, libraries and kernels.

use crate::ffi::{Answer, CuError};
use crate::model::State;
use crate::model::context::Current;
use crate::model::kind::Holding;
use crate::model::memory::whole_pages;
use crate::model::module::*;
use crate::model::ptx::Ptx;
use std::ffi::CStr;

impl State {
    /// `cuModuleLoad…`.
    pub fn load_module(&mut self, at: Current, ptx: Ptx) -> Answer<usize> {
        let handle = self.add_module(at.context, ptx)?;
        let loaded = self.need_module(handle, at);
        if loaded.is_err() {
            self.modules.remove(handle);
        }
        loaded.map(|()| handle)
    }

    /// `cuLibraryLoad…`, which needs no context.
    pub fn load_library(&mut self, ptx: Ptx) -> Answer<usize> {
        let handle = self.add_module(0, ptx)?;
        if self.machine.eager_loading && self.bound().is_ok() {
            let loaded = self
                .current()
                .and_then(|current| self.need_module(handle, current));
            if let Err(code) = loaded {
                self.modules.remove(handle);
                return Err(code);
            }
        }
        Ok(handle)
    }

    fn add_module(&mut self, context: usize, ptx: Ptx) -> Answer<usize> {
        let variables = ptx.variables.values().copied();
        let variables = variables.fold(0, u64::saturating_add);
        let bytes = whole_pages(variables, self.machine.page_bytes)?;
        let bytes = bytes.max(self.machine.module_bytes);
        Ok(self.modules.add(context, ptx, bytes))
    }

    /// Whether a module is loaded in a context.
    pub fn is_loaded(&self, module: usize, context: usize) -> bool {
        let found = self.modules.modules.get(module);
        found.is_some_and(|module| module.loaded.contains_key(&context))
    }

    /// A use of a module: the first one in a context loads it there.
    pub fn need_module(&mut self, module: usize, at: Current) -> Answer {
        let found = self.modules.modules.get(module);
        let found = found.ok_or(CuError::INVALID_HANDLE)?;
        // A module belongs to one context and is loaded there, even if a kernel is launched in
        // another.
        let elsewhere = found.context != 0 && found.context != at.context;
        if elsewhere || found.loaded.contains_key(&at.context) {
            return Ok(());
        }
        let bytes = found.bytes;
        self.take_held(at.device, Holding::Module, bytes)?;
        if let Some(found) = self.modules.modules.get_mut(module) {
            found.loaded.insert(at.context, at.device);
        }
        Ok(())
    }

    /// A use of a kernel, which must exist.
    pub fn need_function(&mut self, function: usize, at: Current) -> Answer {
        let found = self.modules.functions.get(function);
        let module = found.ok_or(CuError::INVALID_HANDLE)?.module;
        self.need_module(module, at)
    }

    /// `cuModuleGetGlobal`, `cuLibraryGetGlobal`: address and bytes of a variable. It lives as long
    /// as its module and the module's context, even if another context is current. A library has no
    /// context.
    pub fn global(&mut self, current: Current, module: usize, name: &CStr) -> Answer<(u64, u64)> {
        let found = self.modules.modules.get(module);
        let found = found.ok_or(CuError::INVALID_HANDLE)?;
        let declared = name
            .to_str()
            .ok()
            .and_then(|name| found.ptx.variables.get(name));
        let bytes = declared.map_or(GLOBAL_BYTES, |bytes| (*bytes).max(1));
        if let Some(base) = found.globals.get(name) {
            return Ok((*base, bytes));
        }
        let at = Current {
            context: found.context,
            device: match found.context {
                0 => current.device,
                context => self.contexts.get(context)?.device,
            },
        };
        let base = self.allocate_global(at, bytes)?;
        if let Some(found) = self.modules.modules.get_mut(module) {
            found.globals.insert(name.to_owned(), base);
        }
        Ok((base, bytes))
    }

    /// `cuModuleUnload`, `cuLibraryUnload`.
    pub fn unload_module(&mut self, module: usize) -> Answer {
        let gone = self.modules.remove(module);
        let gone = gone.ok_or(CuError::INVALID_HANDLE)?;
        for base in gone.globals.into_values() {
            self.free_allocation(base);
        }
        for device in gone.loaded.into_values() {
            self.give_module(device, gone.bytes);
        }
        Ok(())
    }

    /// Part of the end of a context: its modules are removed (their variables are freed with its
    /// other memory), and libraries are no longer loaded there.
    pub fn drop_modules_of(&mut self, context: usize) {
        let mut devices = Vec::new();
        for (_, module) in self.modules.modules.iter_mut() {
            let device = module.loaded.remove(&context);
            devices.extend(device.map(|device| (device, module.bytes)));
        }
        for (device, bytes) in devices {
            self.give_module(device, bytes);
        }
        let of_context: Vec<usize> = self
            .modules
            .modules
            .iter()
            .filter(|(_, module)| module.context == context)
            .map(|(handle, _)| handle)
            .collect();
        for handle in of_context {
            self.modules.remove(handle);
        }
    }

    fn give_module(&mut self, device: usize, bytes: u64) {
        let books = self.books.device_mut(device);
        books.give_held(Holding::Module, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::machine;

    #[test]
    fn a_variable_lives_with_its_module_whichever_context_is_current() -> Answer {
        let mut state = State::new(machine("64MiB"));
        let [of_module, other] = [0, 1].map(|device| state.create_context(device, 0));
        let (context, other) = (of_module?, other?);
        let module = state.load_module(Current { context, device: 0 }, Ptx::default())?;
        let elsewhere = Current {
            context: other,
            device: 1,
        };
        let (base, _) = state.global(elsewhere, module, c"variable")?;
        let _ = state.destroy_context(other)?;
        let found = state.memory.at(base).map(|found| found.device);
        assert_eq!(found, Some(0), "it ended with another context");
        state.unload_module(module)?;
        assert!(state.memory.at(base).is_none());
        Ok(())
    }
}
