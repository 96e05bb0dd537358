//! The allocator's own trace: it calls a function with every decision that it takes, once one is attached.
//!
//! Each entry costs it some 25 ns, and a function is never detached. So ours is attached when only the trace can tell:
//! once a pool is begun, or a block is used on another stream.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_torch_abi::TraceEntry;

use super::block::Reported;
use super::placements::Pool;
use crate::account;

const DEVICES: usize = 63;
/// Nothing is attached, and nothing had to be.
const IDLE: u8 = 0;
/// It is being attached: each device's entries begin at a moment of their own.
const STARTING: u8 = 1;
const ON: u8 = 2;
/// It cannot be attached, or is not laid out as is known.
const OFF: u8 = 3;

/// What was traced last, for whoever is told of it next.
pub(super) struct Trace {
    state: AtomicU8,
    devices: [Last; DEVICES],
}

/// A device's last entries. The allocator's lock of the device is held whenever they are touched.
#[derive(Default)]
struct Last {
    ptr: AtomicU64,
    requested: AtomicU64,
    stream: AtomicU64,
    pool: (AtomicU64, AtomicU64),
    /// The block that is being freed.
    freeing: AtomicU64,
    /// From where the last block was wanted for which there was no memory.
    failed: (AtomicU64, AtomicU64, AtomicU64),
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            devices: core::array::from_fn(|_| Last::default()),
        }
    }
}

/// An allocation as it was traced.
#[derive(Clone, Copy)]
pub(super) struct Traced {
    pub(super) requested: u64,
    pub(super) stream: u64,
    pub(super) pool: Pool,
}

impl Trace {
    /// Whether nothing is traced, since nothing had to be.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    pub(super) fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) == ON
    }

    fn turn_off(&self) {
        if self.state.swap(OFF, Ordering::AcqRel) == ON {
            account::leave(String::from(
                "PyTorch's allocator traces what it does in a way that is not known: pools and streams of blocks are not known",
            ));
        }
    }

    /// Whether some devices may not be traced yet.
    pub(super) fn is_starting(&self) -> bool {
        self.state.load(Ordering::Acquire) == STARTING
    }

    /// How an allocation that is reported was traced just before.
    pub(super) fn alloc_of(&self, of: &Reported) -> Option<Traced> {
        let state = self.state.load(Ordering::Acquire);
        if state == OFF {
            return None;
        }
        let last = self.devices.get(usize::from(of.device.0))?;
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let traced = Traced {
            requested: get(&last.requested),
            stream: get(&last.stream),
            pool: (get(&last.pool.0), get(&last.pool.1)),
        };
        if get(&last.ptr) == of.ptr && traced.requested <= of.bytes {
            return Some(traced);
        }
        // The allocator's lock is held since before the entry, so that a device's first one is not missed.
        if state == ON {
            self.turn_off();
        }
        None
    }

    /// The release of a block is reported: if it is not back in its pool by now, it waits for streams.
    pub(super) fn freed(&self, device: DeviceOrdinal) {
        if let Some(last) = self.devices.get(usize::from(device.0)) {
            last.freeing.store(0, Ordering::Relaxed);
        }
    }

    /// The stream and the pool of the failure that is reported.
    pub(super) fn failed(&self, device: DeviceOrdinal) -> Option<(u64, Pool)> {
        let last = self
            .devices
            .get(usize::from(device.0))
            .filter(|_| self.is_on())?;
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (stream, first, second) = &last.failed;
        Some((get(stream), (get(first), get(second))))
    }

    /// Whether ours is to be attached now, which is done once.
    pub(super) fn begin(&self) -> bool {
        let first =
            self.state
                .compare_exchange(IDLE, STARTING, Ordering::AcqRel, Ordering::Acquire);
        first.is_ok()
    }

    /// It is attached to all devices.
    pub(super) fn begun(&self) {
        self.state.store(ON, Ordering::Release);
    }

    /// It cannot be attached.
    pub(super) fn cannot(&self) {
        self.state.store(OFF, Ordering::Release);
    }

    /// Takes an entry; whether a block went back to the pool that was freed before.
    pub(super) fn take(&self, entry: &TraceEntry) -> bool {
        let Some(last) = self.devices.get(usize::from(entry.device)) else {
            return false;
        };
        let set = |word: &AtomicU64, to: u64| word.store(to, Ordering::Relaxed);
        match entry.action {
            TraceEntry::ALLOC => {
                set(&last.ptr, entry.ptr);
                set(&last.requested, entry.bytes);
                set(&last.stream, entry.stream);
                set(&last.pool.0, entry.pool.0);
                set(&last.pool.1, entry.pool.1);
                false
            }
            TraceEntry::FREE_REQUESTED => {
                set(&last.freeing, entry.ptr);
                false
            }
            TraceEntry::OOM => {
                set(&last.failed.0, entry.stream);
                set(&last.failed.1, entry.pool.0);
                set(&last.failed.2, entry.pool.1);
                false
            }
            TraceEntry::FREE_COMPLETED => last.freeing.swap(0, Ordering::Relaxed) != entry.ptr,
            _ => false,
        }
    }
}
