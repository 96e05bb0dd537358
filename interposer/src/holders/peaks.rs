//! Who keeps the tensors at a new peak, if the program wants to know (`GPUMEM_HOLDERS=SIZE`).
//!
//! The thread that allocates must not take the interpreter's lock, and the state that matters is that of the objects. So
//! it leaves a pending call, which the interpreter makes in its main thread between two instructions, with the lock. If
//! much was freed until then, as within a backward, nothing is recorded. Searches take a fiftieth of the time at most; a
//! training reaches its peak again in the next step.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpumem_capture::{DeviceOrdinal, Nanos, ProcessKey, Seq};

use super::{find, text};
use crate::session::{self, Session};
use crate::{account, process, thread};

/// The devices that are watched.
const DEVICES: usize = 64;
/// A search is worth its time if a peak is higher by this part than the one before, and no more than that was freed.
const PART: u64 = 20;
/// The next search comes after this many times the time of the last one.
const REST: u64 = 50;

/// The peaks of a process's tensors.
pub(crate) struct Peaks {
    /// By device: the live bytes above which a peak is a new one.
    above: [AtomicU64; DEVICES],
    /// By device: the most live bytes above that.
    most: [AtomicU64; DEVICES],
    /// The time from which on there may be another search.
    from: AtomicU64,
    /// Whether the interpreter has a call to make.
    is_pending: AtomicBool,
    /// What the call is about: the device, its live bytes and the event.
    device: AtomicU64,
    live: AtomicU64,
    seq: AtomicU64,
}

impl Peaks {
    /// Peaks above these bytes.
    pub(crate) fn above(bytes: u64) -> Self {
        Self {
            above: [const { AtomicU64::new(0) }; DEVICES].map(|_| AtomicU64::new(bytes)),
            most: [const { AtomicU64::new(0) }; DEVICES],
            from: AtomicU64::new(0),
            is_pending: AtomicBool::new(false),
            device: AtomicU64::new(0),
            live: AtomicU64::new(0),
            seq: AtomicU64::new(0),
        }
    }

    fn of(&self, device: DeviceOrdinal) -> Option<&AtomicU64> {
        self.above.get(usize::from(device.0))
    }

    /// Whether a device has a new peak with these live bytes.
    #[inline]
    pub(crate) fn is_new(&self, device: DeviceOrdinal, live: u64) -> bool {
        self.of(device)
            .is_some_and(|above| live > above.load(Ordering::Relaxed))
    }

    /// A device has a new peak since this event, which was at that time.
    #[cold]
    #[inline(never)]
    pub(crate) fn reach(&self, device: DeviceOrdinal, live: u64, (seq, time): (Seq, Nanos)) {
        let most = self.most.get(usize::from(device.0));
        let most = most.map_or(0, |most| most.fetch_max(live, Ordering::Relaxed));
        // On the way to a peak that is known already.
        let is_below = live < most - most / PART;
        if is_below
            || time.0 < self.from.load(Ordering::Relaxed)
            || self.is_pending.swap(true, Ordering::AcqRel)
        {
            return;
        }
        self.device.store(u64::from(device.0), Ordering::Relaxed);
        self.live.store(live, Ordering::Relaxed);
        self.seq.store(seq.0, Ordering::Release);
        if !gpumem_holders::call_soon(called) {
            self.is_pending.store(false, Ordering::Release);
        }
    }
}

/// Called by the interpreter in its main thread, with its lock.
extern "C-unwind" fn called(_: *mut c_void) -> c_int {
    if process::is_aside() {
        return 0;
    }
    let session = session::session();
    let Some((session, peaks)) = session.and_then(|of| Some((of, of.peaks.as_ref()?))) else {
        return 0;
    };
    let lock = gpumem_holders::lock();
    if let Some(lock) = &lock {
        let _ = thread::guarded_with_room(|_| record(session, peaks, lock));
    }
    drop(lock);
    peaks.is_pending.store(false, Ordering::Release);
    0
}

fn record(session: &'static Session, peaks: &Peaks, lock: &gpumem_holders::Lock) {
    let (seq, peak) = (
        peaks.seq.load(Ordering::Acquire),
        peaks.live.load(Ordering::Relaxed),
    );
    let Ok(device) = u8::try_from(peaks.device.load(Ordering::Relaxed)) else {
        return;
    };
    let device = DeviceOrdinal(device);
    let least = peak - peak / PART;
    let above = |bytes: u64| {
        if let Some(above) = peaks.of(device) {
            above.fetch_max(bytes, Ordering::Relaxed);
        }
    };
    if session.tensors.live_bytes(device) < least {
        return above(peak);
    }
    let began = session.writer.now().0;
    let Some((holders, live)) = find(session, lock, device) else {
        return above(peak);
    };
    let now = session.writer.now().0;
    let rest = now.saturating_sub(began).saturating_mul(REST);
    peaks
        .from
        .store(now.saturating_add(rest), Ordering::Relaxed);
    above(live.saturating_add(live / PART));
    let key = format!("{}{}", ProcessKey::PEAK_HOLDERS, device.0);
    let value = format!("at {seq}\n{}", text::recorded(&holders, live));
    if session.writer.fact(key, value).is_err() {
        account::note(
            session.writer,
            "the holders of blocks did not fit into the capture",
        );
    }
}
