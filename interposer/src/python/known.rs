//! The last walk of a thread, remembered.
//!
//! Most frames are as they were when the thread's stack was last looked at. A frame at the same address,
//! with the same code, at the same instruction and above the same older frame, needs no more than the loads
//! that show this; and the hash of all that lies below the newest frame that differs is known already.
//! Nothing is taken on trust: each frame is read, at each look.
//!
//! Only where code objects have numbers of their own (3.12 and later): elsewhere it takes a dozen loads to
//! tell which code object an address means.

use gpumem_capture::{CodeId, PyFrame};

use super::code;
use super::layout::{Entry, Instruction, Layout, SHIM_OWNER};
use super::memory::{load, plausible};
use super::walk::{self, Frame};
use crate::stacks::hash;

/// Frames that are remembered, shims among them.
const ROOM: usize = 384;
/// Places of the directory, a power of two.
const PLACES: usize = 512;

/// A frame of the last walk.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its address.
    frame: usize,
    /// What was read there.
    words: Words,
    /// What it adds to the hash; [`NOT_MIXED`] if it does not count or has changed.
    mixed: u64,
    /// Of it and all older ones.
    hash: u64,
    /// The number of the stack whose newest frame it is, where that has been told; else 0.
    id: u32,
    /// How many of those count.
    kept: u16,
    /// Whether C code entered it, if it counts.
    entered_from_c: bool,
    /// Whether a shim lies on the newest of those: C code has entered the next one that counts.
    over_shim: bool,
}

/// Of a frame that is to be looked at anew.
const NOT_MIXED: u64 = 0;

/// The words of a frame that say what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Words {
    previous: usize,
    /// As the frame has it; 0 for a shim.
    code: usize,
    /// 0 for a shim.
    instruction: usize,
    /// That of the code; 0 for a shim, and for code that has none.
    number: u32,
    owner: u8,
}

impl Words {
    fn is_shim(&self) -> bool {
        self.owner >= SHIM_OWNER
    }
}

/// Where [`Words`] are, and what they are to be.
#[derive(Clone, Copy)]
struct Places<'a> {
    layout: &'a Layout,
    code_type: usize,
    previous: usize,
    code: usize,
    instruction: usize,
    code_start: usize,
    owner: usize,
    number: usize,
}

impl<'a> Places<'a> {
    /// None for a layout without numbers of code.
    #[inline]
    fn of(layout: &'a Layout, code_type: usize) -> Option<Self> {
        let frame = &layout.frame;
        let (Entry::Shim { owner }, Instruction::Pointer { at, code_start }, Some(number)) =
            (frame.entry, frame.instruction, layout.code.version)
        else {
            return None;
        };
        Some(Self {
            layout,
            code_type,
            previous: frame.previous,
            code: frame.code,
            instruction: at,
            code_start,
            owner,
            number,
        })
    }
}

/// A stack by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// As [`hash::with_newer`] gives it.
    pub(crate) hash: u64,
    /// How many frames.
    pub(crate) len: usize,
    /// What [`Memory::note`] was told of this stack; 0 if nothing.
    pub(crate) id: u32,
}

/// The last walk of one thread. All zeros are one that has seen nothing.
pub struct Memory {
    /// The oldest frame first. Each is the next one's `previous`, and the first one has none.
    known: [Known; ROOM],
    len: usize,
    /// The interpreter's number.
    interpreter: u64,
    /// Frames that are new, the newest first.
    fresh: [(usize, Words); ROOM],
    /// Where among the known ones a frame may be, by its address.
    directory: [u16; PLACES],
    /// So many looks are left out.
    rest: u32,
    /// Whose the numbers of stacks are.
    owner: usize,
}

const _: () = assert!(size_of::<Known>() == 64);

/// After a stack that is too deep, so many are not looked at: they are likely to be as deep.
const REST: u32 = 64;

/// The stack cannot be told this way.
struct Otherwise;

