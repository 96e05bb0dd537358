//! The modules of native stacks: defined before the first stack that refers to them, ended once
//! unloaded.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::writer::lock::Lock;
use gpumem_capture::{Attempt, DefKind, Lost, Refused};
use gpumem_sys::own_stack;
use gpumem_unwind::modules::{self, Module, Span, describe};

use super::sink::{DefinitionSink, length};

/// Modules that have been defined and not been found unloaded.
pub(super) struct Modules {
    known: Lock<Known>,
    /// The generation of loaded modules that `known` is based on.
    generation: AtomicU64,
    /// The number of defined modules that have been unloaded.
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
            known: Lock::new(Known {
                list: Vec::new(),
                next: 1,
            }),
            generation: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    /// Changes whenever a defined module has been found unloaded, because its addresses may have a new
    /// meaning after that.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends the modules that have been found unloaded since the last call. Stacks with the same
    /// addresses in another module then count as different stacks.
    #[inline]
    pub(super) fn look<S: DefinitionSink + ?Sized>(&self, sink: &S) {
        if modules::generation() != self.generation.load(Ordering::Relaxed) {
            self.end_unloaded(sink);
        }
    }

    /// Defines the modules of `addresses` that are not defined yet. Code generated at run time has no
    /// module.
    ///
    /// # Errors
    /// [`Lost`] if a definition could not be recorded: a stack with these addresses must wait.
    pub(super) fn define<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        addresses: &[u64],
    ) -> Result<(), Lost> {
        modules::look();
        self.look(sink);
        let mut last: Option<Span> = None;
        for &address in addresses {
            // The call instruction is before the return address.
            let call = address.wrapping_sub(1);
            if last.is_some_and(|span| span.contains(call)) {
                continue;
            }
            let known = self.known.lock().find(call);
            last = match known {
                Some(span) => Some(span),
                None => self.add(sink, call)?,
            };
        }
        Ok(())
    }

    /// Defines the module that holds `call`, unless another thread did so first; returns its address
    /// range.
    #[cold]
    fn add<S: DefinitionSink + ?Sized>(&self, sink: &S, call: u64) -> Result<Option<Span>, Lost> {
        // The loader is queried with no lock held.
        let Some(module) = own_stack::run(|| describe(call)) else {
            return Ok(None);
        };
        sink.in_order(|attempt| {
            let mut known = self.known.lock();
            if let Some(span) = known.find(call) {
                return Ok(Ok(Some(span)));
            }
            let added = known.add(sink, attempt, &module)?;
            Ok(added.map(|()| Some(module.span)))
        })
    }

    /// Every thread that finds modules unloaded ends all of them before it continues, even if other
    /// threads do the same.
    #[cold]
    fn end_unloaded<S: DefinitionSink + ?Sized>(&self, sink: &S) {
        let seen = modules::generation();
        let all = self.known.lock().list.clone();
        let mut failed = false;
        for (id, module) in all {
            let now = own_stack::run(|| describe(module.span.start));
            if now.as_ref() == Some(&module) {
                continue;
            }
            let ended = sink.in_order(|attempt| {
                let mut known = self.known.lock();
                let Some(place) = known.list.iter().position(|(known, _)| *known == id) else {
                    return Ok(Ok(()));
                };
                let parts: [&[u8]; 1] = [&id.to_le_bytes()];
                let kind = DefKind::MODULE_END;
                let ended = sink.definition_without_waiting(attempt, kind, &parts)?;
                if ended.is_ok() {
                    known.list.remove(place);
                    self.epoch.fetch_add(1, Ordering::AcqRel);
                }
                Ok(ended)
            });
            failed |= ended.is_err();
        }
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

    fn add<S: DefinitionSink + ?Sized>(
        &mut self,
        sink: &S,
        attempt: Attempt,
        module: &Module,
    ) -> Result<Result<(), Lost>, Refused> {
        let path = module.path.to_string_lossy();
        let Span { start, end, bias } = module.span;
        let added = sink.definition_without_waiting(
            attempt,
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
        if added.is_err() {
            return Ok(added);
        }
        let place = self
            .list
            .partition_point(|(_, known)| known.span.start <= start);
        self.list.insert(place, (self.next, module.clone()));
        self.next += 1;
        Ok(added)
    }
}
