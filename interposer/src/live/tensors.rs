//! The tensors that are live: a table of cache lines for each device.
//!
//! A tensor's line is known by its address, and holds all that is known of two tensors: whoever adds one or
//! takes one out touches that line and no other. A framework hands out the same addresses again and again,
//! so in a training these lines are few. What finds no room in its line is in a map, and the line counts
//! how many of its tensors are.
//!
//! ```text
//!  0                       24                       48          52    64
//!  ┌───────────────────────┬────────────────────────┬───────────┬─────┐
//!  │ one tensor            │ another one            │ elsewhere │     │
//!  └───────────────────────┴────────────────────────┴───────────┴─────┘
//! ```
//!
//! A device's lines have no lock of their own: they are touched while its counters of tensors are held, which
//! every event of a tensor holds anyway: an atomic operation takes a sixth of an event. A tensor whose release went
//! unseen is therefore found where its address is handed out again on its device, not on another one; that the
//! framework counts otherwise than the counters is said with each event all the same.

use core::cell::UnsafeCell;
use core::hash::BuildHasherDefault;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use gpumem_capture::{CounterGuard, DeviceOrdinal, Event, EventFlags, Level, Seq, StackId, Writer};
use gpumem_sys::prefetch;
use rustc_hash::FxHasher;

use super::block::Block;

/// Lines of a device, a power of two: 128 KiB. More would lie on more pages than the processor keeps in mind.
const LINES: usize = 1 << 11;
/// Devices that have lines: as many as have counters.
const DEVICES: usize = 63;

/// A tensor in its line; the address 0 is none. It is of the line's device, and no context's.
#[derive(Clone, Copy)]
struct Held {
    ptr: u64,
    bytes: u64,
    py_stack: StackId,
    flags: EventFlags,
}

impl Held {
    /// None for a block that does not fit.
    #[inline(always)]
    fn new(ptr: u64, block: &Block) -> Option<Self> {
        let Block {
            bytes,
            context,
            device: _,
            flags,
            py_stack,
        } = *block;
        (ptr != 0 && context == 0).then_some(Self {
            ptr,
            bytes,
            py_stack,
            flags,
        })
    }

    #[inline(always)]
    fn block(&self, device: DeviceOrdinal) -> Block {
        Block {
            bytes: self.bytes,
            context: 0,
            device,
            flags: self.flags,
            py_stack: self.py_stack,
        }
    }
}

/// Two tensors in a cache line; all zeros are none.
#[repr(C, align(64))]
struct Line {
    places: [Held; 2],
    /// How many of the line's tensors are in the map.
    elsewhere: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// Where the tensor at `ptr` is; with 0 where there is room for one.
    #[inline(always)]
    fn place(&mut self, ptr: u64) -> Option<&mut Held> {
        self.places.iter_mut().find(|held| held.ptr == ptr)
    }

    /// Takes a tensor out.
    #[inline(always)]
    fn take(&mut self, ptr: u64) -> Option<Held> {
        let place = self.place(ptr).filter(|held| held.ptr != 0)?;
        let held = *place;
        place.ptr = 0;
        Some(held)
    }
}

/// A device's lines.
type Lines = [UnsafeCell<Line>; LINES];

/// Tensors by address.
pub(crate) struct Tensors {
    /// Whose counters are held.
    writer: &'static Writer,
    /// By device.
    lines: &'static [Lines],
    /// In the lines of which devices there have been tensors: a bit for each.
    devices: AtomicU64,
    others: DashMap<u64, Block, BuildHasherDefault<FxHasher>>,
}

// SAFETY: a line is touched by the one thread alone that holds the counters of its device's tensors.
unsafe impl Sync for Tensors {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Tensors {}

impl Tensors {
    /// There are none.
    pub(super) fn new(writer: &'static Writer) -> Self {
        const SIZE: usize = size_of::<[Lines; DEVICES]>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, of zeros; pages of it that nobody touches take no memory.
        let lines = unsafe { libc::mmap(null_mut(), SIZE, access, flags, -1, 0) };
        let lines = match lines == libc::MAP_FAILED {
            true => &[],
            // SAFETY: zeros are lines without tensors; the memory is never given back.
            false => unsafe { core::slice::from_raw_parts(lines.cast::<Lines>(), DEVICES) },
        };
        Self {
            writer,
            lines,
            devices: AtomicU64::new(0),
            others: DashMap::default(),
        }
    }

    /// Where the tensor at `ptr` on `device` is, if it is live; the processor begins to fetch it.
    #[inline(always)]
    pub(crate) fn tensor(&self, device: DeviceOrdinal, ptr: u64) -> Tensor<'_> {
        const SHIFT: u32 = u64::BITS - LINES.trailing_zeros();
        let place = ptr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT;
        let lines = self.lines.get(usize::from(device.0));
        let line = lines.and_then(|lines| lines.get(place as usize));
        if let Some(line) = line {
            prefetch::for_store(line.get());
        }
        Tensor {
            all: self,
            device,
            line,
            ptr,
        }
    }

