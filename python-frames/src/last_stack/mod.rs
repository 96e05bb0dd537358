//! The remembered last walk of a thread.
//!
//! Most frames are unchanged since the last look at the thread's stack. A frame at the same address, at the
//! same instruction of the same code and above the same older frame, costs only the loads that check this. The
//! hash of all frames below the newest changed frame is already known. Every frame is read at each look.
//!
//! Used only where code objects have numbers (3.12 and later): without them, identifying the code object at an
//! address takes a dozen loads.

mod known;

use crate::code;
use crate::frame::ModuleObject;
use crate::hash::StackHash;
use crate::layout::{SHIM_OWNER, TAG_MASK};
use crate::memory::{load, plausible};
use crate::nn_module::ModuleCalls;
use crate::thread::Thread;
use crate::walk;
pub(crate) use known::Places;
use known::{KnownFrame, NOT_MIXED, changed};

/// The number of remembered frames, including shims and the [bottom](StackMemo::known).
const ROOM: usize = 384;
/// Slots of the directory, a power of two.
const PLACES: usize = 512;

/// The result of a look at a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It has no frames.
    Empty,
    /// The id that [`StackMemo::note`] recorded for it; never 0.
    Known(u32),
    /// Its hash: no id is known for it yet.
    Hashed(StackHash),
    /// Only a walk can identify it, which is always correct.
    Unknown,
}

/// The last walk of one thread: 28 KiB. All zeros are the same as [`StackMemo::new`].
pub struct StackMemo {
    /// The first is the bottom, below the oldest frame: it stays all zeros. Each frame is the next one's
    /// `previous`.
    known: [KnownFrame; ROOM],
    /// The index of the newest frame.
    newest: usize,
    /// The interpreter's number.
    interpreter: u64,
    /// The owner of the stack ids.
    owner: usize,
    /// New frames, the newest first.
    fresh: [usize; ROOM],
    /// The possible index of a frame among the known ones, by its address.
    directory: [u16; PLACES],
    /// The number of looks to skip.
    rest: u32,
}

/// The number of looks to skip after a stack that is too deep, because the next stacks are likely to be as
/// deep.
const REST: u32 = 64;

/// The stack cannot be identified this way.
struct Otherwise;

impl Default for StackMemo {
    fn default() -> Self {
        Self::new()
    }
}

impl StackMemo {
    /// An empty memo.
    pub const fn new() -> Self {
        Self {
            known: [KnownFrame::BOTTOM; ROOM],
            newest: 0,
            interpreter: 0,
            owner: 0,
            fresh: [0; ROOM],
            directory: [0; PLACES],
            rest: 0,
        }
    }

    /// Identifies the calling thread's stack. `most`: the maximum number of frames of a stack, the same at each
    /// look. `owner`: the owner of the noted ids; other owners do not get them.
    ///
    /// # Safety
    /// As [`walk::walk`], for the layout and the type of code from which `places` was created.
    #[inline(always)]
    pub(crate) unsafe fn look(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
        thread: Thread,
        most: usize,
        owner: usize,
    ) -> Lookup {
        let Thread {
            newest,
            interpreter,
        } = thread;
        if newest == 0 {
            return Lookup::Empty;
        }
        if let Some(last) = self.known.get(self.newest)
            && last.frame == newest
            && last.id != 0
            && interpreter == self.interpreter
            && owner == self.owner
            // SAFETY: the thread's newest frame is live, and lies among the known ones.
            && unsafe { changed(places, self.at(self.newest)) } == self.known.as_ptr()
        {
            return Lookup::Known(last.id);
        }
        // SAFETY: as above.
        unsafe { self.look_anew(places, calls, newest, interpreter, most, owner) }
    }

    /// The same for a changed stack.
    ///
    /// # Safety
    /// As [`StackMemo::look`]; `newest` is the thread's newest frame, `interpreter` its interpreter's number.
    #[inline(never)]
    unsafe fn look_anew(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
        newest: usize,
        interpreter: u64,
        most: usize,
        owner: usize,
    ) -> Lookup {
        if self.rest != 0 {
            self.rest -= 1;
            return Lookup::Unknown;
        }
        if (interpreter, owner) != (self.interpreter, self.owner) {
            (self.interpreter, self.owner, self.newest) = (interpreter, owner, 0);
        }
        // SAFETY: promised by the caller.
        let mut looked = unsafe { self.update(places, calls, newest) };
        if looked.is_err() && self.newest != 0 {
            // Frames are on top of other frames than before: start again.
            self.newest = 0;
            // SAFETY: as above.
            looked = unsafe { self.update(places, calls, newest) };
        }
        match self.known.get(self.newest) {
            Some(known) if looked.is_ok() && usize::from(known.kept) <= most => lookup(known),
            _ => {
                (self.newest, self.rest) = (0, REST);
                Lookup::Unknown
            }
        }
    }

    /// Records this id for the stack of the last look.
    #[inline]
    pub fn note(&mut self, id: u32) {
        if let Some(newest) = self.known.get_mut(self.newest).filter(|k| k.frame != 0) {
            newest.id = id;
        }
    }

