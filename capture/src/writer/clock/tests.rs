use core::cell::{Cell, RefCell};
use std::rc::Rc;

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
    /// What another thread does before the counter is read next.
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A machine whose time passes by readings, and as a test likes.
struct Simulated;

impl Source for Simulated {
    fn counter() -> u64 {
        if let Some(act) = MEANWHILE.take() {
            act();
        }
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

/// A machine whose time passes only as its threads like. A reading during which it passes takes too long, so it is not
/// used; all others are exact.
struct Shared;

static TIME: AtomicU64 = AtomicU64::new(MS);

impl Shared {
    /// A power of two: lines of this rate are exact, too.
    const RATE: u64 = 4;
    /// Longer than any reading that is used.
    const STEP: u64 = 3_000;
}

impl Source for Shared {
    fn counter() -> u64 {
        Self::RATE * Self::clock()
    }

    fn clock() -> u64 {
        TIME.load(Ordering::Acquire)
    }
}

/// A part of each line would be off by the length of a line.
#[test]
fn a_line_that_another_thread_changes_is_not_read() {
    let clock = Rc::new(with_a_line());
    let other = clock.clone();
    MEANWHILE.set(Some(Box::new(move || {
        other.ask();
    })));
    assert_eq!(clock.on_the_line(), None, "after it was read");
    assert!(clock.on_the_line().is_some());
    pass(2 * MS);
    let other = clock.clone();
    MEANWHILE.set(Some(Box::new(move || {
        let version = other.version.load(Ordering::Relaxed);
        assert_eq!(other.on_the_line(), None, "while it is changed");
        assert_eq!(told(&other).1, 0);
        assert_eq!(other.version.load(Ordering::Relaxed), version);
    })));
    let version = clock.version.load(Ordering::Relaxed);
    clock.ask();
    assert!(MEANWHILE.take().is_none());
    assert_eq!(clock.version.load(Ordering::Relaxed), version + 2);
}

#[test]
fn it_is_exact_on_each_of_several_threads() {
    const LINES: u32 = 50_000;
    let clock = Clock::<Shared>::with(MS, true);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut by_lines = 0;
                while clock.version.load(Ordering::Relaxed) < 2 * LINES || by_lines < LINES {
                    for _ in 0..20 {
                        let before = clock.by_the_clock();
                        let told = clock.now();
                        let after = clock.by_the_clock();
                        assert!(
                            (before..=after).contains(&told),
                            "{before}, {told}, {after}"
                        );
                        by_lines += u32::from(clock.on_the_line().is_some());
                        TIME.fetch_add(Shared::STEP, Ordering::AcqRel);
                    }
                    TIME.fetch_add(20 * MS, Ordering::AcqRel);
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
