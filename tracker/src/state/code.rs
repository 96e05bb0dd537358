//! Modules and libraries of kernels, by context.

use std::collections::{BTreeMap, BTreeSet};

use super::reservations::{Kind, Reservation};

/// A module or library in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) library: u64,
    pub(crate) context: u64,
}

/// The known code.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The code behind each reservation of code, by handle.
    charged: BTreeMap<u64, Loaded>,
    /// The library of a module that is its part in one context.
    part_of: BTreeMap<u64, u64>,
    /// The module or library of a function or kernel.
    functions: BTreeMap<u64, u64>,
    /// The libraries whose kernels were looked up: they belong to every context.
    with_kernels: BTreeSet<u64>,
}

impl Code {
    /// The reservation of a module or library in a context. Its handle is the library's. If a library already has
    /// one in another context, the handle is a number derived from both.
    pub(crate) fn reservation(&mut self, loaded: Loaded) -> Reservation {
        let Loaded { library, context } = loaded;
        // Handles are addresses: no library has an odd one.
        let both = library ^ context.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let known = [library, both]
            .into_iter()
            .find(|handle| self.charged.get(handle) == Some(&loaded));
        let handle = known.unwrap_or_else(|| {
            let handle = if self.charged.contains_key(&library) {
                both
            } else {
                library
            };
            self.charged.insert(handle, loaded);
            handle
        });
        Kind::Module.of(handle)
    }

    /// The reservations of code that `wanted` selects.
    pub(crate) fn reservations(
        &self,
        wanted: impl Fn(Loaded) -> bool,
    ) -> Vec<(Reservation, Loaded)> {
        self.charged
            .iter()
            .filter(|(_, loaded)| wanted(**loaded))
            .map(|(handle, loaded)| (Kind::Module.of(*handle), *loaded))
            .collect()
    }

    pub(crate) fn forget(&mut self, reservation: Reservation) {
        self.charged.remove(&reservation.handle);
    }

    pub(crate) fn restore(&mut self, reservation: Reservation, loaded: Loaded) {
        self.charged.insert(reservation.handle, loaded);
    }

    /// Records that a module is the part of a library in some context.
    pub(crate) fn is_part(&mut self, module: u64, library: u64) {
        self.part_of.insert(module, library);
    }

    /// The library that a module is a part of, or the module itself.
    pub(crate) fn library_of(&self, module: u64) -> u64 {
        self.part_of.get(&module).copied().unwrap_or(module)
    }

    /// Records that a function or kernel was looked up in a module or library.
    pub(crate) fn got(&mut self, function: u64, library: u64) {
        self.functions.insert(function, library);
    }

    /// The module or library of a function or kernel; `None` if its look-up was not seen.
    pub(crate) fn owner(&self, function: u64) -> Option<u64> {
        self.functions.get(&function).copied()
    }

    /// Whether the module or library of a function or kernel is known.
    pub(crate) fn knows(&self, function: u64) -> bool {
        self.functions.contains_key(&function)
    }

    /// Records that a kernel was looked up in a library: it belongs to every context.
    pub(crate) fn kernel_got(&mut self, kernel: u64, library: u64) {
        self.functions.insert(kernel, library);
        self.with_kernels.insert(library);
    }

    /// The module or library with functions that has the highest handle, which is taken as the newest.
    pub(crate) fn newest_with_functions(&self) -> Option<u64> {
        self.functions.values().copied().max()
    }

    /// The libraries whose kernels were looked up.
    pub(crate) fn with_kernels(&self) -> impl Iterator<Item = u64> {
        self.with_kernels.iter().copied()
    }

    /// Removes a module or library and its functions.
    pub(crate) fn unloaded(&mut self, library: u64) {
        self.part_of.retain(|_, of| *of != library);
        self.functions.retain(|_, of| *of != library);
        self.with_kernels.remove(&library);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_a_reservation_in_each_context() {
        let mut code = Code::default();
        let loaded = |context| Loaded {
            library: 0x5000,
            context,
        };
        let first = code.reservation(loaded(0x10));
        let (second, third) = (
            code.reservation(loaded(0x20)),
            code.reservation(loaded(0x30)),
        );
        assert_eq!(first, Kind::Module.of(0x5000));
        assert!(second != first && third != first && second != third);
        assert_eq!(code.reservation(loaded(0x10)), first);
        assert_eq!(code.reservation(loaded(0x20)), second);
        assert_eq!(code.reservations(|one| one.library == 0x5000).len(), 3);
        code.forget(first);
        assert_eq!(
            code.reservation(loaded(0x20)),
            second,
            "also when the first is gone"
        );
    }

    #[test]
    fn functions_go_with_their_library() {
        let mut code = Code::default();
        code.is_part(0x60, 0x50);
        code.got(1, code.library_of(0x60));
        code.kernel_got(2, 0x70);
        assert_eq!((code.owner(1), code.owner(2)), (Some(0x50), Some(0x70)));
        code.unloaded(0x50);
        assert_eq!((code.owner(1), code.library_of(0x60)), (None, 0x60));
        assert!(code.with_kernels().eq([0x70]));
    }
}
