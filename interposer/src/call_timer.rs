//! The duration of the real call behind a hook, if a program or library called the hook directly.
//!
//! A function of the runtime calls hooked functions of the driver, and the recorder's work there is not part of its
//! duration. So within a timed call, each hook adds its own work before and after its real call to `own_ns`, which
//! the timed call subtracts.
//!
//! ```text
//!   cudaMalloc     ├──────────────── real call ────────────────┤
//!   cuMemAlloc         ├─ own ─├─── real call ───┤─── own ───┤
//!   time           ├───┤       ├─────────────────┤           ├─┤
//! ```

use gpumem_cuda_abi::{CuResult, CudaError, NvmlReturn};

use crate::call_times::{Outcome, Role};
use crate::session::{self, Session};
use crate::thread::{self, Thread};
use crate::{call_counts, process};

/// The result of a hooked function.
pub(crate) trait Returned {
    /// Whether the call is known to have failed.
    fn has_failed(&self) -> bool {
        false
    }

    /// Whether it succeeded (`false`) or ran out of memory (`true`); `None` otherwise.
    fn ran_out(&self) -> Option<bool> {
        None
    }
}

impl Returned for () {}
impl<T> Returned for *const T {}
impl Returned for NvmlReturn {}

impl Returned for CuResult {
    fn has_failed(&self) -> bool {
        !self.is_success()
    }

    fn ran_out(&self) -> Option<bool> {
        (self.is_success() || *self == Self::OUT_OF_MEMORY).then(|| !self.is_success())
    }
}

impl Returned for CudaError {
    fn has_failed(&self) -> bool {
        !self.is_success()
    }

    fn ran_out(&self) -> Option<bool> {
        (self.is_success() || *self == Self::MEMORY_ALLOCATION).then(|| !self.is_success())
    }
}

/// The clock of the events; without an open capture, the clock that it is based on.
#[derive(Clone, Copy)]
struct Clock(Option<&'static Session>);

impl Clock {
    fn take() -> Self {
        Self(session::session())
    }

    #[inline]
    fn now(self) -> u64 {
        match self.0 {
            Some(session) => session.writer.fine_now().0,
            #[cfg(not(test))]
            None => gpumem_sys::clock::read(libc::CLOCK_MONOTONIC),
            #[cfg(test)]
            None => tests::NOW.get(),
        }
    }
}

/// The part of a call that is timed.
#[derive(Clone, Copy)]
enum Part {
    Nothing,
    /// The real call, with its index in [`crate::call_times::TIMED`].
    Real(usize),
    /// The recorder's work, within a timed call.
    Own,
}

/// One hooked call.
pub(crate) struct CallTimer {
    part: Part,
    clock: Clock,
    since: u64,
    /// Whether the real call is in progress. If it still is at the end, an exception left it.
    in_real: bool,
}

impl CallTimer {
    const NOTHING: Self = Self {
        part: Part::Nothing,
        clock: Clock(None),
        since: 0,
        in_real: false,
    };

    /// Enters a call, after [`crate::call::Call`].
    #[inline(always)]
    pub(crate) fn enter(role: Role) -> Self {
        thread::with(|thread| match (thread.depth.get(), role) {
            (0 | 1, Role::Timed(place)) => Self::outermost(thread, place),
            (0 | 1, _) => {
                // An earlier call may have been left by longjmp.
                thread.is_timing.set(false);
                Self::NOTHING
            }
            _ if thread.is_timing.get() => Self::within(thread, role),
            _ => Self::NOTHING,
        })
    }

    #[inline]
    fn outermost(thread: &Thread, place: usize) -> Self {
        let is_programs = !thread.in_recorder.get() && !process::is_aside();
        thread.is_timing.set(is_programs);
        thread.has_set_up.set(false);
        thread.own_ns.set(0);
        match is_programs {
            true => Self {
                part: Part::Real(place),
                clock: Clock::take(),
                ..Self::NOTHING
            },
            false => Self::NOTHING,
        }
    }

    #[cold]
    #[inline(never)]
    fn within(thread: &Thread, role: Role) -> Self {
        let clock = Clock::take();
        if role == Role::SetsUp {
            thread.has_set_up.set(true);
        }
        Self {
            part: Part::Own,
            clock,
            since: clock.now(),
            in_real: false,
        }
    }

    /// The real call starts.
    #[inline(always)]
    pub(crate) fn real_begins(&mut self) {
        match self.part {
            Part::Nothing => {}
            Part::Real(_) => self.since = self.clock.now(),
            Part::Own => self.add_own(),
        }
        self.in_real = true;
    }

    /// The real call has returned.
    #[inline(always)]
    pub(crate) fn real_returned(&mut self, failed: bool) {
        self.in_real = false;
        match self.part {
            Part::Nothing => {}
            Part::Real(place) => self.took(place, failed),
            Part::Own => self.begin_own(),
        }
    }

    #[inline]
    fn took(&self, place: usize, failed: bool) {
        let whole = self.clock.now().saturating_sub(self.since);
        let (own, has_set_up) = thread::with(|thread| {
            thread.is_timing.set(false);
            (thread.own_ns.get(), thread.has_set_up.get())
        });
        let outcome = match (failed, has_set_up) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::SetUp,
            (false, false) => Outcome::Succeeded,
        };
        call_counts::took(place, outcome, whole.saturating_sub(own));
    }

    #[cold]
    #[inline(never)]
    fn begin_own(&mut self) {
        self.since = self.clock.now();
    }

    #[cold]
    #[inline(never)]
    fn add_own(&self) {
        let own = self.clock.now().saturating_sub(self.since);
        thread::with(|thread| thread.own_ns.set(thread.own_ns.get().saturating_add(own)));
    }
}