impl Memory {
    /// The hash of the calling thread's frames; None where only a walk can tell, which is always right.
    /// `most`: how many frames a stack may have. `owner`: of the numbers that are noted, which another one
    /// does not get.
    ///
    /// # Safety
    /// As [`walk::walk`].
    #[inline]
    pub(super) unsafe fn look(
        &mut self,
        layout: &Layout,
        code_type: usize,
        thread: usize,
        most: usize,
        owner: usize,
    ) -> Option<Hashed> {
        let places = Places::of(layout, code_type)?;
        // SAFETY: promised by the caller.
        let (newest, interpreter) = unsafe {
            (
                walk::newest(layout, thread),
                walk::interpreter(layout, thread),
            )
        };
        if newest == 0 {
            return Some(Hashed {
                hash: 0,
                len: 0,
                id: 0,
            });
        }
        if self.rest != 0 {
            self.rest -= 1;
            return None;
        }
        if (interpreter, owner) != (self.interpreter, self.owner) {
            (self.interpreter, self.owner, self.len) = (interpreter, owner, 0);
        }
        // SAFETY: promised by the caller, and `newest` is the newest frame.
        let mut looked = unsafe { self.update(&places, newest) };
        if looked.is_err() && self.len != 0 {
            // Frames lie on other frames than before: everything anew.
            self.len = 0;
            // SAFETY: as above.
            looked = unsafe { self.update(&places, newest) };
        }
        let Known { hash, kept, id, .. } = self.newest();
        let len = usize::from(kept);
        if looked.is_err() || len > most {
            (self.len, self.rest) = (0, REST);
            return None;
        }
        Some(Hashed { hash, len, id })
    }

    /// The stack that the last look has told has this number.
    #[inline]
    pub fn note(&mut self, id: u32) {
        let newest = self.len.checked_sub(1);
        if let Some(newest) = newest.and_then(|newest| self.known.get_mut(newest)) {
            newest.id = id;
        }
    }

    /// # Safety
    /// As [`Memory::look`]; `newest` is the thread's newest frame.
    #[inline]
    unsafe fn update(&mut self, places: &Places<'_>, newest: usize) -> Result<(), Otherwise> {
        let (mut frame, mut fresh) = (newest, 0);
        let mut known = 0;
        while frame != 0 {
            if let Some(place) = self.place(frame) {
                known = place + 1;
                break;
            }
            // SAFETY: a live frame, as the newest one and what a live one says is its older one.
            let words = unsafe { read(places, frame) }?;
            *self.fresh.get_mut(fresh).ok_or(Otherwise)? = (frame, words);
            fresh += 1;
            frame = words.previous;
        }
        // How many of the oldest are as they were.
        // SAFETY: the newest of them is a live frame, as above.
        let same = unsafe { self.compare(places, known) }?;
        if same == known && fresh == 0 && known == self.len {
            return Ok(());
        }
        self.len = same;
        for place in same..known {
            let known = *self.known.get(place).ok_or(Otherwise)?;
            // SAFETY: a live frame, and its words.
            unsafe { self.append_known(places, known) }?;
        }
        for place in (0..fresh).rev() {
            let (frame, words) = *self.fresh.get(place).ok_or(Otherwise)?;
            // SAFETY: as above.
            unsafe { self.append(places, frame, words) }?;
        }
        Ok(())
    }

    /// Where the frame at this address is among the known ones.
    #[inline]
    fn place(&self, frame: usize) -> Option<usize> {
        let place = usize::from(*self.directory.get(slot(frame))?);
        let known = self.known.get(..self.len)?.get(place)?;
        (known.frame == frame).then_some(place)
    }

    /// Reads the newest of the `known` oldest frames and all older ones, and puts down what has changed. How
    /// many of the oldest are as they were.
    ///
    /// # Safety
    /// The newest of them is a live frame of this thread.
    #[inline]
    unsafe fn compare(&mut self, places: &Places<'_>, known: usize) -> Result<usize, Otherwise> {
        let mut same = known;
        let frames = self.known.get_mut(..known).ok_or(Otherwise)?;
        for (place, known) in frames.iter_mut().enumerate().rev() {
            // SAFETY: a live frame: the newest, by the caller's promise, or what a live one, whose word for
            // it is as it was, says is its older one.
            if unsafe { is_same(places, known) } {
                continue;
            }
            // SAFETY: as above.
            let words = unsafe { read(places, known.frame) }?;
            if words.previous != known.words.previous {
                return Err(Otherwise);
            }
            (known.words, known.mixed) = (words, NOT_MIXED);
            same = place;
        }
        Ok(same)
    }

    /// Adds a frame to the known ones, in the place that it had.
    ///
    /// # Safety
    /// As [`Memory::append`].
    #[inline]
    unsafe fn append_known(&mut self, places: &Places<'_>, known: Known) -> Result<(), Otherwise> {
        let older = self.newest();
        if known.mixed == NOT_MIXED || known.entered_from_c != older.over_shim {
            // SAFETY: promised by the caller.
            return unsafe { self.append(places, known.frame, known.words) };
        }
        *self.known.get_mut(self.len).ok_or(Otherwise)? = known.counted_on(&older);
        self.len += 1;
        Ok(())
    }

