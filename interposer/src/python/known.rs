//! The last walk of a thread, remembered.
//!
//! Most frames are as they were when the thread's stack was last looked at. A frame at the same address,
//! at the same instruction of the same code and above the same older frame, needs no more than the loads
//! that show this; and the hash of all that lies below the newest frame that differs is known already.
//! Nothing is taken on trust: each frame is read, at each look.
//!
//! Only where code objects have numbers of their own (3.12 and later): elsewhere it takes a dozen loads to
//! tell which code object an address means.

use gpumem_capture::{CodeId, PyFrame};

use super::code;
use super::layout::{Entry, Instruction, Layout, SHIM_OWNER};
use super::memory::{load, plausible};
use super::thread::Thread;
use super::walk::{self, Frame};
use crate::stacks::hash;

/// Frames that are remembered, shims among them, and the [bottom](Memory::known).
const ROOM: usize = 384;
/// Places of the directory, a power of two.
const PLACES: usize = 512;

/// A frame of the last walk.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Known {
    /// Its address; 0: the bottom.
    frame: usize,
    /// Where it is in its code; 0 for a shim.
    instruction: usize,
    /// That of its code; 0 for a shim, and for code that has none.
    number: u32,
    is_shim: bool,
    /// Whether C code entered it, if it counts.
    entered_from_c: bool,
    /// Whether a shim lies on the newest of those that count: C code has entered the next one.
    over_shim: bool,
    /// How many of it and all older ones count.
    kept: u16,
    /// What it adds to the hash; [`NOT_MIXED`] if it does not count or has changed.
    mixed: u64,
    /// Of it and all older ones.
    hash: u64,
    /// The number of the stack whose newest frame it is, where that has been told; else 0.
    id: u32,
}

/// Of a frame that is to be looked at anew.
const NOT_MIXED: u64 = 0;

/// Where the words are that say what a frame is, and what they are to be.
#[derive(Debug)]
pub(super) struct Places {
    previous: usize,
    code: usize,
    instruction: usize,
    owner: usize,
    /// In the code.
    number: usize,
    code_start: usize,
    code_type: usize,
    layout: Layout,
}

impl Places {
    /// None for a layout without numbers of code.
    pub(super) fn of(layout: &Layout, code_type: usize) -> Option<Self> {
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
            number,
            code_start,
            code_type,
            layout: *layout,
        })
    }
}

/// What a look has told of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It has no frames.
    Empty,
    /// What [`Memory::note`] was told of it; never 0.
    Known(u32),
    /// Its hash: none is known of it yet.
    Hashed(Hashed),
    /// Only a walk can tell, which is always right.
    Unknown,
}

/// A stack by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// As [`hash::with_newer`] gives it.
    pub(crate) hash: u64,
    /// How many frames.
    pub(crate) len: usize,
}

/// The last walk of one thread. All zeros are one that has seen nothing.
pub struct Memory {
    /// The first is the bottom, on which the oldest frame lies: it stays as it is, all zeros. Each frame is
    /// the next one's `previous`.
    known: [Known; ROOM],
    /// The place of the newest.
    newest: usize,
    /// The interpreter's number.
    interpreter: u64,
    /// Whose the numbers of stacks are.
    owner: usize,
    /// Frames that are new, the newest first.
    fresh: [usize; ROOM],
    /// Where among the known ones a frame may be, by its address.
    directory: [u16; PLACES],
    /// So many looks are left out.
    rest: u32,
}

const _: () = assert!(size_of::<Known>() == 64);

/// After a stack that is too deep, so many are not looked at: they are likely to be as deep.
const REST: u32 = 64;

/// The stack cannot be told this way.
struct Otherwise;

