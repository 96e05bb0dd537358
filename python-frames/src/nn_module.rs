//! Calls of `torch.nn.Module`: which frames are such calls, and which module object each of them calls.
//!
//! PyTorch calls every module through one function, and the module is that function's first argument. The function is
//! recognised by its names, when those are read for the first time ([`Runtime::note_module_call`]); a walk then
//! compares addresses.
//!
//! [`Runtime::note_module_call`]: crate::Runtime::note_module_call

use std::sync::OnceLock;

use crate::code::CodeText;
use crate::frame::ModuleObject;
use crate::layout::{Layout, TAG_MASK};
use crate::memory::{load, plausible};
use crate::version::Version;

impl ModuleObject {
    /// The module whose call is at `frame`. None if the first local is not an object: a cell variable's place is
    /// empty up to 3.10.
    ///
    /// # Safety
    /// `frame` is a live frame of code that [`ModuleCalls::has`], with the layout `layout`.
    #[inline(always)]
    pub(crate) unsafe fn called_at(layout: &Layout, frame: usize) -> Self {
        // SAFETY: promised by the caller; a function with an argument has a first local.
        let address = unsafe { load::<usize>(frame, layout.frame.first_local) } & TAG_MASK;
        if !plausible(address) {
            return Self::NONE;
        }
        Self {
            address: address as u64,
            // SAFETY: a local variable refers to a live object.
            kind: unsafe { load::<u64>(address, layout.object.kind) },
        }
    }
}

/// The maximum number of distinct functions: PyTorch has one, two with CPython up to 3.10, and each interpreter has
/// separate ones.
const PLACES: usize = 4;

/// The functions through which modules are called that have been seen so far: address and identity of each.
#[derive(Debug, Default)]
pub(crate) struct ModuleCalls([OnceLock<(usize, u64)>; PLACES]);

impl ModuleCalls {
    /// The number of recognised functions: when it grows, stacks of earlier walks may call modules.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().filter(|place| place.get().is_some()).count()
    }

    /// Whether the code at this address, with this identity, is one of them.
    #[inline(always)]
    pub(crate) fn has(&self, code: usize, identity: u64) -> bool {
        for place in &self.0 {
            match place.get() {
                None => return false,
                Some(&known) if known == (code, identity) => return true,
                Some(_) => {}
            }
        }
        false
    }

    /// Adds a function, if there is room.
    pub(crate) fn add(&self, code: usize, identity: u64) {
        let new = (code, identity);
        let mut places = self.0.iter();
        while places
            .next()
            .is_some_and(|place| *place.get_or_init(|| new) != new)
        {}
    }
}

/// Whether this is the function through which PyTorch calls a module: `_wrapped_call_impl`, up to PyTorch 1.13
/// `_call_impl`. The latter exists since 2.0 too, but a closure captures its first argument there. Up to CPython 3.10
/// the argument's place is then empty, which is detected; since 3.11 it holds a cell, so the function does not count.
pub(crate) fn is_module_call(version: Version, text: &CodeText<'_>) -> bool {
    let name = text.name.strip_prefix(b"Module.").unwrap_or(text.name);
    let is_call =
        name == b"_wrapped_call_impl" || name == b"_call_impl" && version.minor() <= (3, 10);
    is_call && text.file.ends_with(b"torch/nn/modules/module.py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address_and_identity() {
        let calls = ModuleCalls::default();
        assert!(!calls.has(0, 0));
        for code in 1..=PLACES {
            assert!(!calls.has(code * 16, 7));
            calls.add(code * 16, 7);
            calls.add(code * 16, 7);
            assert_eq!(calls.count(), code);
            assert!(calls.has(code * 16, 7) && !calls.has(code * 16, 8));
        }
        calls.add(0x9000, 7);
        assert!(!calls.has(0x9000, 7), "no room");
    }

    #[test]
    fn only_the_function_that_has_the_module_counts() {
        const FILE: &[u8] = b"/x/site-packages/torch/nn/modules/module.py";
        let is = |minor: u32, file: &[u8], name: &[u8]| {
            let text = CodeText {
                file,
                name,
                first_line: 1,
                line_table: b"",
            };
            is_module_call(Version(0x0300_00f0 | minor << 16), &text)
        };
        assert!(is(12, FILE, b"Module._wrapped_call_impl"));
        assert!(is(9, FILE, b"_wrapped_call_impl") && is(9, FILE, b"_call_impl"));
        assert!(!is(11, FILE, b"Module._call_impl"));
        assert!(!is(12, FILE, b"Module.forward") && !is(12, b"module.py", b"_wrapped_call_impl"));
    }
}