    /// Whether there have been tensors in the lines of a device, which has lines.
    #[inline(always)]
    fn has(&self, device: DeviceOrdinal) -> bool {
        self.devices.load(Ordering::Acquire) >> (device.0 & 63) & 1 == 1
    }

    /// The devices in whose lines there have been tensors.
    fn devices(&self) -> impl Iterator<Item = DeviceOrdinal> {
        let devices = (0..DEVICES as u8).map(DeviceOrdinal);
        devices.filter(|&device| self.has(device))
    }

    /// Goes through all of them, in no order. `look` asks for none.
    #[cold]
    pub(super) fn each(&self, mut look: impl FnMut(u64, &Block)) {
        for device in self.devices() {
            let lines = self.lines.get(usize::from(device.0));
            for line in lines.into_iter().flatten() {
                let tensor = Tensor {
                    all: self,
                    device,
                    line: Some(line),
                    ptr: 0,
                };
                let Some(places) = tensor.hold().map(|mut holding| holding.line().places) else {
                    continue;
                };
                for held in places.iter().filter(|held| held.ptr != 0) {
                    look(held.ptr, &held.block(device));
                }
            }
        }
        for entry in &self.others {
            look(*entry.key(), entry.value());
        }
    }

    /// The one at `ptr`.
    pub(super) fn at(&self, ptr: u64) -> Option<Block> {
        let in_line = self
            .devices()
            .find_map(|device| self.tensor(device, ptr).in_line());
        in_line.or_else(|| self.others.get(&ptr).map(|block| *block))
    }
}

/// Where a tensor is, if it is live.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a> {
    all: &'a Tensors,
    device: DeviceOrdinal,
    /// None where its device has none.
    line: Option<&'a UnsafeCell<Line>>,
    ptr: u64,
}

impl<'a> Tensor<'a> {
    /// Holds the counters of its device, to add it or to take it out and to record that. None for a device
    /// without lines.
    #[inline(always)]
    pub(crate) fn hold(self) -> Option<Holding<'a>> {
        let line = self.line?;
        let counting = self.all.writer.lock_counters(self.device, Level::TENSOR)?;
        Some(Holding {
            line,
            tensor: self,
            counting,
        })
    }

    fn in_line(self) -> Option<Block> {
        let held = *self.hold()?.line().place(self.ptr)?;
        (held.ptr != 0).then(|| held.block(self.device))
    }

    /// Adds it, wherever there is room; what was there before.
    #[cold]
    #[inline(never)]
    pub(crate) fn insert(self, block: &Block) -> Option<Block> {
        let before = self.remove();
        if self.line.is_some() {
            let bit = 1 << (self.device.0 & 63);
            self.all.devices.fetch_or(bit, Ordering::AcqRel);
        }
        let in_line = self.hold().is_some_and(|mut holding| holding.put(block));
        if !in_line {
            // Nobody asks for it before this returns.
            self.all.others.insert(self.ptr, *block);
            if let Some(mut holding) = self.hold() {
                holding.line().elsewhere += 1;
            }
        }
        before
    }

    /// Takes it out, wherever it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn remove(self) -> Option<Block> {
        let of = |device| self.all.tensor(device, self.ptr);
        let in_line = self.all.devices().find_map(|device| {
            let held = of(device).hold()?.line().take(self.ptr)?;
            Some(held.block(device))
        });
        if in_line.is_some() {
            return in_line;
        }
        let (_, block) = self.all.others.remove(&self.ptr)?;
        if let Some(mut holding) = of(block.device).hold() {
            holding.line().elsewhere -= 1;
        }
        Some(block)
    }
}

/// A tensor's line, and the counters of its device, which this thread has to itself.
pub(crate) struct Holding<'a> {
    line: &'a UnsafeCell<Line>,
    tensor: Tensor<'a>,
    counting: CounterGuard<'a>,
}

