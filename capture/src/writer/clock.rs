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
mod tests {
    use core::cell::Cell;

    use super::*;

    const MS: u64 = 1_000_000;
    /// Ticks per nanosecond.
    const RATE: u64 = 3;
    /// How long a reading takes.
    const READING: u64 = 20;

    thread_local! {
        static NS: Cell<u64> = const { Cell::new(1_000 * MS) };
        /// Ticks that the counter has made while the clock stood still.
        static AHEAD: Cell<u64> = const { Cell::new(0) };
        static READINGS_OF_CLOCK: Cell<u64> = const { Cell::new(0) };
    }

    /// A machine whose time passes by readings, and as a test likes.
    struct Simulated;

    impl Source for Simulated {
        fn counter() -> u64 {
            pass(READING);
            NS.get() * RATE + AHEAD.get()
        }

        fn clock() -> u64 {
            READINGS_OF_CLOCK.set(READINGS_OF_CLOCK.get() + 1);
            pass(match READINGS_OF_CLOCK.get() % 50 {
                // An interrupt.
                0 => 2 * MS,
                _ => READING,
            });
            NS.get()
        }
    }

    fn pass(ns: u64) {
        NS.set(NS.get() + ns);
    }

    /// A simulated clock with a line.
    fn with_a_line() -> Clock<Simulated> {
        let clock = Clock::with(NS.get(), true);
        for _ in 0..3 {
            clock.now();
            pass(2 * MS);
        }
        assert!(clock.on_the_line().is_some());
        clock
    }

    /// The clock's time, and its error, early or late.
    fn told<S: Source>(clock: &Clock<S>) -> (u64, u64) {
        let before = clock.by_the_clock();
        let told = clock.now();
        let after = clock.by_the_clock();
        (
            told,
            before.saturating_sub(told).max(told.saturating_sub(after)),
        )
    }

    #[test]
    fn it_is_the_systems_time_and_seldom_reads_it() {
        let clock = with_a_line();
        let (began, mut last, mut worst) = (NS.get(), 0, 0);
        for n in 0..100_000 {
            // From a call after another to a pause that outlasts a line.
            pass([10, 700, 90_000, 100][n % 4] + if n % 5_000 == 0 { 80 * MS } else { 0 });
            let (told, off) = told(&clock);
            assert!(told >= last, "{last} then {told}");
            (last, worst) = (told, worst.max(off));
        }
        assert!(worst < 1_000, "{worst} ns beside the clock");
        let before = READINGS_OF_CLOCK.replace(0);
        let seconds = (NS.get() - began) / (1_000 * MS);
        assert!(before > 200_000 && seconds > 2, "{before}, {seconds}");
        for _ in 0..100_000 {
            pass(10_000);
            clock.now();
        }
        // At most 20 lines in a second of calls, and some readings for each.
        assert!(READINGS_OF_CLOCK.get() < 120, "{}", READINGS_OF_CLOCK.get());
    }

    #[test]
    fn this_machine_is_followed() {
        let clock = Clock::new(Machine::clock());
        // The first two readings give a line.
        while is_steady() && clock.on_the_line().is_none() {
            clock.now();
        }
        for _ in 0..10_000 {
            let (_, off) = told(&clock);
            assert!(off < 2 * APART_NS, "{off} ns beside the clock");
        }
    }

    /// A machine whose time passes by the readings of all threads.
    struct Shared;

    static TIME: AtomicU64 = AtomicU64::new(MS);

    impl Source for Shared {
        fn counter() -> u64 {
            RATE * TIME.fetch_add(50, Ordering::Relaxed)
        }

        fn clock() -> u64 {
            TIME.fetch_add(50, Ordering::Relaxed)
        }
    }

    /// Threads that read a line while another one changes it would be off by the length of a line.
    #[test]
    fn it_does_not_go_back_on_a_thread() {
        const LINES: u32 = 50_000;
        let clock = Clock::<Shared>::with(MS, true);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = clock.now();
                    while clock.version.load(Ordering::Relaxed) < 2 * LINES {
                        for _ in 0..20 {
                            let now = clock.now();
                            assert!(now + MS >= last, "{last} then {now}");
                            last = now;
                        }
                        TIME.fetch_add(20 * MS, Ordering::Relaxed);
                    }
                });
            }
        });
    }

    #[test]
    fn where_the_counter_is_not_to_be_trusted_the_clock_is_asked() {
        let clock = Clock::<Simulated>::with(NS.get(), false);
        for _ in 0..1_000 {
            pass(MS);
            assert_eq!(told(&clock).1, 0);
            assert!(clock.on_the_line().is_none());
        }
    }

    #[test]
    fn a_line_that_has_come_apart_is_left() {
        let clock = with_a_line();
        // A sleep of the machine during which the counter ran and the clock did not.
        AHEAD.set(1 << 36);
        for _ in 0..20 {
            let (told, off) = told(&clock);
            assert!(off < MS, "{told}: {off} ns beside the clock");
            pass(2 * MS);
        }
        assert!(clock.on_the_line().is_some());
    }

    #[test]
    fn a_line_beside_the_clock_is_left_at_its_end() {
        let clock = with_a_line();
        for _ in 0..100 {
            clock.now();
            pass(10 * MS);
        }
        // Too little for another rate.
        AHEAD.set(4 * APART_NS * RATE);
        pass(2 * LONGEST_NS);
        let (_, off) = told(&clock);
        assert!(off < 1_000, "{off} ns beside the clock");
        assert!(clock.on_the_line().is_some());
    }

    #[test]
    fn paces_that_no_counter_has_are_none() {
        assert_eq!(pace(1_000, 1_000), Some(1 << FRACTION));
        assert_eq!(pace(1_000, 0), None);
        assert_eq!(pace(0, 1_000), None);
        assert_eq!(pace(1, 1 << 40), None);
        assert_eq!(at_pace(3_000_000_000, (1 << FRACTION) / 3), 999_999_999);
    }
}
