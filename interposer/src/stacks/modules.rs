//! Modules that native stacks point into: defined before the first such stack, ended once unloaded.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpumem_capture::{DefKind, Lost};
use gpumem_unwind::modules::{self, Module, Span, describe};

use super::sink::{DefinitionSink, length};

/// Modules that have been defined and, as far as is known, are still loaded.
pub(super) struct Modules {
    known: Mutex<Known>,
    /// The generation of modules that `known` takes into account.
    generation: AtomicU64,
    /// How many defined modules have been unloaded.
    epoch: AtomicU64,
}

struct Known {
    /// By first address.
    list: Vec<(u32, Module)>,
    next: u32,
}

impl Modules {
    pub(super) const fn new() -> Self {
        Self {
            known: Mutex::new(Known {
                list: Vec::new(),
                next: 1,
            }),
            generation: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    /// Changes whenever a defined module has been found unloaded: an address may mean something else
    /// from then on.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends the modules that have been noticed to be unloaded since the last look, so that stacks with
    /// the same addresses as before, but in another module, are not taken for the old ones.
    #[inline]
    pub(super) fn look<S: DefinitionSink + ?Sized>(&self, sink: &S) {
        if modules::generation() != self.generation.load(Ordering::Relaxed) {
            self.end_unloaded(sink, &mut self.lock());
        }
    }

    /// Defines the modules of `addresses` that are not defined yet. Code that belongs to none (made at
    /// run time) has none.
    ///
    /// # Errors
    /// [`Lost`] if a definition could not be recorded: a stack with these addresses must wait.
    pub(super) fn define<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        addresses: &[u64],
    ) -> Result<(), Lost> {
        modules::look();
        let mut known = self.lock();
        if modules::generation() != self.generation.load(Ordering::Relaxed) {
            self.end_unloaded(sink, &mut known);
        }
        let mut last: Option<Span> = None;
        for &address in addresses {
            // The call is before the address that it returns to.
            let call = address.wrapping_sub(1);
            if last.is_some_and(|span| span.contains(call)) {
                continue;
            }
            if let Some(span) = known.find(call) {
                last = Some(span);
            } else if let Some(module) = describe(call) {
                last = Some(module.span);
                known.add(sink, module)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn end_unloaded<S: DefinitionSink + ?Sized>(&self, sink: &S, known: &mut Known) {
        let seen = modules::generation();
        let (mut ended, mut failed) = (0, false);
        known.list.retain(|(id, module)| {
            if describe(module.span.start).as_ref() == Some(module) {
                return true;
            }
            let recorded = sink.definition(DefKind::MODULE_END, &[&id.to_le_bytes()]);
            failed |= recorded.is_err();
            ended += u64::from(recorded.is_ok());
            recorded.is_err()
        });
        self.epoch.fetch_add(ended, Ordering::AcqRel);
        if !failed {
            self.generation.store(seen, Ordering::Relaxed);
        }
    }
}

impl Known {
    fn find(&self, address: u64) -> Option<Span> {
        let after = self
            .list
            .partition_point(|(_, module)| module.span.start <= address);
        let (_, module) = self.list.get(after.checked_sub(1)?)?;
        module.span.contains(address).then_some(module.span)
    }

    fn add<S: DefinitionSink + ?Sized>(&mut self, sink: &S, module: Module) -> Result<(), Lost> {
        let path = module.path.to_string_lossy();
        let Span { start, end, bias } = module.span;
        sink.definition(
            DefKind::MODULE,
            &[
                &self.next.to_le_bytes(),
                &bias.to_le_bytes(),
                &start.to_le_bytes(),
                &end.to_le_bytes(),
                &length(path.as_bytes()),
                path.as_bytes(),
                &length(module.build_id.as_bytes()),
                module.build_id.as_bytes(),
            ],
        )?;
        let place = self
            .list
            .partition_point(|(_, known)| known.span.start <= start);
        self.list.insert(place, (self.next, module));
        self.next += 1;
        Ok(())
    }
}