impl Memory {
    /// The calling thread's stack. `most`: how many frames a stack may have, the same at each look. `owner`: of
    /// the numbers that are noted, which another one does not get.
    ///
    /// # Safety
    /// As [`walk::walk`], for the layout and the type of code that `places` were made of.
    #[inline(always)]
    pub(super) unsafe fn look(
        &mut self,
        places: &Places,
        thread: Thread,
        most: usize,
        owner: usize,
    ) -> Looked {
        let Thread {
            newest,
            interpreter,
        } = thread;
        if newest == 0 {
            return Looked::Empty;
        }
        if let Some(last) = self.known.get(self.newest)
            && last.frame == newest
            && last.id != 0
            && interpreter == self.interpreter
            && owner == self.owner
            // SAFETY: the thread's newest frame is live, and lies among the known ones.
            && unsafe { changed(places, self.at(self.newest)) } == self.known.as_ptr()
        {
            return Looked::Known(last.id);
        }
        // SAFETY: as above.
        unsafe { self.look_anew(places, newest, interpreter, most, owner) }
    }

    /// The same of a stack that is not as it was.
    ///
    /// # Safety
    /// As [`Memory::look`]; `newest` is the thread's newest frame, `interpreter` its interpreter's number.
    #[inline(never)]
    unsafe fn look_anew(
        &mut self,
        places: &Places,
        newest: usize,
        interpreter: u64,
        most: usize,
        owner: usize,
    ) -> Looked {
        if self.rest != 0 {
            self.rest -= 1;
            return Looked::Unknown;
        }
        if (interpreter, owner) != (self.interpreter, self.owner) {
            (self.interpreter, self.owner, self.newest) = (interpreter, owner, 0);
        }
        // SAFETY: promised by the caller.
        let mut looked = unsafe { self.update(places, newest) };
        if looked.is_err() && self.newest != 0 {
            // Frames lie on other frames than before: everything anew.
            self.newest = 0;
            // SAFETY: as above.
            looked = unsafe { self.update(places, newest) };
        }
        match self.known.get(self.newest) {
            Some(known) if looked.is_ok() && usize::from(known.kept) <= most => known.looked(),
            _ => {
                (self.newest, self.rest) = (0, REST);
                Looked::Unknown
            }
        }
    }

    /// The stack that the last look has told has this number.
    #[inline]
    pub fn note(&mut self, id: u32) {
        if let Some(newest) = self.known.get_mut(self.newest).filter(|k| k.frame != 0) {
            newest.id = id;
        }
    }

    /// # Safety
    /// As [`Memory::look`]; `newest` is the newest frame of the thread, or 0.
    #[inline(never)]
    unsafe fn update(&mut self, places: &Places, newest: usize) -> Result<(), Otherwise> {
        let (mut frame, mut fresh) = (newest, 0);
        let known = loop {
            if let Some(place) = self.place(frame) {
                break place;
            }
            if !plausible(frame) {
                return Err(Otherwise);
            }
            *self.fresh.get_mut(fresh).ok_or(Otherwise)? = frame;
            fresh += 1;
            // SAFETY: a live frame, as the newest one and what a live one says is its older one.
            frame = unsafe { load(frame, places.previous) };
        };
        // How many of the oldest are as they were.
        // SAFETY: the newest of them is a live frame, as above.
        self.newest = unsafe { self.compare(places, known) }?;
        while self.newest < known {
            // SAFETY: a live frame, as above.
            unsafe { self.append_known(places) }?;
        }
        for place in (0..fresh).rev() {
            let frame = *self.fresh.get(place).ok_or(Otherwise)?;
            // SAFETY: as above.
            unsafe { self.append(places, frame) }?;
            if let Some(place) = self.directory.get_mut(slot(frame)) {
                *place = self.newest as u16;
            }
        }
        Ok(())
    }

    /// Where the frame at this address is among the known ones; at the bottom if the address is 0.
    #[inline(always)]
    fn place(&self, frame: usize) -> Option<usize> {
        if frame == 0 {
            return Some(0);
        }
        let place = usize::from(*self.directory.get(slot(frame))?);
        let known = self.known.get(place)?;
        (place <= self.newest && known.frame == frame).then_some(place)
    }

