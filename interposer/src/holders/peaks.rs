//! The peaks at which holders are searched for, if the program wants to know (`GPUMEM_HOLDERS=SIZE`).
//!
//! The thread that allocates must not take the interpreter's lock, and the state that matters is that of the objects. So
//! it leaves a pending call, which the interpreter makes in its main thread between two instructions, with the lock. If
//! much was freed until then, as within a backward, nothing is recorded. Searches take two seconds and a fiftieth of the
//! time at most; a training reaches its peak again in the next step.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpumem_capture::{DeviceOrdinal, Nanos, Seq};

/// The devices that are watched.
const DEVICES: usize = 64;
/// A search is worth its time if a peak is higher by this part than the one before, and no more than that was freed.
const PART: u64 = 10;
/// The part of the time that searches take, beside the first of them.
const SHARE: u64 = 50;
/// The time that the first searches take, in nanoseconds.
const FIRST: u64 = 2_000_000_000;

/// The peaks of a process's tensors.
pub(crate) struct Peaks {
    /// By device: the live bytes above which a peak is a new one.
    above: [AtomicU64; DEVICES],
    /// By device: the most live bytes above that.
    most: [AtomicU64; DEVICES],
    /// The time from which on there may be another search.
    from: AtomicU64,
    /// How long all searches took, in nanoseconds.
    spent: AtomicU64,
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
            spent: AtomicU64::new(0),
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

    /// A device has these live bytes since this event, which was at that time. Returns whether the interpreter is to make a
    /// call about it.
    pub(super) fn begin(
        &self,
        device: DeviceOrdinal,
        live: u64,
        (seq, time): (Seq, Nanos),
    ) -> bool {
        let most = self.most.get(usize::from(device.0));
        let most = most.map_or(0, |most| most.fetch_max(live, Ordering::Relaxed));
        // On the way to a peak that is known already.
        let is_below = live < most - most / PART;
        if is_below
            || time.0 < self.from.load(Ordering::Relaxed)
            || self.is_pending.swap(true, Ordering::AcqRel)
        {
            return false;
        }
        self.device.store(u64::from(device.0), Ordering::Relaxed);
        self.live.store(live, Ordering::Relaxed);
        self.seq.store(seq.0, Ordering::Release);
        true
    }

    /// What the call is about: the device, the event with which it had the peak, and the least live bytes for which a
    /// search is still worth its time.
    pub(super) fn peak(&self) -> (DeviceOrdinal, Seq, u64) {
        let (seq, live) = (
            self.seq.load(Ordering::Acquire),
            self.live.load(Ordering::Relaxed),
        );
        let device = self.device.load(Ordering::Relaxed) as u8;
        (DeviceOrdinal(device), Seq(seq), live - live / PART)
    }

    /// There was no search: what is to have more live bytes than this one had is the next peak.
    pub(super) fn passed(&self, device: DeviceOrdinal) {
        self.raise(device, self.live.load(Ordering::Relaxed));
    }

    /// There was a search, with these live bytes, from one time to the other.
    pub(super) fn searched(&self, device: DeviceOrdinal, live: u64, [began, ended]: [Nanos; 2]) {
        let took = ended.0.saturating_sub(began.0);
        let spent = self.spent.fetch_add(took, Ordering::Relaxed) + took;
        let from = spent.saturating_sub(FIRST).saturating_mul(SHARE);
        self.from.store(from, Ordering::Relaxed);
        self.raise(device, live.saturating_add(live / PART));
    }

    fn raise(&self, device: DeviceOrdinal, bytes: u64) {
        if let Some(above) = self.of(device) {
            above.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// The call was made, or will not be.
    pub(super) fn end(&self) {
        self.is_pending.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: DeviceOrdinal = DeviceOrdinal(0);

    fn reach(peaks: &Peaks, live: u64, time: u64) -> bool {
        peaks.is_new(GPU, live) && peaks.begin(GPU, live, (Seq(live), Nanos(time)))
    }

    #[test]
    fn a_search_comes_above_the_size_and_again_near_a_higher_peak() {
        let peaks = Peaks::above(100);
        assert!(!reach(&peaks, 100, 0));
        assert!(reach(&peaks, 101, 1));
        assert!(!reach(&peaks, 120, 2), "one at a time");
        assert_eq!(peaks.peak(), (GPU, Seq(101), 91));
        peaks.searched(GPU, 101, [Nanos(10), Nanos(12)]);
        peaks.end();
        assert!(!reach(&peaks, 111, 13), "a tenth more at least");
        assert!(reach(&peaks, 200, 13));
        // Much was freed until the call.
        peaks.passed(GPU);
        peaks.end();
        assert!(!reach(&peaks, 200, 14));
        assert!(reach(&peaks, 201, 14));
    }

    #[test]
    fn searches_take_two_seconds_and_a_fiftieth_of_the_time() {
        let peaks = Peaks::above(100);
        assert!(reach(&peaks, 101, 1));
        peaks.searched(GPU, 101, [Nanos(0), Nanos(FIRST + 10)]);
        peaks.end();
        assert!(!reach(&peaks, 200, 499));
        assert!(!reach(&peaks, 179, 500), "on the way to 200");
        assert!(reach(&peaks, 180, 500));
    }

    #[test]
    fn a_device_without_a_place_has_no_peaks() {
        assert!(!Peaks::above(0).is_new(DeviceOrdinal(64), 1));
    }
}
