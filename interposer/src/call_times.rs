//! The durations of calls of CUDA's memory functions, by function and outcome.
//!
//! [`crate::call_counts`] has some such tables; a call adds to two words of one, and rarely to a third.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// The functions whose calls are timed.
pub(crate) const TIMED: [&str; 49] = [
    "cuArray3DCreate_v2",
    "cuArrayCreate_v2",
    "cuArrayDestroy",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuMemAllocHost_v2",
    "cuMemAllocManaged",
    "cuMemAllocPitch_v2",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemMap",
    "cuMemPoolTrimTo",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cudaFree",
    "cudaFreeArray",
    "cudaFreeAsync",
    "cudaFreeAsync_ptsz",
    "cudaFreeHost",
    "cudaFreeMipmappedArray",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cudaMalloc",
    "cudaMalloc3D",
    "cudaMalloc3DArray",
    "cudaMallocArray",
    "cudaMallocAsync",
    "cudaMallocAsync_ptsz",
    "cudaMallocFromPoolAsync",
    "cudaMallocFromPoolAsync_ptsz",
    "cudaMallocHost",
    "cudaMallocManaged",
    "cudaMallocMipmappedArray",
    "cudaMallocPitch",
];

/// Prefixes of functions that create a context or load code. The runtime calls them within the first call of a
/// program.
const SETS_UP: [&str; 4] = [
    "cuCtxCreate",
    "cuDevicePrimaryCtxRetain",
    "cuLibraryLoad",
    "cuModuleLoad",
];

/// The role of a hook for the durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its calls are timed: its index in [`TIMED`].
    Timed(usize),
    /// A timed call that calls it is counted separately.
    SetsUp,
    Other,
}

/// The role of the hook of that name.
pub(crate) const fn role(name: &str) -> Role {
    let mut place = 0;
    while place < TIMED.len() {
        if TIMED[place].len() == name.len() && begins_with(name, TIMED[place]) {
            return Role::Timed(place);
        }
        place += 1;
    }
    let mut place = 0;
    while place < SETS_UP.len() {
        if begins_with(name, SETS_UP[place]) {
            return Role::SetsUp;
        }
        place += 1;
    }
    Role::Other
}

