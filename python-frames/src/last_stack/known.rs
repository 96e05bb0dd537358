//! A frame of the last walk, and whether it is as it was.

use crate::frame::{Frame, ModuleObject, Position};
use crate::hash;
use crate::layout::{Entry, Instruction, Layout, SHIM_OWNER, TAG_MASK};
use crate::memory::load;

/// A frame of the last walk.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct KnownFrame {
    /// Its address; 0: the bottom.
    pub(super) frame: usize,
    /// Where it is in its code; 0 for a shim.
    pub(super) instruction: usize,
    /// That of its code; 0 for a shim, and for code that has none.
    pub(super) number: u32,
    pub(super) is_shim: bool,
    /// Whether C code entered it, if it counts.
    pub(super) entered_from_c: bool,
    /// Whether a shim lies on the newest of those that count: C code has entered the next one.
    pub(super) over_shim: bool,
    /// How many of it and all older ones count.
    pub(super) kept: u16,
    /// The number of its code if it calls a module; `number` is 0 then.
    pub(super) call_number: u32,
    /// What it adds to the hash; [`NOT_MIXED`] if it does not count or has changed.
    pub(super) mixed: u64,
    /// Of it and all older ones.
    pub(super) hash: u64,
    /// The number of the stack whose newest frame it is, where that has been told; else 0.
    pub(super) id: u32,
    /// Of the type of the module that it calls: 36 bits of the address, without the last four.
    pub(super) kind: u32,
    /// The module that it calls, its first local.
    pub(super) module: usize,
}

/// Of a frame that is to be looked at anew.
pub(super) const NOT_MIXED: u64 = 0;

const _: () = assert!(size_of::<KnownFrame>() == 64);

/// Where the words are that say what a frame is, and what they are to be.
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
    /// What the oldest frame lies on.
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

    /// The frame that lies on this one, if it does not count.
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

    /// The frame that lies on this one, at `offset` of a code object.
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

    /// It is at an instruction of code with a number, and calls this module.
    #[inline(always)]
    pub(super) fn calls(&mut self, instruction: usize, number: u32, module: ModuleObject) {
        // Without a module it stays one that is never known.
        if module != ModuleObject::NONE {
            (self.instruction, self.call_number) = (instruction, number);
            (self.module, self.kind) = (module.address as usize, kind_word(module.kind));
        }
    }

    /// It counts, and lies on `older`.
    #[inline(always)]
    pub(super) fn counts_on(&mut self, older: &Self) {
        self.hash = hash::chain(older.hash, self.mixed);
        self.kept = older.kept + 1;
        self.id = 0;
        self.over_shim = false;
    }
}

/// The newest of `known` and all older frames that is not as it was; the bottom if all are. Null if one
/// that is as it was lies on another frame than it did.
///
/// A frame is as it was if it is at the same instruction, and if the number of its code is that of the code
/// that had this instruction: no other code of this interpreter has had the number, not at another address
/// either. One that calls a module is as it was only if it calls the same module, too. A shim's instruction is the interpreter's own, so no shim goes for a frame of code. A frame whose
/// code has no number never is as it was.
///
/// This is run for each frame at each look, so it is made of as few instructions as can be.
///
/// # Safety
/// `known` is one of a [`StackMemo`](super::StackMemo)'s, at which there is a live frame of the calling thread, or its bottom.
#[inline(never)]
pub(super) unsafe fn changed(places: &Places, known: *const KnownFrame) -> *const KnownFrame {
    let mut known = known;
    // SAFETY: it is the caller's, or an older one than that: before the bottom the loop ends. There is a live
    // frame at its address: the caller says so, or a live frame has said that this is its older one. A live
    // frame at an instruction of code has a code object, and one that calls a module has it as its first local.
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

/// What is remembered of a type's address. Types are aligned to 16 bytes.
#[inline(always)]
fn kind_word(kind: u64) -> u32 {
    (kind >> 4) as u32
}
