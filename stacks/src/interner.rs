//! Captures stacks and assigns ids to them.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use gpumem_capture::{DefKind, StackId};
use gpumem_python_frames::{self as python, Frame, Lookup, Runtime, StackHash};
use gpumem_sys::own_stack;
use gpumem_unwind::modules::Span;
use gpumem_unwind::{Registers, Stack};

use super::codes::Codes;
use super::hash;
use super::id_table::IdTable;
use super::interpreter::Interpreter;
use super::kinds::Stacks;
use super::modules::Modules;
use super::nn_modules::NnModules;
use super::scratch::{self, PYTHON_FRAMES, Scratch};
use super::sink::DefinitionSink;

/// Flag of a stack whose older frames were cut off.
const TRUNCATED: u32 = 1;

/// The stacks of one capture.
pub struct Interner {
    python: IdTable,
    native: IdTable,
    /// The next id; Python and native stacks share the numbers.
    next: AtomicU32,
    codes: Codes,
    modules: Modules,
    nn_modules: NnModules,
    interpreter: Interpreter,
    /// The address range of this library; None if it is linked into the program, as in tests.
    own_span: OnceLock<Option<Span>>,
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

impl Interner {
    /// An interner without stacks.
    pub const fn new() -> Self {
        Self {
            python: IdTable::new(),
            native: IdTable::new(),
            next: AtomicU32::new(1),
            codes: Codes::new(),
            modules: Modules::new(),
            nn_modules: NnModules::new(),
            interpreter: Interpreter::new(),
            own_span: OnceLock::new(),
        }
    }

    /// The ids of the calling thread's Python and native stacks. [`StackId::NONE`] for a stack that is not wanted, does
    /// not exist or could not be defined. The native stack starts at `from`, or at the caller of this function. An
    /// interner must be used with one sink only.
    #[inline]
    pub fn take<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        want: Stacks,
        from: Option<Registers>,
    ) -> (StackId, StackId) {
        if want == Stacks::Off || !sink.is_open() {
            return (StackId::NONE, StackId::NONE);
        }
        scratch::with(|scratch| {
            let python = match want.python() {
                true => self.python(sink, scratch),
                false => 0,
            };
            let native = want.native().then(|| self.native(sink, from, scratch));
            (
                StackId(python),
                native.flatten().map_or(StackId::NONE, StackId),
            )
        })
        .unwrap_or_default()
    }

    /// Defines the modules of code or data addresses, so that an event may refer to them. If a definition is lost, its
    /// address has no module.
    pub fn know_modules<S: DefinitionSink + ?Sized>(&self, sink: &S, addresses: &[u64]) {
        let _ = self.modules.define(sink, addresses);
    }