impl Holding<'_> {
    #[inline(always)]
    fn line(&mut self) -> &mut Line {
        // SAFETY: the line is the device's whose counters this thread holds: no other one has it meanwhile.
        unsafe { &mut *self.line.get() }
    }

    /// Puts it where there is room; whether there is.
    #[inline(always)]
    fn put(&mut self, block: &Block) -> bool {
        let held = Held::new(self.tensor.ptr, block);
        match held.zip(self.line().place(0)) {
            Some((held, place)) => {
                *place = held;
                true
            }
            None => false,
        }
    }

    /// Adds it if it is new and finds room in its line; whether that is so. Else nothing is done, for
    /// [`Tensor::insert`] to do: as with the first of a device.
    #[inline(always)]
    pub(crate) fn insert(&mut self, block: &Block) -> bool {
        let ptr = self.tensor.ptr;
        let line = self.line();
        let is_new = line.elsewhere == 0 && line.places.iter().all(|held| held.ptr != ptr);
        is_new && self.tensor.all.has(self.tensor.device) && self.put(block)
    }

    /// Takes it out if it is in its line. None: for [`Tensor::remove`] to look elsewhere.
    #[inline(always)]
    pub(crate) fn remove(&mut self) -> Option<Block> {
        let (ptr, device) = (self.tensor.ptr, self.tensor.device);
        let held = self.line().take(ptr)?;
        Some(held.block(device))
    }

    /// Records what became of it: see [`CounterGuard::event`].
    #[inline(always)]
    pub(crate) fn record(self, event: &Event, live: Option<u64>) -> Option<Seq> {
        self.counting.event(event, live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumem_capture::Options;
    use std::collections::HashMap;

    fn tensors() -> Tensors {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpumem-tensors-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let writer = Writer::create(&path, &Options::default().ring_slots(64)).unwrap();
        std::fs::remove_file(path).unwrap();
        Tensors::new(writer)
    }

    /// On a device that follows from `ptr`; a few are of one that has no lines.
    fn block(ptr: u64, bytes: u64, context: u64) -> Block {
        Block {
            bytes,
            context,
            device: DeviceOrdinal(if ptr.is_multiple_of(11) {
                100
            } else {
                ptr as u8 % 8
            }),
            flags: EventFlags(bytes as u16),
            py_stack: StackId(bytes as u32 + 1),
        }
    }

    /// Adds it as a hook does.
    fn insert(tensors: &Tensors, ptr: u64, new: &Block) -> Option<Block> {
        let tensor = tensors.tensor(new.device, ptr);
        match tensor.hold().is_some_and(|mut held| held.insert(new)) {
            true => None,
            false => tensor.insert(new),
        }
    }

    /// Takes it out as a hook does, which has been told of this device.
    fn remove(tensors: &Tensors, device: DeviceOrdinal, ptr: u64) -> Option<Block> {
        let tensor = tensors.tensor(device, ptr);
        let in_line = tensor.hold().and_then(|mut held| held.remove());
        in_line.or_else(|| tensor.remove())
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
        let tensors = tensors();
        let mut expected: HashMap<u64, Block> = HashMap::new();
        let mut number = numbers(7);
        // More than there are places at first, then fewer and fewer.
        for turn in 0..400_000u64 {
            let ptr = 512 + number(if turn < 200_000 { 400_000 } else { 2_000 });
            // A few are of a kind that no line holds, and a few on a device where they were not before.
            let context = u64::from(number(50) == 0);
            let other = if number(50) == 0 { 3 } else { ptr };
            let device = block(other, 0, 0).device;
            match number(3) {
                0 => {
                    let found = remove(&tensors, device, ptr);
                    assert_eq!(found, expected.remove(&ptr), "{ptr}");
                }
                1 => assert_eq!(tensors.at(ptr), expected.get(&ptr).copied(), "{ptr}"),
                _ => {
                    // Without its release no other device has the address.
                    let before = expected.get(&ptr).map_or(device, |before| before.device);
                    let new = Block {
                        device: before,
                        ..block(ptr, turn, context)
                    };
                    let found = insert(&tensors, ptr, &new);
                    assert_eq!(found, expected.insert(ptr, new), "{ptr}");
                }
            }
        }
        assert!(!tensors.others.is_empty());
        let mut seen = HashMap::new();
        tensors.each(|ptr, block| assert_eq!(seen.insert(ptr, *block), None));
        assert_eq!(seen, expected);
        for (ptr, block) in expected {
            assert_eq!(remove(&tensors, block.device, ptr), Some(block));
        }
        assert!(tensors.others.is_empty());
        let all = tensors.lines.iter().flatten();
        assert!(all.into_iter().all(|line| {
            // SAFETY: this test has them alone.
            let line = unsafe { &*line.get() };
            line.elsewhere == 0 && line.places.iter().all(|held| held.ptr == 0)
        }));
    }

    #[test]
    fn the_first_tensor_of_a_device_is_found() {
        let tensors = tensors();
        for ptr in [1, 2, 11] {
            let new = block(ptr, 7, 0);
            assert_eq!(insert(&tensors, ptr, &new), None);
            assert_eq!(tensors.at(ptr), Some(new));
            let other = DeviceOrdinal(new.device.0 ^ 1);
            assert_eq!(remove(&tensors, other, ptr), Some(new));
            assert_eq!(tensors.at(ptr), None);
        }
    }

    #[test]
    fn a_tensor_is_taken_out_once() {
        const TENSORS: u64 = 20_000;
        let tensors = tensors();
        let at = |own: u64| (512 * own, block(512 * own, own, 0));
        let taken: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u64)
                .map(|thread| {
                    let tensors = &tensors;
                    scope.spawn(move || {
                        let mut number = numbers(thread + 1);
                        let mut taken = 0;
                        for turn in 0..TENSORS {
                            let (ptr, new) = at(8 * (turn + 1) + thread);
                            assert_eq!(insert(tensors, ptr, &new), None);
                            // Anybody's, of about now.
                            let other = 8 * (turn + 1).saturating_sub(number(4)) + number(8);
                            let (ptr, expected) = at(other);
                            if let Some(found) = remove(tensors, expected.device, ptr) {
                                assert_eq!(found, expected);
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
        let left = (8..8 * (TENSORS + 1)).filter_map(|own| {
            let (ptr, expected) = at(own);
            remove(&tensors, expected.device, ptr)
        });
        assert_eq!(taken + left.count() as u64, 8 * TENSORS);
    }
}