    /// Reads the frame at the place `newest` and all older ones, and marks those that have changed. Up to
    /// which place they are as they were.
    ///
    /// # Safety
    /// That frame is a live one of this thread, or the bottom.
    #[inline(always)]
    unsafe fn compare(&mut self, places: &Places, newest: usize) -> Result<usize, Otherwise> {
        let (mut same, mut place) = (newest, newest);
        loop {
            // SAFETY: a live frame: the newest, by the caller's promise, or what a live one, as the last
            // round has seen, says is its older one.
            let found = unsafe { changed(places, self.at(place)) };
            if found.is_null() {
                return Err(Otherwise);
            }
            // SAFETY: both are among the known ones.
            place = unsafe { found.offset_from_unsigned(self.known.as_ptr()) };
            let Some(older) = place.checked_sub(1) else {
                return Ok(same);
            };
            let [older, known] = self.two(older)?;
            // SAFETY: a live frame, as above.
            if unsafe { load::<usize>(known.frame, places.previous) } != older.frame {
                return Err(Otherwise);
            }
            known.mixed = NOT_MIXED;
            place -= 1;
            same = place;
        }
    }

    /// The known frame at a place, from which older ones may be reached too.
    #[inline(always)]
    fn at(&self, place: usize) -> *const Known {
        debug_assert!(place < ROOM);
        self.known.as_ptr().wrapping_add(place)
    }

    /// A known frame and the one that lies on it.
    #[inline(always)]
    fn two(&mut self, older: usize) -> Result<&mut [Known; 2], Otherwise> {
        let from = self.known.get_mut(older..).ok_or(Otherwise)?;
        from.first_chunk_mut().ok_or(Otherwise)
    }

    /// Adds the frame to the known ones that was the next of them.
    ///
    /// # Safety
    /// As [`Memory::append`].
    #[inline(always)]
    unsafe fn append_known(&mut self, places: &Places) -> Result<(), Otherwise> {
        let [older, known] = self.two(self.newest)?;
        if known.mixed == NOT_MIXED || known.entered_from_c != older.over_shim {
            let frame = known.frame;
            // SAFETY: promised by the caller.
            return unsafe { self.append(places, frame) };
        }
        known.counts_on(older);
        self.newest += 1;
        Ok(())
    }

    /// Adds a frame to the known ones.
    ///
    /// # Safety
    /// `frame` is a live frame of this thread, whose older one is the newest of the known ones.
    #[inline(never)]
    unsafe fn append(&mut self, places: &Places, frame: usize) -> Result<(), Otherwise> {
        let interpreter = self.interpreter;
        let [older, new] = self.two(self.newest)?;
        // SAFETY: promised by the caller.
        let owner: u8 = unsafe { load(frame, places.owner) };
        if owner >= SHIM_OWNER {
            *new = Known {
                is_shim: true,
                over_shim: true,
                ..older.without(frame)
            };
            self.newest += 1;
            return Ok(());
        }
        // SAFETY: promised by the caller.
        let code = unsafe { load::<usize>(frame, places.code) } & walk::TAG_MASK;
        // SAFETY: a live frame, as above.
        if !unsafe { walk::is_code(&places.layout, places.code_type, code) } {
            return Err(Otherwise);
        }
        // SAFETY: a live frame and its code, as above.
        let (number, instruction) =
            unsafe { (load(code, places.number), load(frame, places.instruction)) };
        let start = code.wrapping_add(places.code_start);
        let offset = usize::wrapping_sub(instruction, start) as i32;
        if number == 0 {
            // SAFETY: as above.
            return unsafe { self.append_without_number(places, frame, code, offset) };
        }
        *new = older.with(frame, code, offset, code::numbered(number, interpreter));
        (new.instruction, new.number) = (instruction, number);
        self.newest += 1;
        Ok(())
    }

