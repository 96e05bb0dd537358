//! The time of events: CLOCK_MONOTONIC, calculated from the processor's own counter.
//!
//! A call of the C library takes 22 ns in a loop and about 160 in a training, where neither its code nor the kernel's
//! page of clock data is in a near cache, and where its fence waits for all pending loads. So the clock is read a few
//! times a second, and a straight line is laid through these readings. Between them the line is read, which is one
//! cache line.
//!
//! ```text
//!   ns │            ╱ the clock          A new line begins on the old one, and aims at the clock's value
//!      │        ╱‾‾╱                     at its own end. So time does not jump where one line follows
//!      │     ╱‾   ╱  line 3              another.
//!      │  ╱‾╱ line 2
//!      └──┴───┴──────┴────── ticks
//! ```
//! Used only where the counter has a constant rate on all processors and the kernel uses it as its clock source. If
//! line and clock diverge (the machine slept, or was migrated), time jumps to the clock.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Maximum duration of a line.
const LONGEST_NS: u64 = 50_000_000;
/// Minimum time between the readings for a line: a reading has an error of about 50 ns.
const SHORTEST_NS: u64 = 1_000_000;
/// Maximum difference of line and clock that is corrected gradually.
const APART_NS: u64 = 5_000;
/// A rate that differs by more than this fraction from the previous one is rejected: the machine slept, or was
/// migrated.
const PACE_PARTS: u64 = 1_000;
/// The number of clock readings, of which the fastest is used.
const READINGS: u32 = 3;
/// Fraction bits of a rate.
const FRACTION: u32 = 32;

/// What is read; tests simulate it.
pub(super) trait Source {
    /// The processor's counter.
    fn counter() -> u64;
    /// CLOCK_MONOTONIC.
    fn clock() -> u64;
}

/// This machine.
pub(super) struct Machine;

impl Source for Machine {
    /// The counter is not ordered with the instructions around it, which makes a difference of some tens of
    /// nanoseconds.
    #[inline(always)]
    fn counter() -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction only reads the counter.
        return unsafe { core::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    }

    #[inline]
    fn clock() -> u64 {
        gpumem_sys::clock::read(libc::CLOCK_MONOTONIC)
    }
}

/// Nanoseconds since the capture was opened.
#[repr(C, align(64))]
pub(super) struct Clock<S = Machine> {
    /// Odd while a thread changes the line.
    version: AtomicU32,
    /// Whether the counter is usable as a clock.
    trusted: bool,
    /// The start of the line, in ticks and in nanoseconds.
    begin: AtomicU64,
    begin_ns: AtomicU64,
    /// Nanoseconds per tick.
    pace: AtomicU64,
    /// The duration of the line in ticks; 0 without a line.
    ticks: AtomicU64,
    /// CLOCK_MONOTONIC at the opening.
    opened: u64,
    /// The last reading, for the thread that has made `version` odd; 0 ticks without one.
    read: AtomicU64,
    read_ns: AtomicU64,
    source: PhantomData<S>,
}

impl Clock {
    /// Counts from `opened`, a reading of CLOCK_MONOTONIC.
    pub(super) fn new(opened: u64) -> Self {
        Self::with(opened, is_steady())
    }
}

impl<S: Source> Clock<S> {
    fn with(opened: u64, trusted: bool) -> Self {
        Self {
            version: AtomicU32::new(0),
            trusted,
            begin: AtomicU64::new(0),
            begin_ns: AtomicU64::new(0),
            pace: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            opened,
            read: AtomicU64::new(0),
            read_ns: AtomicU64::new(0),
            source: PhantomData,
        }
    }