    /// Records the name that the program has for the PyTorch module at an address. False if no stack has contained the
    /// module yet, or if it could not be recorded.
    ///
    /// # Safety
    /// A live Python object is at the address.
    pub unsafe fn name_module<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        address: usize,
        name: &[u8],
    ) -> bool {
        let Some(runtime) = self.interpreter.announced() else {
            return false;
        };
        // SAFETY: promised by the caller.
        let module = unsafe { runtime.module_at(address) };
        self.nn_modules.name(sink, module, name)
    }

    /// Writes the addresses of PyTorch modules that no other module called to `out`, as far as it has room; returns how
    /// many there are. The objects may no longer exist.
    pub fn module_roots(&self, out: &mut [usize]) -> usize {
        self.nn_modules.roots(out)
    }

    /// The number of PyTorch modules in all stacks so far.
    pub fn module_count(&self) -> usize {
        self.nn_modules.count()
    }

    /// The id of a definition of another kind, by its hash; it shares the ids of Python stacks. None if it could not be
    /// defined. For a new definition, `define` calls the function that it gets with the payload, which starts with the
    /// id.
    pub fn derived<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        hash: u64,
        kind: DefKind,
        define: impl FnOnce(u32, &dyn Fn(&[&[u8]]) -> Option<u32>) -> Option<u32>,
    ) -> StackId {
        let id = self.python.get(hash).or_else(|| {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            define(id, &|parts| {
                self::define(&self.python, sink, hash, id, kind, parts)
            })
        });
        id.map_or(StackId::NONE, StackId)
    }

    /// The id of the calling thread's Python stack; 0 for none.
    #[inline(never)]
    fn python<S: DefinitionSink + ?Sized>(&self, sink: &S, scratch: &mut Scratch) -> u32 {
        match self.interpreter.announced() {
            Some(runtime) => self.looked(sink, runtime, scratch),
            None => self.first_python(sink, scratch),
        }
    }

    /// The same, if the capture does not yet state which Python this is or why there are no stacks.
    #[cold]
    #[inline(never)]
    fn first_python<S: DefinitionSink + ?Sized>(&self, sink: &S, scratch: &mut Scratch) -> u32 {
        let runtime = own_stack::run(|| self.interpreter.find(sink));
        runtime.map_or(0, |runtime| self.looked(sink, runtime, scratch))
    }

    /// Identifies the interner that the ids remembered by a thread belong to.
    #[inline(always)]
    fn owner(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The id of the thread's current stack; 0 for none.
    #[inline(always)]
    fn looked<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        scratch: &mut Scratch,
    ) -> u32 {
        match runtime.look(&mut scratch.last, PYTHON_FRAMES, self.owner()) {
            Some(Lookup::Known(id)) => id,
            Some(Lookup::Hashed(hashed)) => self.python_by_hash(sink, runtime, scratch, hashed),
            Some(Lookup::Unknown) => self
                .python_by_walk(sink, runtime, scratch, None)
                .unwrap_or(0),
            Some(Lookup::Empty) | None => 0,
        }
    }

    /// The id of a stack that has changed since the thread's last look; 0 for none.
    #[inline(never)]
    fn python_by_hash<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        scratch: &mut Scratch,
        hashed: StackHash,
    ) -> u32 {
        let hash = hashed.finish();
        if let Some(id) = self.python.get(hash) {
            scratch.last.note(id);
            return id;
        }
        self.python_by_walk(sink, runtime, scratch, Some(hash))
            .unwrap_or(0)
    }

    /// The id of a stack that is new or cannot be identified by what is remembered. `looked`: its hash by that method.
    #[inline(never)]
    fn python_by_walk<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        scratch: &mut Scratch,
        looked: Option<u64>,
    ) -> Option<u32> {
        let calls = runtime.module_calls();
        let walked = runtime.walk(&mut scratch.python)?;
        let frames = scratch.python.get(..walked.len).unwrap_or_default();
        if frames.is_empty() {
            return None;
        }
        let hash = python::hash::stack(frames, walked.truncated);
        if looked.is_some_and(|looked| looked != hash) {
            // The remembered frames are older than the function through which modules are called.
            scratch.last.forget();
        }
        if let Some(id) = self.python.get(hash) {
            return Some(id);
        }
        let Scratch { payload, names, .. } = scratch;
        let id = self.begin(payload, walked.truncated, frames.len(), size_of::<u64>())?;
        // SAFETY: the frames are those of the walk above, on this thread.
        unsafe {
            self.define_codes(sink, runtime, frames, payload, names)?;
            if runtime.module_calls() != calls {
                // This stack may call modules, which the walk did not take into account.
                return self.python_by_walk(sink, runtime, scratch, looked);
            }
            self.nn_modules.add(sink, runtime, frames, payload, names)?;
        }
        define(&self.python, sink, hash, id, DefKind::PY_STACK, &[payload])
    }

    /// Defines the code objects of frames and adds the frames to a stack's payload.
    ///
    /// # Safety
    /// As [`Runtime::code`], for each of the frames.
    #[cold]
    unsafe fn define_codes<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        frames: &[Frame],
        payload: &mut Vec<u8>,
        names: &mut Vec<u8>,
    ) -> Option<()> {
        for frame in frames {
            // SAFETY: promised by the caller.
            let code = unsafe { self.codes.id(sink, runtime, frame, names)? };
            payload.extend_from_slice(&code.0.to_le_bytes());
            payload.extend_from_slice(&frame.position.bits().to_le_bytes());
        }
        Some(())
    }

    fn native<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        from: Option<Registers>,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        let taken = scratch
            .unwinder
            .take(from, *self.own_span.get_or_init(own_span));
        // After the walk, which detects unloaded modules.
        self.modules.look(sink);
        if taken.len == 0 {
            return None;
        }
        let epoch = self.modules.epoch();
        // Ids belong to this interner and to the modules of this epoch. The bits of the rotated epoch do not overlap
        // those of the address.
        let by = core::ptr::from_ref(self) as u64 ^ epoch.rotate_right(16);
        if let Some(id) = scratch.unwinder.noted(by) {
            return Some(id);
        }
        let id = self.native.get(hash::native(&taken, epoch));
        match id {
            Some(id) => scratch.unwinder.note(by, id),
            None => return self.define_native(sink, taken, scratch),
        }
        id
    }

    #[cold]
    fn define_native<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        taken: Stack,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        let Scratch {
            unwinder,
            native,
            payload,
            ..
        } = scratch;
        let len = unwinder.frames(native);
        let addresses = native.get(..len)?;
        self.modules.define(sink, addresses).ok()?;
        let hash = hash::native(&taken, self.modules.epoch());
        if let Some(id) = self.native.get(hash) {
            return Some(id);
        }
        let id = self.begin(payload, taken.truncated, len, size_of::<u64>())?;
        for address in addresses {
            payload.extend_from_slice(&address.to_le_bytes());
        }
        let kind = DefKind::NATIVE_STACK;
        define(&self.native, sink, hash, id, kind, &[payload])
    }

    /// Starts a stack's payload with room for its frames and assigns an id.
    fn begin(
        &self,
        payload: &mut Vec<u8>,
        truncated: bool,
        frames: usize,
        frame_size: usize,
    ) -> Option<u32> {
        payload.clear();
        payload.try_reserve(12 + frames * frame_size).ok()?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let flags = if truncated { TRUNCATED } else { 0 };
        for word in [id, flags, frames as u32] {
            payload.extend_from_slice(&word.to_le_bytes());
        }
        Some(id)
    }
}

/// The id of `hash` in a table: the id of another thread's definition, or `id` once it is defined. None if that failed.
#[cold]
fn define<S: DefinitionSink + ?Sized>(
    table: &IdTable,
    sink: &S,
    hash: u64,
    id: u32,
    kind: DefKind,
    parts: &[&[u8]],
) -> Option<u32> {
    sink.in_order(|attempt| {
        table.get_or_define(hash, || {
            let recorded = sink.definition_without_waiting(attempt, kind, parts)?;
            Ok(recorded.ok().map(|()| id))
        })
    })
}

/// The address range of this library; None if it is linked into the program, as in tests.
fn own_span() -> Option<Span> {
    let here = own_span as *const () as u64;
    let module = own_stack::run(|| gpumem_unwind::modules::describe(here))?;
    (!module.is_program).then_some(module.span)
}