    /// The same of a frame at `offset` of code that has no number, and so is never known.
    ///
    /// # Safety
    /// As [`Memory::append`]; the frame is no shim, and has this code.
    #[cold]
    #[inline(never)]
    unsafe fn append_without_number(
        &mut self,
        places: &Places,
        frame: usize,
        code: usize,
        offset: i32,
    ) -> Result<(), Otherwise> {
        let [older, new] = self.two(self.newest)?;
        // SAFETY: promised by the caller.
        *new = unsafe {
            let owner = load(frame, places.owner);
            if walk::is_incomplete(&places.layout, code, offset, owner, 0) {
                older.without(frame)
            } else {
                let identity = code::identity(&places.layout, code, 0, 0);
                older.with(frame, code, offset, identity)
            }
        };
        self.newest += 1;
        Ok(())
    }
}

impl Known {
    /// The stack whose newest frame it is.
    #[inline(always)]
    fn looked(&self) -> Looked {
        match (self.kept, self.id) {
            (0, _) => Looked::Empty,
            (len, 0) => Looked::Hashed(Hashed {
                hash: self.hash,
                len: usize::from(len),
            }),
            (_, id) => Looked::Known(id),
        }
    }

    /// The frame that lies on this one, if it does not count.
    #[inline(always)]
    fn without(&self, frame: usize) -> Self {
        Self {
            frame,
            over_shim: self.over_shim,
            kept: self.kept,
            mixed: NOT_MIXED,
            hash: self.hash,
            ..Self::default()
        }
    }

    /// The frame that lies on this one, at `offset` of a code object.
    #[inline(always)]
    fn with(&self, frame: usize, code: usize, offset: i32, identity: u64) -> Self {
        let position = PyFrame {
            code: CodeId(0),
            offset,
            entered_from_c: self.over_shim,
        };
        let mut new = Self {
            entered_from_c: self.over_shim,
            mixed: hash::mixed(&Frame {
                code: code as u64,
                identity,
                word: position.word(),
            }),
            ..self.without(frame)
        };
        new.counts_on(self);
        new
    }

    /// It counts, and lies on `older`.
    #[inline(always)]
    fn counts_on(&mut self, older: &Self) {
        self.hash = hash::with_newer(older.hash, self.mixed);
        self.kept = older.kept + 1;
        self.id = 0;
        self.over_shim = false;
    }
}

/// Where a frame's place is in the directory.
#[inline(always)]
fn slot(frame: usize) -> usize {
    const SHIFT: u32 = u64::BITS - PLACES.trailing_zeros();
    ((frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
}

/// The newest of `known` and all older frames that is not as it was; the bottom if all are. Null if one
/// that is as it was lies on another frame than it did.
///
/// A frame is as it was if it is at the same instruction, and if the number of its code is that of the code
/// that had this instruction: no other code of this interpreter has had the number, not at another address
/// either. A shim's instruction is the interpreter's own, so no shim goes for a frame of code. A frame whose
/// code has no number never is as it was.
///
/// This is run for each frame at each look, so it is made of as few instructions as can be.
///
/// # Safety
/// `known` is one of a [`Memory`]'s, at which there is a live frame of the calling thread, or its bottom.
#[inline(never)]
unsafe fn changed(places: &Places, known: *const Known) -> *const Known {
    let mut known = known;
    // SAFETY: it is the caller's, or an older one than that: before the bottom the loop ends. There is a live
    // frame at its address: the caller says so, or a live frame has said that this is its older one. A live
    // frame at an instruction of code has a code object.
    unsafe {
        let mut frame = (*known).frame;
        loop {
            let number = (*known).number;
            if number != 0 {
                if load::<usize>(frame, places.instruction) != (*known).instruction {
                    return known;
                }
                let code = load::<usize>(frame, places.code) & walk::TAG_MASK;
                if load::<u32>(code, places.number) != number {
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

#[cfg(test)]
mod tests;
