//! The live tensors: a table of cache lines for each device.
//!
//! A tensor's line is determined by its address, and holds the data of two tensors: adding or removing one touches
//! only that line. A framework allocates the same addresses again and again, so a training uses few lines. Tensors
//! without room in their line are in a map, and the line counts how many of its tensors are.
//!
//! A device's lines have no separate lock: they are accessed while its tensor counters are locked, which every
//! event of a tensor requires anyway; an atomic operation takes a sixth of an event. So a tensor whose release was
//! missed is found when its address is allocated again on the same device, but not on another one. Differences
//! between the framework's count and the counters are still marked on each event.

use core::cell::UnsafeCell;
use core::hash::BuildHasherDefault;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use gpumem_capture::{CounterGuard, DeviceOrdinal, Event, Level, Role, Seq, Writer};
use gpumem_sys::prefetch;
use gpumem_tracker::Block;
use rustc_hash::FxHasher;

use super::line::{Entry, Line};
use crate::thread::{self, Thread};

/// Lines of a device, a power of two: 128 KiB. More would need more pages than the processor's TLB holds.
const LINES: usize = 1 << 11;
/// Number of devices with lines: as many as have counters.
const DEVICES: usize = 63;

/// A device's lines.
type Lines = [UnsafeCell<Line>; LINES];

/// Tensors by address.
pub(crate) struct Tensors {
    /// The writer whose counters are locked.
    writer: &'static Writer,
    /// By device.
    lines: &'static [Lines],
    /// The devices whose lines have had tensors: a bit for each.
    devices: AtomicU64,
    others: DashMap<u64, Block, BuildHasherDefault<FxHasher>>,
}

// SAFETY: a line is touched by the one thread alone that holds the counters of its device's tensors.
unsafe impl Sync for Tensors {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Tensors {}

impl Tensors {
    /// An empty table.
    pub(crate) fn new(writer: &'static Writer) -> Self {
        const SIZE: usize = size_of::<[Lines; DEVICES]>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, of zeros; pages of it that nobody touches take no memory.
        let lines = unsafe { libc::mmap(null_mut(), SIZE, access, flags, -1, 0) };
        let lines = match lines == libc::MAP_FAILED {
            true => &[],
            // SAFETY: zeros are lines without tensors; the memory is never freed.
            false => unsafe { core::slice::from_raw_parts(lines.cast::<Lines>(), DEVICES) },
        };
        Self {
            writer,
            lines,
            devices: AtomicU64::new(0),
            others: DashMap::default(),
        }
    }

    /// Finds the tensor at `ptr` on `device`, if it is live; prefetches its line.
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

    /// Iterates over all of them, in arbitrary order. `look` must not look up tensors.
    #[cold]
    pub(crate) fn each(&self, mut look: impl FnMut(u64, &Block)) {
        for device in self.devices() {
            let lines = self.lines.get(usize::from(device.0));
            for line in lines.into_iter().flatten() {
                let tensor = Tensor {
                    all: self,
                    device,
                    line: Some(line),
                    ptr: 0,
                };
                let Some(places) = tensor.hold().map(|mut guard| guard.line().places) else {
                    continue;
                };
                for entry in places.iter().filter(|entry| entry.ptr != 0) {
                    look(entry.ptr, &entry.block(device));
                }
            }
        }
        for entry in &self.others {
            look(*entry.key(), entry.value());
        }
    }

    /// The live bytes of a device.
    pub(crate) fn live_bytes(&self, device: DeviceOrdinal) -> u64 {
        let mut live = 0u64;
        self.each(|_, block| {
            if block.device == device {
                live = live.saturating_add(block.bytes);
            }
        });
        live
    }

    /// The tensor at `ptr`.
    pub(crate) fn at(&self, ptr: u64) -> Option<Block> {
        let in_line = self
            .devices()
            .find_map(|device| self.tensor(device, ptr).in_line());
        in_line.or_else(|| self.others.get(&ptr).map(|block| *block))
    }

