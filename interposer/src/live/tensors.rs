//! The tensors that are live: a table of cache lines, each with a lock of its own.
//!
//! A tensor's line is known by its address, and holds all that is known of two tensors: whoever adds one or
//! takes one out touches that line and no other. A framework hands out the same addresses again and again,
//! so in a training these lines are few. What finds no room in its line is in a map, and the line counts
//! how many of its tensors are.
//!
//! ```text
//!  0      4           8                  32                 56     64
//!  ┌──────┬───────────┬──────────────────┬──────────────────┬──────┐
//!  │ lock │ elsewhere │ one tensor       │ another one      │      │
//!  └──────┴───────────┴──────────────────┴──────────────────┴──────┘
//! ```

use core::cell::UnsafeCell;
use core::hash::BuildHasherDefault;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{DeviceOrdinal, EventFlags, StackId};
use rustc_hash::FxHasher;

use super::Block;

/// Lines, a power of two: 128 KiB. More would lie on more pages than the processor keeps in mind.
const LINES: usize = 1 << 11;
/// How often a lock is looked at before the processor is given away: what it covers takes some
/// nanoseconds, but for tensors that are elsewhere.
const LOOKS: u32 = 100;

/// A tensor in its line; the address 0 is none.
#[derive(Clone, Copy)]
struct Held {
    ptr: u64,
    bytes: u64,
    py_stack: StackId,
    flags: EventFlags,
    device: DeviceOrdinal,
}

impl Held {
    const NONE: Self = Self {
        ptr: 0,
        bytes: 0,
        py_stack: StackId::NONE,
        flags: EventFlags::NONE,
        device: DeviceOrdinal(0),
    };

    /// None for a block that does not fit: tensors are no context's.
    #[inline]
    fn new(ptr: u64, block: &Block) -> Option<Self> {
        let Block {
            bytes,
            context,
            device,
            flags,
            py_stack,
        } = *block;
        (ptr != 0 && context == 0).then_some(Self {
            ptr,
            bytes,
            py_stack,
            flags,
            device,
        })
    }

    #[inline]
    fn block(&self) -> Block {
        Block {
            bytes: self.bytes,
            context: 0,
            device: self.device,
            flags: self.flags,
            py_stack: self.py_stack,
        }
    }
}

/// What a line's lock covers: two tensors.
struct Content {
    /// How many of the line's tensors are in the map.
    elsewhere: u32,
    places: [Held; 2],
}

/// One cache line.
#[repr(C, align(64))]
struct Line {
    locked: AtomicBool,
    content: UnsafeCell<Content>,
}

const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: the content is touched by the one thread alone that holds the lock.
unsafe impl Sync for Line {}

/// A line that this thread has to itself; unlocked when it goes.
struct Locked<'a>(&'a Line);

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

impl Deref for Locked<'_> {
    type Target = Content;

    #[inline(always)]
    fn deref(&self) -> &Content {
        // SAFETY: nobody else has it while the line is locked.
        unsafe { &*self.0.content.get() }
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Content {
        // SAFETY: as above.
        unsafe { &mut *self.0.content.get() }
    }
}

impl Line {
    const fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            content: UnsafeCell::new(Content {
                elsewhere: 0,
                places: [Held::NONE; 2],
            }),
        }
    }

    #[inline(always)]
    fn lock(&self) -> Locked<'_> {
        if self.locked.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Locked(self)
    }

    #[cold]
    fn wait(&self) {
        loop {
            for _ in 0..LOOKS {
                if !self.locked.load(Ordering::Relaxed)
                    && !self.locked.swap(true, Ordering::Acquire)
                {
                    return;
                }
                spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

impl Content {
    /// Where the tensor at `ptr` is; with 0 where there is room for one.
    #[inline(always)]
    fn place(&mut self, ptr: u64) -> Option<&mut Held> {
        self.places.iter_mut().find(|held| held.ptr == ptr)
    }
}

/// Tensors by address.
pub(super) struct Tensors {
    lines: [Line; LINES],
    others: OnceLock<DashMap<u64, Block, BuildHasherDefault<FxHasher>>>,
}

impl Tensors {
    /// There are none.
    pub(super) const fn new() -> Self {
        Self {
            lines: [const { Line::new() }; LINES],
            others: OnceLock::new(),
        }
    }

    /// Where the tensor at `ptr` is, if it is live; the processor begins to fetch it.
    #[inline(always)]
    pub(super) fn tensor(&self, ptr: u64) -> Tensor<'_> {
        const SHIFT: u32 = u64::BITS - LINES.trailing_zeros();
        let place = ptr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT;
        let [first, ..] = &self.lines;
        let line = self.lines.get(place as usize).unwrap_or(first);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction neither reads nor writes anything that a program could see.
        unsafe {
            core::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) core::ptr::from_ref(line),
                options(readonly, nostack, preserves_flags),
            );
        }
        Tensor {
            all: self,
            line,
            ptr,
        }
    }

    #[cold]
    fn others(&self) -> &DashMap<u64, Block, BuildHasherDefault<FxHasher>> {
        self.others.get_or_init(DashMap::default)
    }

    /// Goes through all of them, in no order. `look` asks for none.
    #[cold]
    pub(super) fn each(&self, mut look: impl FnMut(u64, &Block)) {
        for line in &self.lines {
            let places = line.lock().places;
            for held in places.iter().filter(|held| held.ptr != 0) {
                look(held.ptr, &held.block());
            }
        }
        let others = self.others.get();
        for entry in others.iter().flat_map(|others| others.iter()) {
            look(*entry.key(), entry.value());
        }
    }

    /// The one at `ptr`.
    pub(super) fn at(&self, ptr: u64) -> Option<Block> {
        let line = self.tensor(ptr).line.lock();
        if let Some(held) = line.places.iter().find(|held| held.ptr == ptr && ptr != 0) {
            return Some(held.block());
        }
        if line.elsewhere == 0 {
            return None;
        }
        self.others().get(&ptr).map(|block| *block)
    }
}