    /// Discards all frames: the next look reads everything again.
    pub fn forget(&mut self) {
        self.newest = 0;
    }

    /// # Safety
    /// As [`StackMemo::look`]; `newest` is the newest frame of the thread, or 0.
    #[inline(never)]
    unsafe fn update(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
        newest: usize,
    ) -> Result<(), Otherwise> {
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
        // The number of oldest frames that are unchanged.
        // SAFETY: the newest of them is a live frame, as above.
        self.newest = unsafe { self.compare(places, known) }?;
        while self.newest < known {
            // SAFETY: a live frame, as above.
            unsafe { self.append_known(places, calls) }?;
        }
        for place in (0..fresh).rev() {
            let frame = *self.fresh.get(place).ok_or(Otherwise)?;
            // SAFETY: as above.
            unsafe { self.append(places, calls, frame) }?;
            if let Some(place) = self.directory.get_mut(slot(frame)) {
                *place = self.newest as u16;
            }
        }
        Ok(())
    }

    /// The index of the frame at this address among the known ones; the index of the bottom if the address is
    /// 0.
    #[inline(always)]
    fn place(&self, frame: usize) -> Option<usize> {
        if frame == 0 {
            return Some(0);
        }
        let place = usize::from(*self.directory.get(slot(frame))?);
        let known = self.known.get(place)?;
        (place <= self.newest && known.frame == frame).then_some(place)
    }

    /// Reads the frame at the index `newest` and all older ones, and marks those that have changed. Returns the
    /// index up to which they are unchanged.
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

    /// The known frame at an index. Older frames may be reached from it, too.
    #[inline(always)]
    fn at(&self, place: usize) -> *const KnownFrame {
        debug_assert!(place < ROOM);
        self.known.as_ptr().wrapping_add(place)
    }

    /// A known frame and the one on top of it.
    #[inline(always)]
    fn two(&mut self, older: usize) -> Result<&mut [KnownFrame; 2], Otherwise> {
        let from = self.known.get_mut(older..).ok_or(Otherwise)?;
        from.first_chunk_mut().ok_or(Otherwise)
    }

    /// Adds the frame that was the next one among the known frames.
    ///
    /// # Safety
    /// As [`StackMemo::append`].
    #[inline(always)]
    unsafe fn append_known(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
    ) -> Result<(), Otherwise> {
        let [older, known] = self.two(self.newest)?;
        if known.mixed == NOT_MIXED || known.entered_from_c != older.over_shim {
            let frame = known.frame;
            // SAFETY: promised by the caller.
            return unsafe { self.append(places, calls, frame) };
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
    unsafe fn append(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
        frame: usize,
    ) -> Result<(), Otherwise> {
        let interpreter = self.interpreter;
        let [older, new] = self.two(self.newest)?;
        // SAFETY: promised by the caller.
        let owner: u8 = unsafe { load(frame, places.owner) };
        if owner >= SHIM_OWNER {
            *new = KnownFrame {
                is_shim: true,
                over_shim: true,
                ..older.without(frame)
            };
            self.newest += 1;
            return Ok(());
        }
        // SAFETY: promised by the caller.
        let code = unsafe { load::<usize>(frame, places.code) } & TAG_MASK;
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
            return unsafe { self.append_without_number(places, calls, frame, code, offset) };
        }
        let identity = code::numbered(number, interpreter);
        if calls.has(code, identity) {
            // SAFETY: a live frame of this code.
            let module = unsafe { ModuleObject::called_at(&places.layout, frame) };
            *new = older.with(frame, code, offset, identity, module);
            new.calls(instruction, number, module);
        } else {
            *new = older.with(frame, code, offset, identity, ModuleObject::NONE);
            (new.instruction, new.number) = (instruction, number);
        }
        self.newest += 1;
        Ok(())
    }

    /// The same for a frame at `offset` of code without a number, which never counts as unchanged.
    ///
    /// # Safety
    /// As [`StackMemo::append`]; the frame is no shim, and has this code.
    #[cold]
    #[inline(never)]
    unsafe fn append_without_number(
        &mut self,
        places: &Places,
        calls: &ModuleCalls,
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
                let module = match calls.has(code, identity) {
                    true => ModuleObject::called_at(&places.layout, frame),
                    false => ModuleObject::NONE,
                };
                older.with(frame, code, offset, identity, module)
            }
        };
        self.newest += 1;
        Ok(())
    }
}

/// The stack whose newest frame is `known`.
#[inline(always)]
fn lookup(known: &KnownFrame) -> Lookup {
    match (known.kept, known.id) {
        (0, _) => Lookup::Empty,
        (len, 0) => Lookup::Hashed(StackHash {
            chained: known.hash,
            len: usize::from(len),
        }),
        (_, id) => Lookup::Known(id),
    }
}

/// The slot of a frame in the directory.
#[inline(always)]
fn slot(frame: usize) -> usize {
    const SHIFT: u32 = u64::BITS - PLACES.trailing_zeros();
    ((frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
}

#[cfg(test)]
mod tests;