    /// The current time.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self.on_the_line() {
            Some(ns) => ns,
            None => self.ask(),
        }
    }

    /// The time by the line; None after its end.
    #[inline]
    fn on_the_line(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let begin = self.begin.load(Ordering::Relaxed);
        let begin_ns = self.begin_ns.load(Ordering::Relaxed);
        let pace = self.pace.load(Ordering::Relaxed);
        let most = self.ticks.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let since = S::counter().wrapping_sub(begin);
        let whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        (whole && since < most).then(|| begin_ns.wrapping_add(at_pace(since, pace)))
    }

    /// The time by the clock; lays a new line where possible.
    #[cold]
    #[inline(never)]
    fn ask(&self) -> u64 {
        let now = self.by_the_clock();
        let due = now.saturating_sub(self.read_ns.load(Ordering::Relaxed)) >= SHORTEST_NS;
        let nothing_read = self.read.load(Ordering::Relaxed) == 0;
        if !self.trusted || !(due || nothing_read) {
            return now;
        }
        let version = self.version.load(Ordering::Relaxed);
        let odd = version.wrapping_add(1);
        let mine = version & 1 == 0
            && self
                .version
                .compare_exchange(version, odd, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !mine {
            return now;
        }
        // No store to the line may come before the odd version.
        fence(Ordering::Release);
        self.lay();
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
        // Later times on this thread are read from the line, so this one is, too.
        self.on_the_line().unwrap_or(now)
    }

    fn by_the_clock(&self) -> u64 {
        S::clock().saturating_sub(self.opened)
    }

    /// Lays a line from now on. Only the caller changes it.
    fn lay(&self) {
        let Some((tick, ns)) = self.read_both() else {
            return;
        };
        let (before, before_ns) = (
            self.read.load(Ordering::Relaxed),
            self.read_ns.load(Ordering::Relaxed),
        );
        self.read.store(tick, Ordering::Relaxed);
        self.read_ns.store(ns, Ordering::Relaxed);
        let old = self.pace.load(Ordering::Relaxed);
        let ticks = tick.checked_sub(before).filter(|_| before != 0);
        let line = ticks.zip(ns.checked_sub(before_ns));
        let line = line.and_then(|(ticks, passed)| {
            let pace = pace(ticks, passed)?;
            let alike = old == 0 || pace.abs_diff(old) <= old / PACE_PARTS;
            alike.then_some((pace, LONGEST_NS.min(passed.saturating_mul(2))))
        });
        let Some((pace, lasts)) = line else {
            // Start again with the next reading.
            self.pace.store(0, Ordering::Relaxed);
            self.ticks.store(0, Ordering::Relaxed);
            return;
        };
        let told = match old {
            0 => ns,
            _ => {
                let since = tick.wrapping_sub(self.begin.load(Ordering::Relaxed));
                let begin_ns = self.begin_ns.load(Ordering::Relaxed);
                let told = begin_ns.wrapping_add(at_pace(since, old));
                if told.abs_diff(ns) > APART_NS {
                    ns
                } else {
                    told
                }
            }
        };
        let ticks = ((u128::from(lasts) << FRACTION) / u128::from(pace)) as u64;
        // From the line's value to the clock's future value.
        let aimed = ns.saturating_add(lasts).saturating_sub(told);
        let pace = ((u128::from(aimed) << FRACTION) / u128::from(ticks.max(1))) as u64;
        self.begin.store(tick, Ordering::Relaxed);
        self.begin_ns.store(told, Ordering::Relaxed);
        self.pace.store(pace, Ordering::Relaxed);
        self.ticks.store(ticks, Ordering::Relaxed);
    }

    /// Counter and clock at the same time; None if this thread was interrupted at each attempt.
    fn read_both(&self) -> Option<(u64, u64)> {
        let quickest = (0..READINGS)
            .map(|_| {
                let before = S::counter();
                let ns = self.by_the_clock();
                let after = S::counter();
                (after.wrapping_sub(before), before, ns)
            })
            .min()?;
        let (took, before, ns) = quickest;
        // Some microseconds or more: a reading that was interrupted.
        (took < 10_000).then_some((before + took / 2, ns))
    }
}

/// Nanoseconds of that many ticks.
#[inline]
fn at_pace(ticks: u64, pace: u64) -> u64 {
    ((u128::from(ticks) * u128::from(pace)) >> FRACTION) as u64
}

/// None for an implausible rate.
fn pace(ticks: u64, ns: u64) -> Option<u64> {
    let pace = (u128::from(ns) << FRACTION).checked_div(ticks.into())?;
    // From 100 MHz to 100 GHz.
    let plausible = (1 << FRACTION) / 100..10 << FRACTION;
    u64::try_from(pace)
        .ok()
        .filter(|pace| plausible.contains(pace))
}

/// Whether the counter has the same constant rate on all processors. The kernel, which monitors it, then uses it as its
/// clock source.
#[cfg(target_arch = "x86_64")]
fn is_steady() -> bool {
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    use core::arch::x86_64::__cpuid;
    let invariant = __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0;
    let mut mode: libc::c_int = 0;
    // SAFETY: the system writes one number.
    let asked = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    let may_read = asked == 0 && mode == libc::PR_TSC_ENABLE;
    invariant && may_read && std::fs::read(SOURCE).is_ok_and(|name| name.trim_ascii() == b"tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_steady() -> bool {
    false
}

#[cfg(test)]
mod tests;