const fn begins_with(name: &str, begin: &str) -> bool {
    let (name, begin) = (name.as_bytes(), begin.as_bytes());
    let mut at = 0;
    while at < begin.len() {
        if at >= name.len() || name[at] != begin[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    /// It succeeded, and a context was created or found or code loaded within it, or it freed nothing.
    SetUp,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::SetUp];
}

/// Calls by their time: a bucket has those of at least 2^n ns and less than twice that.
const BUCKETS: usize = 24;
/// The n of the first bucket, which has shorter calls too; the last one has longer calls too.
const SHORTEST: u32 = 9;

fn bucket(ns: u64) -> usize {
    let exponent = ns.checked_ilog2().unwrap_or(0);
    (exponent.saturating_sub(SHORTEST) as usize).min(BUCKETS - 1)
}

/// Times of one function's calls with one outcome.
pub(crate) struct Times {
    total: AtomicU64,
    greatest: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Times {
    const fn new() -> Self {
        Self {
            total: AtomicU64::new(0),
            greatest: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Adds a call.
    fn add(&self, ns: u64) {
        self.total.fetch_add(ns, Ordering::Relaxed);
        if ns > self.greatest.load(Ordering::Relaxed) {
            self.greatest.fetch_max(ns, Ordering::Relaxed);
        }
        if let Some(calls) = self.buckets.get(bucket(ns)) {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Times of all functions.
pub(crate) struct TimeTable([[Times; Outcome::ALL.len()]; TIMED.len()]);

impl TimeTable {
    pub(crate) const fn new() -> Self {
        Self([const { [const { Times::new() }; Outcome::ALL.len()] }; TIMED.len()])
    }

    /// Adds a call of the function at `place`.
    pub(crate) fn add(&self, place: usize, outcome: Outcome, ns: u64) {
        if let Some(times) = self.of(place, outcome) {
            times.add(ns);
        }
    }

    fn of(&self, place: usize, outcome: Outcome) -> Option<&Times> {
        self.0.get(place)?.get(outcome as usize)
    }
}

/// Times of one function's calls with one outcome, by all threads. As text it is the value of the fact
/// [`gpumem_capture::ProcessKey::CALL_TIMES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    total: u64,
    greatest: u64,
    buckets: [u64; BUCKETS],
}

impl Sum {
    /// The sum over some tables.
    pub(crate) fn of<'a>(
        tables: impl Iterator<Item = &'a TimeTable>,
        place: usize,
        outcome: Outcome,
    ) -> Self {
        let mut sum = Self::default();
        for times in tables.filter_map(|table| table.of(place, outcome)) {
            sum.total = sum.total.wrapping_add(times.total.load(Ordering::Relaxed));
            sum.greatest = sum.greatest.max(times.greatest.load(Ordering::Relaxed));
            for (sum, calls) in sum.buckets.iter_mut().zip(&times.buckets) {
                *sum += calls.load(Ordering::Relaxed);
            }
        }
        sum
    }

    pub(crate) fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.calls(), self.total, self.greatest)?;
        for (exponent, calls) in (SHORTEST..).zip(&self.buckets) {
            if *calls != 0 {
                write!(f, " {exponent}:{calls}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook;

    #[test]
    fn roles_are_those_of_hooks() {
        for (place, name) in TIMED.iter().enumerate() {
            assert!(hook::by_name(name.as_bytes()).is_some(), "{name}");
            assert_eq!(role(name), Role::Timed(place));
        }
        for begin in SETS_UP {
            let begins = |hook: &hook::Hook| hook.name.to_bytes().starts_with(begin.as_bytes());
            assert!(hook::all().iter().any(begins), "{begin}");
        }
        assert_eq!(role("cuCtxCreate_v4"), Role::SetsUp);
        assert_eq!(role("cuMemAlloc"), Role::Other);
        assert_eq!(role("cuMemAlloc_v23"), Role::Other);
    }

    #[test]
    fn every_recorded_function_that_allocates_or_frees_is_timed() {
        let is_old = |name: &str| {
            [
                "cuMemAlloc",
                "cuMemAllocPitch",
                "cuMemFree",
                "cuMemAllocHost",
            ]
            .contains(&name)
        };
        for hook in hook::all() {
            let name = hook.name.to_str().unwrap();
            let begins = ["cuMemAlloc", "cuMemFree", "cudaMalloc", "cudaFree"];
            if begins.iter().any(|begin| name.starts_with(begin)) && !is_old(name) {
                assert!(matches!(role(name), Role::Timed(_)), "{name}");
            }
        }
    }

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!([0, 1, 1023].map(bucket), [0; 3]);
        assert_eq!([1024, 2047, 2048].map(bucket), [1, 1, 2]);
        assert_eq!(bucket(1 << 32), 23);
        assert_eq!(bucket(u64::MAX), 23);
    }

    #[test]
    fn tables_add_up() {
        let (one, other) = (&TimeTable::new(), &TimeTable::new());
        for ns in [900, 1_500, 70_000] {
            one.add(3, Outcome::Succeeded, ns);
        }
        other.add(3, Outcome::Succeeded, 1_600);
        other.add(3, Outcome::Failed, 5_000_000);
        let sum = |outcome| Sum::of([one, other].into_iter(), 3, outcome);
        let succeeded = sum(Outcome::Succeeded);
        assert_eq!(succeeded.calls(), 4);
        assert_eq!(succeeded.to_string(), "4 74000 70000 9:1 10:2 16:1");
        assert_eq!(sum(Outcome::Failed).to_string(), "1 5000000 5000000 22:1");
        assert_eq!(sum(Outcome::SetUp).calls(), 0);
        // A missing function is ignored.
        one.add(TIMED.len(), Outcome::Failed, 1);
    }
}