impl Drop for CallTimer {
    #[inline(always)]
    fn drop(&mut self) {
        match self.part {
            Part::Nothing => {}
            Part::Own if !self.in_real => self.add_own(),
            Part::Own => {}
            Part::Real(_) if self.in_real => thread::with(|thread| thread.is_timing.set(false)),
            Part::Real(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::call::Call;
    use crate::call_times::role;
    use crate::hooks::{context, memory, runtime};
    use gpumem_unwind::Registers;

    /// Registers of a call; a higher `depth` is a deeper call.
    fn at(depth: u64) -> Registers {
        Registers {
            pc: depth,
            sp: 4096 - depth,
            ..Registers::default()
        }
    }

    thread_local! {
        /// The time without an open capture.
        pub(super) static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn pass(ns: u64) {
        NOW.set(NOW.get() + ns);
    }

    /// The number of calls with that outcome, and their total nanoseconds, for the function with that name.
    fn times(name: &str, outcome: Outcome) -> (u64, u64) {
        let Role::Timed(place) = role(name) else {
            panic!("{name} is not timed");
        };
        let text = call_counts::times(place, outcome).to_string();
        let mut numbers = text.split(' ').map(|word| word.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    #[test]
    fn what_inner_hooks_do_is_no_part_of_the_time() {
        let before = times("cudaMallocPitch", Outcome::Succeeded);
        let inner_before = times("cuMemAllocPitch_v2", Outcome::Succeeded);
        let outer_call = Call::enter(&runtime::cudaMallocPitch::HOOK, at(8));
        let mut outer = CallTimer::enter(role("cudaMallocPitch"));
        pass(1);
        outer.real_begins();
        pass(10);
        {
            let _call = Call::enter(&memory::cuMemAllocPitch_v2::HOOK, at(16));
            let mut inner = CallTimer::enter(role("cuMemAllocPitch_v2"));
            pass(100);
            inner.real_begins();
            pass(1_000);
            inner.real_returned(false);
            pass(10_000);
        }
        pass(100_000);
        outer.real_returned(false);
        pass(1_000_000);
        drop(outer);
        drop(outer_call);
        let after = times("cudaMallocPitch", Outcome::Succeeded);
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 101_010));
        let inner_after = times("cuMemAllocPitch_v2", Outcome::Succeeded);
        assert_eq!(inner_after, inner_before);
    }

    #[test]
    fn failures_and_calls_that_make_a_context_are_counted_apart() {
        let all = || Outcome::ALL.map(|outcome| times("cudaMalloc3D", outcome).0);
        let before = all();
        let call = |failed, makes_context| {
            let _call = Call::enter(&runtime::cudaMalloc3D::HOOK, at(8));
            let mut timer = CallTimer::enter(role("cudaMalloc3D"));
            timer.real_begins();
            if makes_context {
                let _call = Call::enter(&context::cuDevicePrimaryCtxRetain::HOOK, at(16));
                let mut inner = CallTimer::enter(role("cuDevicePrimaryCtxRetain"));
                inner.real_begins();
                inner.real_returned(false);
            }
            timer.real_returned(failed);
        };
        call(false, false);
        call(true, false);
        call(true, true);
        call(false, true);
        call(false, false);
        let after = all();
        let more: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        assert_eq!(more, [2, 2, 1]);
    }

    #[test]
    fn a_call_that_an_exception_leaves_is_not_counted() {
        let before = times("cudaMallocManaged", Outcome::Succeeded);
        let left = std::panic::catch_unwind(|| {
            let _call = Call::enter(&runtime::cudaMallocManaged::HOOK, at(8));
            let mut timer = CallTimer::enter(role("cudaMallocManaged"));
            timer.real_begins();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        thread::with(|thread| assert!(!thread.is_timing.get()));
        assert_eq!(times("cudaMallocManaged", Outcome::Succeeded), before);
    }
}
