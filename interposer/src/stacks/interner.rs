//! Takes stacks and gives them ids.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use gpumem_capture::{DefKind, Lost, StackId};
use gpumem_python_frames::{self as python, Finding, Frame, Lookup, Runtime, StackHash};
use gpumem_unwind::modules::Span;
use gpumem_unwind::{Registers, Stack};

use super::backward::Backward;
use super::buffers::{self, Buffers, PYTHON_FRAMES};
use super::codes::Codes;
use super::hash;
use super::kinds::Stacks;
use super::modules::Modules;
use super::sink::{DefinitionSink, length};
use super::table::IdTable;

use crate::lock::Lock;

/// Flag of a stack whose older frames were cut off.
const TRUNCATED: u32 = 1;

/// Bytes of the name of a node's class that are kept.
const NODE_NAME: usize = 256;

/// The stacks of one capture.
pub struct Interner {
    python: IdTable,
    native: IdTable,
    /// The next id; Python and native stacks share the numbers.
    next: AtomicU32,
    codes: Codes,
    modules: Modules,
    /// Whether the capture says which Python this is, or why its stacks are missing.
    announced: AtomicBool,
    /// The interpreter, once the capture says which it is; null before, and if there is none to be read.
    runtime: AtomicPtr<Runtime>,
    announcing: Lock<()>,
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

impl Interner {
    /// Knows no stack.
    pub const fn new() -> Self {
        Self {
            python: IdTable::new(),
            native: IdTable::new(),
            next: AtomicU32::new(1),
            codes: Codes::new(),
            modules: Modules::new(),
            announced: AtomicBool::new(false),
            runtime: AtomicPtr::new(core::ptr::null_mut()),
            announcing: Lock::new(()),
        }
    }

    /// The Python and the native stack of the calling thread: see [`super::own`]. The native one begins
    /// at `from`, or at the caller of this. An interner serves one sink only.
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
        buffers::with(|buffers| {
            let python = match want.python() {
                true => self.python(sink, buffers),
                false => 0,
            };
            let native = want.native().then(|| self.native(sink, from, buffers));
            (
                StackId(python),
                native.flatten().map_or(StackId::NONE, StackId),
            )
        })
        .unwrap_or_default()
    }

    /// Defines the modules of code or data addresses, so that an event may name one of them. One whose
    /// definition is lost stays without a module.
    pub fn know_modules<S: DefinitionSink + ?Sized>(&self, sink: &S, addresses: &[u64]) {
        let _ = self.modules.define(sink, addresses);
    }

