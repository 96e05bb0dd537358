//! PyTorch module objects: each gets an id and is defined once.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use gpumem_capture::{DefKind, NnModuleId};
use gpumem_python_frames::hash;
use gpumem_python_frames::{Frame, ModuleObject, Runtime};

use super::id_table::IdTable;
use super::sink::{DefinitionSink, length};

/// Flag of a stack whose frames call modules.
const HAS_MODULES: u8 = 2;

/// The maximum number of outermost modules that are kept.
const ROOTS: usize = 64;

/// Ids of modules.
pub(super) struct NnModules {
    ids: IdTable,
    next: AtomicU32,
    /// Addresses of modules that no other module called, in order of first occurrence, followed by zeros.
    roots: [AtomicUsize; ROOTS],
}

impl NnModules {
    pub(super) const fn new() -> Self {
        Self {
            ids: IdTable::new(),
            next: AtomicU32::new(1),
            roots: [const { AtomicUsize::new(0) }; ROOTS],
        }
    }

    /// Adds to a stack's payload which of its frames call which modules, and defines new modules. None if that failed.
    ///
    /// # Safety
    /// As [`Runtime::class_name`], for each of the frames.
    #[cold]
    pub(super) unsafe fn add<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        frames: &[Frame],
        payload: &mut Vec<u8>,
        names: &mut Vec<u8>,
    ) -> Option<()> {
        let calls = || {
            let places = frames.iter().zip(0_u32..);
            places.filter(|(frame, _)| frame.module != ModuleObject::NONE)
        };
        let count = calls().count();
        if count == 0 {
            return Some(());
        }
        payload.try_reserve(4 + 8 * count).ok()?;
        // The flags come after the number.
        *payload.get_mut(4)? |= HAS_MODULES;
        payload.extend_from_slice(&(count as u32).to_le_bytes());
        for (frame, place) in calls() {
            // SAFETY: promised by the caller.
            let id = unsafe { self.id(sink, runtime, frame.module, names)? };
            payload.extend_from_slice(&place.to_le_bytes());
            payload.extend_from_slice(&id.0.to_le_bytes());
        }
        if let Some((root, _)) = calls().last() {
            self.add_root(root.module.address as usize);
        }
        Some(())
    }

    /// The id of a module. A new module is defined first. None if that failed.
    ///
    /// # Safety
    /// As [`Runtime::class_name`].
    unsafe fn id<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        module: ModuleObject,
        names: &mut Vec<u8>,
    ) -> Option<NnModuleId> {
        let hash = hash_of(module);
        if let Some(id) = self.ids.get(hash) {
            return Some(NnModuleId(id));
        }
        // SAFETY: promised by the caller.
        if !unsafe { runtime.class_name(module, names) } {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let define = |attempt| {
            let parts: [&[u8]; 4] = [
                &id.to_le_bytes(),
                &module.address.to_le_bytes(),
                &length(names),
                names,
            ];
            let recorded = sink.definition_without_waiting(attempt, DefKind::NN_MODULE, &parts)?;
            Ok(recorded.ok().map(|()| id))
        };
        sink.in_order(|attempt| self.ids.get_or_define(hash, || define(attempt)))
            .map(NnModuleId)
    }

    fn add_root(&self, address: usize) {
        for place in &self.roots {
            let known = place.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
            if known.is_ok() || known == Err(address) {
                return;
            }
        }
    }

    /// Writes the addresses of outermost modules to `out`, as far as it has room; returns how many there are.
    pub(super) fn roots(&self, out: &mut [usize]) -> usize {
        let roots = self.roots.iter().map(|place| place.load(Ordering::Acquire));
        let mut count = 0;
        for root in roots.take_while(|root| *root != 0) {
            if let Some(place) = out.get_mut(count) {
                *place = root;
            }
            count += 1;
        }
        count
    }

    /// How many modules have been seen.
    pub(super) fn count(&self) -> usize {
        self.next.load(Ordering::Relaxed) as usize - 1
    }

    /// Records the program's name for a module. False if no stack has contained it, or if recording failed.
    pub(super) fn name<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        module: ModuleObject,
        name: &[u8],
    ) -> bool {
        let Some(id) = self.ids.get(hash_of(module)) else {
            return false;
        };
        let parts: [&[u8]; 3] = [&id.to_le_bytes(), &length(name), name];
        sink.definition(DefKind::NN_MODULE_NAME, &parts).is_ok()
    }
}

fn hash_of(module: ModuleObject) -> u64 {
    hash::finish(hash::module(module), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_kept_once_and_in_order() {
        let modules = NnModules::new();
        for address in [0x1000, 0x2000, 0x1000, 0x3000] {
            modules.add_root(address);
        }
        let mut out = [0; 2];
        assert_eq!(modules.roots(&mut out), 3);
        assert_eq!(out, [0x1000, 0x2000]);
        (1..=100).for_each(|at| modules.add_root(at << 20));
        assert_eq!(modules.roots(&mut []), ROOTS);
    }
}