    /// Records that the tensor at `ptr` has a role; returns its device if it is live and the role is new.
    pub(crate) fn note_role(&self, ptr: u64, role: Role) -> Option<DeviceOrdinal> {
        let bit = 1_u8.checked_shl(role.0 as u32)?;
        let in_line = self.devices().find_map(|device| {
            let mut holding = self.tensor(device, ptr).hold()?;
            let entry = holding.line().place(ptr)?;
            let is_new = entry.roles & bit == 0;
            entry.roles |= bit;
            Some(is_new.then_some(device))
        });
        // Roles of tensors in the map are not stored, because they are few.
        in_line.unwrap_or_else(|| Some(self.others.get(&ptr)?.device))
    }
}

/// The place of a tensor, if it is live.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a> {
    all: &'a Tensors,
    device: DeviceOrdinal,
    /// None if its device has no lines.
    line: Option<&'a UnsafeCell<Line>>,
    ptr: u64,
}

impl<'a> Tensor<'a> {
    /// Locks the counters of its device, to add or remove it and to record that. None for a device without lines.
    #[inline(always)]
    pub(crate) fn hold(self) -> Option<LineGuard<'a>> {
        let line = self.line?;
        let own = thread::with(Thread::id);
        let writer = self.all.writer;
        let counting = writer.lock_counters(self.device, Level::TENSOR, own)?;
        Some(LineGuard {
            line,
            tensor: self,
            counting,
        })
    }

    fn in_line(self) -> Option<Block> {
        let entry = *self.hold()?.line().place(self.ptr)?;
        (entry.ptr != 0).then(|| entry.block(self.device))
    }

    /// Adds it, wherever there is room; returns the previous block.
    #[cold]
    #[inline(never)]
    pub(crate) fn insert(self, block: &Block) -> Option<Block> {
        let before = self.remove();
        if self.line.is_some() {
            let bit = 1 << (self.device.0 & 63);
            self.all.devices.fetch_or(bit, Ordering::AcqRel);
        }
        let in_line = self.hold().is_some_and(|mut guard| guard.put(block));
        if !in_line {
            // It counts before another thread can take it out.
            if let Some(mut guard) = self.hold() {
                guard.line().elsewhere += 1;
            }
            self.all.others.insert(self.ptr, *block);
        }
        before
    }

    /// Removes it, wherever it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn remove(self) -> Option<Block> {
        let of = |device| self.all.tensor(device, self.ptr);
        let in_line = self.all.devices().find_map(|device| {
            let entry = of(device).hold()?.line().take(self.ptr)?;
            Some(entry.block(device))
        });
        if in_line.is_some() {
            return in_line;
        }
        let (_, block) = self.all.others.remove(&self.ptr)?;
        if let Some(mut guard) = of(block.device).hold() {
            guard.line().elsewhere -= 1;
        }
        Some(block)
    }
}

/// A tensor's line, and the locked counters of its device.
pub(crate) struct LineGuard<'a> {
    line: &'a UnsafeCell<Line>,
    tensor: Tensor<'a>,
    counting: CounterGuard<'a>,
}

impl LineGuard<'_> {
    #[inline(always)]
    fn line(&mut self) -> &mut Line {
        // SAFETY: the line is the device's whose counters this thread holds: no other one has it meanwhile.
        unsafe { &mut *self.line.get() }
    }

    /// Stores it where there is room; returns whether there is.
    #[inline(always)]
    fn put(&mut self, block: &Block) -> bool {
        let entry = Entry::new(self.tensor.ptr, block);
        match entry.zip(self.line().place(0)) {
            Some((entry, place)) => {
                *place = entry;
                true
            }
            None => false,
        }
    }

    /// Adds it if it is new and there is room in its line; returns whether that is so. Otherwise there is no
    /// effect, and [`Tensor::insert`] must add it, as with the first of a device.
    #[inline(always)]
    pub(crate) fn insert(&mut self, block: &Block) -> bool {
        let ptr = self.tensor.ptr;
        let line = self.line();
        let is_new = line.elsewhere == 0 && line.places.iter().all(|entry| entry.ptr != ptr);
        is_new && self.tensor.all.has(self.tensor.device) && self.put(block)
    }

    /// Removes it if it is in its line. None: [`Tensor::remove`] must search elsewhere.
    #[inline(always)]
    pub(crate) fn remove(&mut self) -> Option<Block> {
        let (ptr, device) = (self.tensor.ptr, self.tensor.device);
        let entry = self.line().take(ptr)?;
        Some(entry.block(device))
    }

    /// Records its event: see [`CounterGuard::event`].
    #[inline(always)]
    pub(crate) fn record(self, event: &Event, live: Option<u64>) -> Option<Seq> {
        self.counting.event(event, live)
    }
}

#[cfg(test)]
mod tests;