    /// The newest of the known frames; the default if there is none.
    #[inline]
    fn newest(&self) -> Known {
        let newest = self.len.checked_sub(1).and_then(|at| self.known.get(at));
        newest.copied().unwrap_or_default()
    }

    /// Adds a frame to the known ones.
    ///
    /// # Safety
    /// `frame` is a live frame of this thread with these words.
    #[inline]
    unsafe fn append(
        &mut self,
        places: &Places<'_>,
        frame: usize,
        words: Words,
    ) -> Result<(), Otherwise> {
        // SAFETY: promised by the caller.
        let new = unsafe { self.newest().on(places, self.interpreter, frame, words) };
        *self.known.get_mut(self.len).ok_or(Otherwise)? = new;
        if let Some(place) = self.directory.get_mut(slot(frame)) {
            *place = self.len as u16;
        }
        self.len += 1;
        Ok(())
    }
}

impl Known {
    /// The frame that lies on this one, or on none if this is the default.
    ///
    /// # Safety
    /// `frame` is a live frame with these words.
    #[inline]
    unsafe fn on(&self, places: &Places<'_>, interpreter: u64, frame: usize, words: Words) -> Self {
        let new = Self {
            frame,
            words,
            mixed: NOT_MIXED,
            id: 0,
            ..*self
        };
        if words.is_shim() {
            return Self {
                over_shim: true,
                ..new
            };
        }
        let code = words.code & walk::TAG_MASK;
        let offset = words
            .instruction
            .wrapping_sub(code.wrapping_add(places.code_start)) as i32;
        // SAFETY: a live frame's code object: `read` has looked at its kind.
        let incomplete =
            unsafe { walk::is_incomplete(places.layout, code, offset, words.owner, words.number) };
        if incomplete {
            return new;
        }
        let position = PyFrame {
            code: CodeId(0),
            offset,
            entered_from_c: self.over_shim,
        };
        let mixed = hash::mixed(&Frame {
            code: code as u64,
            // SAFETY: as above.
            identity: unsafe { code::identity(places.layout, code, words.number, interpreter) },
            word: position.word(),
        });
        Self {
            mixed,
            entered_from_c: self.over_shim,
            ..new
        }
        .counted_on(self)
    }

    /// The same, of a frame that counts, lies on another one than it did, and has not changed itself.
    #[inline]
    fn counted_on(self, older: &Self) -> Self {
        Self {
            hash: hash::with_newer(older.hash, self.mixed),
            kept: older.kept + 1,
            id: 0,
            over_shim: false,
            ..self
        }
    }
}

/// Where a frame's place is in the directory.
#[inline]
fn slot(frame: usize) -> usize {
    const SHIFT: u32 = u64::BITS - PLACES.trailing_zeros();
    ((frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
}

/// Whether a known frame is as it was. One whose code has no number never is.
///
/// # Safety
/// There is a live frame of this thread at its address.
#[inline(always)]
unsafe fn is_same(places: &Places<'_>, known: &Known) -> bool {
    let Known { frame, words, .. } = known;
    // SAFETY: promised by the caller; where the frame has the code that it had, whose kind was looked at
    // then, there is a code object.
    unsafe {
        if load::<usize>(*frame, places.previous) != words.previous
            || load::<u8>(*frame, places.owner) != words.owner
        {
            return false;
        }
        words.is_shim()
            || words.number != 0
                && load::<usize>(*frame, places.code) == words.code
                && load::<usize>(*frame, places.instruction) == words.instruction
                && load::<u32>(words.code & walk::TAG_MASK, places.number) == words.number
    }
}

/// What a frame says of itself.
///
/// # Safety
/// As [`walk::walk`]; `frame` is a live frame of this thread.
#[inline(always)]
unsafe fn read(places: &Places<'_>, frame: usize) -> Result<Words, Otherwise> {
    if !plausible(frame) {
        return Err(Otherwise);
    }
    // SAFETY: promised by the caller.
    unsafe {
        let mut words = Words {
            previous: load(frame, places.previous),
            owner: load(frame, places.owner),
            ..Words::default()
        };
        if !words.is_shim() {
            words.code = load(frame, places.code);
            words.instruction = load(frame, places.instruction);
            let code = words.code & walk::TAG_MASK;
            if !walk::is_code(places.layout, places.code_type, code) {
                return Err(Otherwise);
            }
            words.number = load(code, places.number);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests;