    /// The number of what a node of PyTorch's autograd made, one of the Python stacks'; none if it could
    /// not be defined. `name` writes the name of the node's class to the room given and says how long it
    /// is.
    pub(crate) fn backward<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        made: &Backward,
        name: impl FnOnce(&mut [u8]) -> usize,
    ) -> StackId {
        let hash = hash::backward(made);
        let id = self.python.get(hash).or_else(|| {
            let mut room = [0; NODE_NAME];
            let length_of_name = name(&mut room);
            let name = room.get(..length_of_name).unwrap_or_default();
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let parts: [&[u8]; 7] = [
                &id.to_le_bytes(),
                &u32::from(made.lost).to_le_bytes(),
                &made.forward.0.to_le_bytes(),
                &made.own.0.to_le_bytes(),
                &made.newer.to_le_bytes(),
                &length(name),
                name,
            ];
            define(&self.python, sink, hash, id, DefKind::BACKWARD, &parts)
        });
        id.map_or(StackId::NONE, StackId)
    }

    /// The number of the calling thread's Python stack; 0 for none.
    #[inline(never)]
    fn python<S: DefinitionSink + ?Sized>(&self, sink: &S, buffers: &mut Buffers) -> u32 {
        // SAFETY: null, or that of the process's one finding.
        let Some(runtime) = (unsafe { self.runtime.load(Ordering::Acquire).as_ref() }) else {
            return self.first_python(sink, buffers);
        };
        self.looked(sink, runtime, buffers)
    }

    /// The same where the capture does not say which Python this is, or says why there are no stacks.
    #[cold]
    #[inline(never)]
    fn first_python<S: DefinitionSink + ?Sized>(&self, sink: &S, buffers: &mut Buffers) -> u32 {
        match python::finding() {
            Some(finding) if self.announce(sink, finding).is_ok() => match finding {
                Finding::Readable(runtime) => self.looked(sink, runtime, buffers),
                Finding::Declined(_) => 0,
            },
            _ => 0,
        }
    }

    /// Whose the numbers are that a thread remembers.
    #[inline(always)]
    fn owner(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The number of the stack that the thread has now; 0 for none.
    #[inline(always)]
    fn looked<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        buffers: &mut Buffers,
    ) -> u32 {
        match runtime.look(&mut buffers.last, PYTHON_FRAMES, self.owner()) {
            Some(Lookup::Known(id)) => id,
            Some(Lookup::Hashed(hashed)) => self.python_by_hash(sink, runtime, buffers, hashed),
            Some(Lookup::Unknown) => self.python_by_walk(sink, runtime, buffers).unwrap_or(0),
            Some(Lookup::Empty) | None => 0,
        }
    }

    /// The number of a stack that is not as it was when the thread last looked at it; 0 for none.
    #[inline(never)]
    fn python_by_hash<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        buffers: &mut Buffers,
        hashed: StackHash,
    ) -> u32 {
        if let Some(id) = self.python.get(hashed.finish()) {
            buffers.last.note(id);
            return id;
        }
        self.python_by_walk(sink, runtime, buffers).unwrap_or(0)
    }

    /// The number of a new stack, or of one that is not told by what is remembered.
    #[inline(never)]
    fn python_by_walk<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        buffers: &mut Buffers,
    ) -> Option<u32> {
        let walked = runtime.walk(&mut buffers.python)?;
        let frames = buffers.python.get(..walked.len).unwrap_or_default();
        if frames.is_empty() {
            return None;
        }
        let hash = python::hash::stack(frames, walked.truncated);
        self.python.get(hash).or_else(|| {
            let Buffers { payload, names, .. } = buffers;
            let id = self.begin(payload, walked.truncated, frames.len(), size_of::<u64>())?;
            // SAFETY: the frames are those of the walk above, on this thread.
            unsafe { self.define_codes(sink, runtime, frames, payload, names)? };
            define(&self.python, sink, hash, id, DefKind::PY_STACK, &[payload])
        })
    }

    /// Defines the code objects of frames, and adds the frames to a stack's payload.
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
        buffers: &mut Buffers,
    ) -> Option<u32> {
        let taken = buffers.unwinder.take(from, own_span());
        // After the walk, which notices what has been unloaded.
        self.modules.look(sink);
        if taken.len == 0 {
            return None;
        }
        let epoch = self.modules.epoch();
        // Ids are this interner's, and of the modules of this epoch: the address has no bits where the epoch's are.
        let by = core::ptr::from_ref(self) as u64 ^ epoch.rotate_right(16);
        if let Some(id) = buffers.unwinder.noted(by) {
            return Some(id);
        }
        let id = self.native.get(hash::native(&taken, epoch));
        match id {
            Some(id) => buffers.unwinder.note(by, id),
            None => return self.define_native(sink, taken, buffers),
        }
        id
    }

    #[cold]
    fn define_native<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        taken: Stack,
        buffers: &mut Buffers,
    ) -> Option<u32> {
        let Buffers {
            unwinder,
            native,
            payload,
            ..
        } = buffers;
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

    /// Begins a stack's payload with room for its frames, and gives it a number.
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

    /// Says in the capture which Python this is, or why there are no Python stacks; once.
    #[cold]
    fn announce<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        finding: &'static Finding,
    ) -> Result<(), Lost> {
        sink.in_order(|attempt| {
            if self.announced.load(Ordering::Acquire) {
                return Ok(Ok(()));
            }
            let _alone = self.announcing.lock();
            if self.announced.load(Ordering::Acquire) {
                return Ok(Ok(()));
            }
            let define =
                |kind, parts: &[&[u8]]| sink.definition_without_waiting(attempt, kind, parts);
            let recorded = match finding {
                Finding::Readable(runtime) => {
                    let (start, end) = runtime.evaluation();
                    let version = runtime.version().0.to_le_bytes();
                    let (start, end) = (start.to_le_bytes(), end.to_le_bytes());
                    define(DefKind::PYTHON, &[&version, &start, &end])?
                }
                Finding::Declined(why) => {
                    let note = format!("no Python stacks are recorded: {why}");
                    define(DefKind::NOTE, &[&length(note.as_bytes()), note.as_bytes()])?
                }
            };
            if recorded.is_ok() {
                if let Finding::Readable(runtime) = finding {
                    let runtime = core::ptr::from_ref::<Runtime>(runtime).cast_mut();
                    self.runtime.store(runtime, Ordering::Release);
                }
                self.announced.store(true, Ordering::Release);
            }
            Ok(recorded)
        })
    }
}

/// The id of `hash` in a table: that of another thread's definition, or else `id` once it is defined. None if that
/// failed.
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

/// Where this library lies; None if it is part of the program, as in tests.
fn own_span() -> Option<Span> {
    static OWN: OnceLock<Option<Span>> = OnceLock::new();
    *OWN.get_or_init(|| {
        let here = own_span as *const () as u64;
        let module = gpumem_unwind::modules::describe(here)?;
        (!module.is_program).then_some(module.span)
    })
}
