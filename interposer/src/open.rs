//! The states from a program that may never use CUDA to an open capture, or to recording being off.
//!
//! ```text
//!             first event                 opened
//!  DORMANT ───────────────► OPENING ───────────────► RECORDING ──(fork)──► nothing, in the child
//!     │                        │
//!     │                        └── cannot be opened: one line ──► OFF
//!     └──(fork)──► DORMANT in the child, which opens its own capture if it uses CUDA
//! ```
//! There is no way back. In RECORDING nothing is ever shut down: events are accepted until the process ends, or until
//! the ring's memory is lost ([`crate::fault`]). A forked child is in RECORDING too, but the writer detects by a page
//! that fork empties that this is not its process, and records nothing.

use core::sync::atomic::{AtomicU8, Ordering};
use std::ffi::OsString;
use std::time::Duration;

use crate::account::Once;
use crate::holders::peaks::Peaks;
use crate::holders::walks::Walks;
use crate::nearly_full::NearlyFull;
use crate::oom::Reports;
use crate::options::{self, Options};
use crate::process::{self, PROCESS, State};
use crate::sampler::Sampler;
use crate::session::{self, Session, Watch};
use crate::tensors::Tensors;
use crate::{
    account, backward, coords, definitions, facts, launcher, limit, memory, message, output,
    scopes, storage, thread,
};
use gpumem_capture::Ended;
use gpumem_capture::writer::lock::Lock;
use gpumem_sys::{own_stack, wait};
use gpumem_tracker::Tracker;

/// How often, and how long at a time, a thread waits for another one to open the capture: 5 s in total. Attempts are
/// counted, because a clock may be set forward meanwhile.
const LOOKS: u32 = 5_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Called by [`crate::session::open`].
#[used]
#[unsafe(link_section = "gpumem_open")]
static OPEN: session::Open = open_or_wait;

/// Opens the capture, or waits until another thread has opened it. Returns whether there is a session.
#[cold]
extern "C" fn open_or_wait() -> bool {
    let swap = PROCESS.state.compare_exchange(
        State::Dormant as u8,
        State::Opening as u8,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match swap {
        Ok(_) => {
            PROCESS.opener.store(std::process::id(), Ordering::Release);
            open_by(&PROCESS.state, open)
        }
        Err(state) if state == State::Opening as u8 => wait(),
        Err(state) => state == State::Recording as u8,
    }
}

/// Opens the capture by `open`, which returns whether it succeeded. A panic there turns recording off, so that other
/// threads do not wait.
fn open_by(state: &AtomicU8, open: impl FnOnce() -> bool) -> bool {
    let opened = thread::caught(|| own_stack::run(open));
    let is_open = opened == Some(true);
    let to = if is_open {
        State::Recording
    } else {
        State::Off
    };
    state.store(to as u8, Ordering::Release);
    if opened.is_none() {
        message::line(
            "cannot write a capture: internal error. Recording is off; the program continues.",
        );
    }
    is_open
}

/// Waits while another thread opens.
fn wait() -> bool {
    let mut looks = 0;
    while PROCESS.state.load(Ordering::Acquire) == State::Opening as u8 {
        let opener = PROCESS.opener.load(Ordering::Acquire);
        if (opener != 0 && opener != std::process::id()) || looks == LOOKS {
            account::opening_timed_out();
            return false;
        }
        looks += 1;
        wait::nap(BETWEEN_LOOKS);
    }
    PROCESS.state.load(Ordering::Acquire) == State::Recording as u8
}

/// Opens the capture: done by the first thread, once per process.
fn open() -> bool {
    thread::last::watch_main();
    silence_panics();
    let get = |name: &str| -> Option<OsString> { std::env::var_os(name) };
    let options = Options::read(get);
    options::report_typos(std::env::vars_os().map(|(name, _)| name));
    let identity = launcher::identity(get);
    let path = |pattern| {
        let rank = identity.rank.as_ref();
        output::path(pattern, rank, std::process::id(), &facts::host())
    };
    let wanted = (path(options.output.as_deref()), path(None));
    let Some((storage, writer)) = storage::open(wanted, &options) else {
        return false;
    };
    definitions::write_hooks(writer);
    facts::write(writer, &options, &identity);
    limit::tell(writer);
    let tracker = Tracker::new();
    let asked = tracker.asked();
    let session = Box::leak(Box::new(Session {
        writer,
        storage,
        allocator: Default::default(),
        tensors: Box::leak(Box::new(Tensors::new(writer))),
        tracker: Lock::new(tracker),
        interest: Default::default(),
        context_ends: Default::default(),
        only_pool: Default::default(),
        asked,
        allocating: Default::default(),
        stacks: options.stacks,
        interner: Default::default(),
        stack_sample: options.stack_sample,
        backward: options.backward && options.stacks.python(),
        free_stacks: options.free_stacks && options.stacks.python(),
        sample_every: options.sample_every,
        quiet: options.quiet,
        postmortem: options.postmortem.unwrap_or(!options.quiet),
        walks: options.holders.then(Walks::new),
        peaks: options.holders_above.map(Peaks::above),
        known_devices: Default::default(),
        names: Default::default(),
        nodes: backward::nodes(),
        steps: Default::default(),
        trained_until: Default::default(),
        readings: Box::leak(Box::new(Sampler::new())),
        failures: Box::leak(Box::new(Reports::new())),
        watch: options.warn_at.map(|percent| {
            let watch: &'static dyn Watch = Box::leak(Box::new(NearlyFull::new(percent)));
            watch
        }),
    }));
    definitions::note_missing(writer);
    definitions::write(writer);
    scopes::opened(session);
    session::publish(session);
    coords::write_pending(writer);
    process::records_to(writer);
    if memory::is_used_up() {
        process::end_recording(Ended::NoMemory);
    }
    true
}

/// The standard library would print a panic to descriptor 2, whatever that is by now.
fn silence_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if account::is_first(Once::Panicked)
            && let Some(place) = panic.location()
        {
            message::line(&format!(
                "internal error at {}:{}: events may be missing; the program continues.",
                place.file(),
                place.line()
            ));
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of opening by `open`, and the state after it.
    fn after(open: impl FnOnce(&AtomicU8) -> bool) -> (bool, u8) {
        let state = AtomicU8::new(State::Opening as u8);
        let opened = open_by(&state, || open(&state));
        (opened, state.load(Ordering::Acquire))
    }

    #[test]
    fn the_state_says_whether_a_capture_was_opened() {
        let is_opening = |state: &AtomicU8| state.load(Ordering::Acquire) == State::Opening as u8;
        assert_eq!(after(is_opening), (true, State::Recording as u8));
        assert_eq!(after(|_| false), (false, State::Off as u8));
    }

    #[test]
    fn a_panic_while_a_capture_opens_turns_recording_off() {
        let panic = |_: &AtomicU8| std::panic::resume_unwind(Box::new("planted"));
        assert_eq!(after(panic), (false, State::Off as u8));
    }
}
