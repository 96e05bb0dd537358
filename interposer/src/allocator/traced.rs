//! The allocator's own trace: it calls the attached functions with every decision.
//!
//! Each entry costs about 25 ns, and a function is never detached. So the callback is attached when the trace becomes
//! necessary: once a pool is begun, or a block is used on another stream.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_torch_abi::{Tail, TraceEntry, clock};

use super::block::Reported;
use super::placements::Pool;
use crate::account;

const DEVICES: usize = 63;
/// Nothing is attached or needed.
const IDLE: u8 = 0;
/// It is being attached: each device's entries start at a different time.
const STARTING: u8 = 1;
const ON: u8 = 2;
/// It cannot be attached, or its layout is unknown.
const OFF: u8 = 3;

/// The last trace entries, for the report that follows them.
pub(super) struct Trace {
    state: AtomicU8,
    /// [`Tail`] of its entries; 0 if not determined yet.
    tail: AtomicU8,
    /// A block was used on another stream, and it is unknown when it becomes free again.
    misses_releases: AtomicBool,
    devices: [Last; DEVICES],
}

/// A device's last entries. The allocator's lock of the device is held at each access.
#[derive(Default)]
struct Last {
    ptr: AtomicU64,
    requested: AtomicU64,
    stream: AtomicU64,
    pool: LastPool,
    /// The block that is being freed.
    freeing: AtomicU64,
    /// The stream and pool of the last failed allocation.
    failed: (AtomicU64, LastPool),
}

/// A pool, if the entry includes it.
#[derive(Default)]
struct LastPool {
    is_known: AtomicU8,
    id: (AtomicU64, AtomicU64),
}

impl LastPool {
    fn set(&self, pool: Option<Pool>) {
        let (first, second) = pool.unwrap_or_default();
        self.is_known
            .store(pool.is_some().into(), Ordering::Relaxed);
        self.id.0.store(first, Ordering::Relaxed);
        self.id.1.store(second, Ordering::Relaxed);
    }

    fn get(&self) -> Option<Pool> {
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let is_known = self.is_known.load(Ordering::Relaxed) != 0;
        is_known.then(|| (get(&self.id.0), get(&self.id.1)))
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            tail: AtomicU8::new(0),
            misses_releases: AtomicBool::new(false),
            devices: core::array::from_fn(|_| Last::default()),
        }
    }
}

/// An allocation in the trace.
#[derive(Clone, Copy)]
pub(super) struct Traced {
    pub(super) requested: u64,
    pub(super) stream: u64,
    /// None if the entry does not include it.
    pub(super) pool: Option<Pool>,
}

impl Trace {
    /// Whether the trace is off because it was not needed yet.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    pub(super) fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) == ON
    }

    /// Whether blocks waited for other streams without a trace that reports the end of the wait.
    pub(super) fn misses_releases(&self) -> bool {
        self.misses_releases.load(Ordering::Acquire)
    }

    /// Records that a block is used on another stream; returns whether it is the first one without a trace.
    pub(super) fn misses_releases_now(&self) -> bool {
        let is_off = self.state.load(Ordering::Acquire) == OFF;
        is_off && !self.misses_releases.swap(true, Ordering::AcqRel)
    }

    fn turn_off(&self) {
        if self.state.swap(OFF, Ordering::AcqRel) == ON {
            account::leave(String::from(
                "PyTorch's allocator has an unknown kind of trace: pools and streams of blocks are not recorded",
            ));
        }
    }

    /// The trace entry of an allocation that is being reported.
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
            pool: last.pool.get(),
        };
        if get(&last.ptr) == of.ptr && traced.requested <= of.bytes {
            return Some(traced);
        }
        // The allocator's lock has been held since before the entry, so that a device's first entry is not missed.
        if state == ON {
            self.turn_off();
        }
        None
    }

    /// Handles the reported release of a block: if the block is not back in its pool by now, it waits for streams.
    pub(super) fn freed(&self, device: DeviceOrdinal) {
        if let Some(last) = self.devices.get(usize::from(device.0)) {
            last.freeing.store(0, Ordering::Relaxed);
        }
    }

    /// The stream, and if known the pool, of the failure that is being reported.
    pub(super) fn failed(&self, device: DeviceOrdinal) -> Option<(u64, Option<Pool>)> {
        let last = self
            .devices
            .get(usize::from(device.0))
            .filter(|_| self.is_on())?;
        let (stream, pool) = &last.failed;
        Some((stream.load(Ordering::Relaxed), pool.get()))
    }

    /// Whether to attach the callback now, which is done once.
    pub(super) fn begin(&self) -> bool {
        let first =
            self.state
                .compare_exchange(IDLE, STARTING, Ordering::AcqRel, Ordering::Acquire);
        first.is_ok()
    }

    /// Records that the callback is attached to all devices.
    pub(super) fn begun(&self) {
        self.state.store(ON, Ordering::Release);
    }

    /// Records that the callback cannot be attached.
    pub(super) fn cannot(&self) {
        self.state.store(OFF, Ordering::Release);
    }

    /// The pool of a new entry, if it includes one. The first entry determines the tail of all entries.
    fn pool(&self, entry: &TraceEntry) -> Option<Pool> {
        const POOL: u8 = Tail::PoolAndTime as u8 + 1;
        let mut tail = self.tail.load(Ordering::Relaxed);
        if tail == 0 {
            // SAFETY: the allocator passes its own entry.
            let found = unsafe { entry.tail(clock()) };
            tail = found.map_or(0, |found| found as u8 + 1);
            self.tail.store(tail, Ordering::Relaxed);
        }
        match tail {
            // SAFETY: all entries of a release are laid out as its first one.
            POOL => Some(unsafe { entry.pool() }),
            _ => None,
        }
    }

    /// Handles an entry; returns whether an earlier freed block returned to the pool.
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
                last.pool.set(self.pool(entry));
                false
            }
            TraceEntry::FREE_REQUESTED => {
                set(&last.freeing, entry.ptr);
                false
            }
            TraceEntry::OOM => {
                set(&last.failed.0, entry.stream);
                last.failed.1.set(self.pool(entry));
                false
            }
            TraceEntry::FREE_COMPLETED => last.freeing.swap(0, Ordering::Relaxed) != entry.ptr,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumem_unwind::Registers;

    use super::*;

    /// An allocation whose entry was not seen.
    const UNSEEN: Reported = Reported {
        from: Registers {
            pc: 0,
            sp: 0,
            bp: 0,
        },
        rax: 0,
        ptr: 0x1000,
        bytes: 512,
        device: DeviceOrdinal(0),
    };

    /// Other threads allocate while the callback is being attached to one device after the other.
    #[test]
    fn an_entry_may_be_missed_while_the_trace_starts_and_not_later() {
        let trace = Trace::default();
        assert!(trace.is_idle() && trace.begin() && !trace.begin());
        assert!(!trace.is_on() && trace.alloc_of(&UNSEEN).is_none());
        assert_eq!(trace.state.load(Ordering::Relaxed), STARTING);
        trace.begun();
        assert!(trace.is_on());
        assert!(trace.alloc_of(&UNSEEN).is_none() && !trace.is_on());
    }
}
