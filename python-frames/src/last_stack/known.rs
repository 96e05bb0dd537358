//! A frame of the last walk, and the check whether it is unchanged.

use crate::frame::{Frame, ModuleObject, Position};
use crate::hash;
use crate::layout::{Entry, Instruction, Layout, SHIM_OWNER, TAG_MASK};
use crate::memory::load;

/// A frame of the last walk.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct KnownFrame {
    /// Its address; 0 for the bottom.
    pub(super) frame: usize,
    /// Its position in its code; 0 for a shim.
    pub(super) instruction: usize,
    /// The number of its code; 0 for a shim, and for code without a number.
    pub(super) number: u32,
    pub(super) is_shim: bool,
    /// Whether C code entered it, if it counts.
    pub(super) entered_from_c: bool,
    /// Whether a shim is on top of the newest frame that counts: C code has entered the next frame.
    pub(super) over_shim: bool,
    /// The number of frames that count, among it and all older ones.
    pub(super) kept: u16,
    /// The number of its code if it calls a module; `number` is 0 then.
    pub(super) call_number: u32,
    /// Its contribution to the hash; [`NOT_MIXED`] if it does not count or has changed.
    pub(super) mixed: u64,
    /// The hash of it and all older frames.
    pub(super) hash: u64,
    /// The id of the stack whose newest frame it is, if that is known; otherwise 0.
    pub(super) id: u32,
    /// The type of the module that it calls: 36 bits of the address, without the last four.
    pub(super) kind: u32,
    /// The module that it calls, its first local.
    pub(super) module: usize,
}

/// Marks a frame that must be read again.
pub(super) const NOT_MIXED: u64 = 0;

const _: () = assert!(size_of::<KnownFrame>() == 64);

/// The offsets of the words that identify a frame, and their expected values.
#[derive(Debug)]
pub(crate) struct Places {
    pub(super) previous: usize,
    pub(super) code: usize,
    pub(super) instruction: usize,
    pub(super) owner: usize,
    pub(super) local: usize,
    /// In an object.
    pub(super) kind: usize,
    /// In the code.
    pub(super) number: usize,
    pub(super) code_start: usize,
    pub(super) code_type: usize,
    pub(super) layout: Layout,
}

impl Places {
    /// None for a layout without numbers of code.
    pub(crate) fn of(layout: &Layout, code_type: usize) -> Option<Self> {
        let frame = &layout.frame;
        let (Entry::Shim { owner }, Instruction::Pointer { at, code_start }, Some(number)) =
            (frame.entry, frame.instruction, layout.code.version)
        else {
            return None;
        };
        Some(Self {
            previous: frame.previous,
            code: frame.code,
            instruction: at,
            owner,
            local: frame.first_local,
            kind: layout.object.kind,
            number,
            code_start,
            code_type,
            layout: *layout,
        })
    }
}

impl KnownFrame {
    /// The entry below the oldest frame.
    pub(super) const BOTTOM: Self = Self {
        frame: 0,
        instruction: 0,
        number: 0,
        is_shim: false,
        entered_from_c: false,
        over_shim: false,
        kept: 0,
        call_number: 0,
        mixed: NOT_MIXED,
        hash: 0,
        id: 0,
        kind: 0,
        module: 0,
    };

    /// The frame on top of this one, if it does not count.
    #[inline(always)]
    pub(super) fn without(&self, frame: usize) -> Self {
        Self {
            frame,
            over_shim: self.over_shim,
            kept: self.kept,
            mixed: NOT_MIXED,
            hash: self.hash,
            ..Self::BOTTOM
        }
    }

    /// The frame on top of this one, at `offset` of a code object.
    #[inline(always)]
    pub(super) fn with(
        &self,
        frame: usize,
        code: usize,
        offset: i32,
        identity: u64,
        module: ModuleObject,
    ) -> Self {
        let mut new = Self {
            entered_from_c: self.over_shim,
            mixed: hash::frame_value(&Frame {
                code: code as u64,
                identity,
                position: Position::new(offset, self.over_shim),
                module,
            }),
            ..self.without(frame)
        };
        new.counts_on(self);
        new
    }

    /// Marks it as a frame at an instruction of code with a number, which calls this module.
    #[inline(always)]
    pub(super) fn calls(&mut self, instruction: usize, number: u32, module: ModuleObject) {
        // Without a module, the frame never counts as unchanged.
        if module != ModuleObject::NONE {
            (self.instruction, self.call_number) = (instruction, number);
            (self.module, self.kind) = (module.address as usize, kind_word(module.kind));
        }
    }

    /// Marks it as a frame that counts, on top of `older`.
    #[inline(always)]
    pub(super) fn counts_on(&mut self, older: &Self) {
        self.hash = hash::chain(older.hash, self.mixed);
        self.kept = older.kept + 1;
        self.id = 0;
        self.over_shim = false;
    }
}

/// The newest changed frame among `known` and all older ones; the bottom if all are unchanged. Null if an unchanged
/// frame is on top of a different frame than before.
///
/// A frame is unchanged if it is at the same instruction, and the number of its code is that of the code that had this
/// instruction. No other code of this interpreter has had the number, at any address. A frame that calls a module must
/// also call the same module. A shim's instruction belongs to the interpreter itself, so no shim matches a frame of
/// code. A frame whose code has no number never counts as unchanged.
///
/// This runs for each frame at each look, so it must compile to as few instructions as possible.
///
/// # Safety
/// `known` is one of a [`StackMemo`](super::StackMemo)'s frames with a live frame of the calling thread at its address,
/// or its bottom.
#[inline(never)]
pub(super) unsafe fn changed(places: &Places, known: *const KnownFrame) -> *const KnownFrame {
    let mut known = known;
    // SAFETY: it is the caller's, or an older one than that: the loop ends before the bottom. There is a live frame at
    // its address: the caller guarantees it, or a live frame has this one as its older one. A live frame at an
    // instruction of code has a code object, and one that calls a module has it as its first local.
    unsafe {
        let mut frame = (*known).frame;
        loop {
            let number = (*known).number;
            if number != 0 {
                if load::<usize>(frame, places.instruction) != (*known).instruction {
                    return known;
                }
                let code = load::<usize>(frame, places.code) & TAG_MASK;
                if load::<u32>(code, places.number) != number {
                    return known;
                }
            } else if (*known).call_number != 0 {
                if load::<usize>(frame, places.instruction) != (*known).instruction
                    || load::<usize>(frame, places.local) & TAG_MASK != (*known).module
                {
                    return known;
                }
                let code = load::<usize>(frame, places.code) & TAG_MASK;
                if load::<u32>(code, places.number) != (*known).call_number
                    || kind_word(load((*known).module, places.kind)) != (*known).kind
                {
                    return known;
                }
            } else if !(*known).is_shim || load::<u8>(frame, places.owner) < SHIM_OWNER {
                return known;
            }
            known = known.sub(1);
            frame = load(frame, places.previous);
            if frame != (*known).frame {
                return core::ptr::null();
            }
        }
    }
}

/// The part of a type's address that is remembered. Types are aligned to 16 bytes.
#[inline(always)]
fn kind_word(kind: u64) -> u32 {
    (kind >> 4) as u32
}