/// Where a tensor is, if it is live.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a> {
    all: &'a Tensors,
    line: &'a Line,
    ptr: u64,
}

impl Tensor<'_> {
    /// Adds it if it is new and finds room in its line; whether that is so. Else nothing is done, for
    /// [`Tensor::insert`] to do.
    #[inline(always)]
    pub(crate) fn insert_in_line(self, block: &Block) -> bool {
        let mut line = self.line.lock();
        let is_new = line.elsewhere == 0 && line.places.iter().all(|held| held.ptr != self.ptr);
        if is_new
            && let Some(held) = Held::new(self.ptr, block)
            && let Some(place) = line.place(0)
        {
            *place = held;
            return true;
        }
        false
    }

    /// Adds it; what was there before.
    #[cold]
    #[inline(never)]
    pub(crate) fn insert(self, block: &Block) -> Option<Block> {
        let mut line = self.line.lock();
        let before = self.take(&mut line);
        match (Held::new(self.ptr, block), line.place(0)) {
            (Some(held), Some(place)) => *place = held,
            _ => {
                line.elsewhere += 1;
                self.all.others().insert(self.ptr, *block);
            }
        }
        before
    }

    /// Takes it out if it is in its line. None: for [`Tensor::remove`] to look elsewhere.
    #[inline(always)]
    pub(crate) fn remove_from_line(self) -> Option<Block> {
        let mut line = self.line.lock();
        let held = line.place(self.ptr).filter(|held| held.ptr != 0)?;
        let block = held.block();
        held.ptr = 0;
        Some(block)
    }

    /// Takes it out.
    #[cold]
    #[inline(never)]
    pub(crate) fn remove(self) -> Option<Block> {
        self.take(&mut self.line.lock())
    }

    fn take(self, line: &mut Content) -> Option<Block> {
        if let Some(held) = line.place(self.ptr).filter(|held| held.ptr != 0) {
            let block = held.block();
            held.ptr = 0;
            return Some(block);
        }
        if line.elsewhere == 0 {
            return None;
        }
        let (_, block) = self.all.others().remove(&self.ptr)?;
        line.elsewhere -= 1;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn block(bytes: u64, context: u64) -> Block {
        Block {
            bytes,
            context,
            device: DeviceOrdinal(bytes as u8 % 8),
            flags: EventFlags(bytes as u16),
            py_stack: StackId(bytes as u32 + 1),
        }
    }

    /// Numbers that look random.
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let tensors: &'static Tensors = Box::leak(Box::new(Tensors::new()));
        let mut expected = HashMap::new();
        let mut number = numbers(7);
        // More than there are places at first, then fewer and fewer.
        let insert = |ptr, new| match tensors.tensor(ptr).insert_in_line(&new) {
            true => None,
            false => tensors.tensor(ptr).insert(&new),
        };
        let remove = |ptr| {
            let in_line = tensors.tensor(ptr).remove_from_line();
            in_line.or_else(|| tensors.tensor(ptr).remove())
        };
        for turn in 0..400_000u64 {
            let ptr = 512 * number(if turn < 200_000 { 40_000 } else { 2_000 });
            // A few are of a kind that no line holds.
            let context = u64::from(number(50) == 0);
            match number(3) {
                0 => assert_eq!(remove(ptr), expected.remove(&ptr), "{ptr}"),
                1 => assert_eq!(tensors.at(ptr), expected.get(&ptr).copied(), "{ptr}"),
                _ => {
                    let new = block(turn, context);
                    assert_eq!(insert(ptr, new), expected.insert(ptr, new), "{ptr}");
                }
            }
        }
        assert!(!tensors.others().is_empty());
        let mut seen = HashMap::new();
        tensors.each(|ptr, block| assert_eq!(seen.insert(ptr, *block), None));
        assert_eq!(seen, expected);
        for (ptr, block) in expected {
            assert_eq!(remove(ptr), Some(block));
        }
        assert!(tensors.others().is_empty());
    }

    #[test]
    fn a_tensor_is_taken_out_once() {
        const TENSORS: u64 = 20_000;
        let tensors: &'static Tensors = Box::leak(Box::new(Tensors::new()));
        let taken: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut number = numbers(thread + 1);
                        let mut taken = 0;
                        for turn in 0..TENSORS {
                            let own = 8 * (turn + 1) + thread;
                            assert_eq!(tensors.tensor(512 * own).insert(&block(own, 0)), None);
                            // Anybody's, of about now.
                            let ptr = 512 * (8 * (turn + 1).saturating_sub(number(4)) + number(8));
                            if let Some(found) = tensors.tensor(ptr).remove() {
                                assert_eq!(512 * found.bytes, ptr);
                                assert_eq!(found, block(found.bytes, 0));
                                taken += 1;
                            }
                        }
                        taken
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        let left = (8..8 * (TENSORS + 1)).filter_map(|own| tensors.tensor(512 * own).remove());
        assert_eq!(taken + left.count() as u64, 8 * TENSORS);
    }
}
