//! What the account must say of the recording itself: hooks armed, and everything that went unseen.
//!
//! Facts arrive at any time, also before a capture is open; they wait here and are written once one
//! is.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};

use gpumem_capture::{DefKind, Writer};
use gpumem_sys::loaded;

use gpumem_capture::writer::lock::Lock;

/// How a client came to call a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundBy {
    /// The loader bound the name to our export.
    Symbol,
    /// `dlsym` or `dlvsym` handed it out.
    Dlsym,
    /// `cuGetProcAddress` handed it out.
    ProcAddress,
}

impl BoundBy {
    const ALL: [Self; 3] = [Self::Symbol, Self::Dlsym, Self::ProcAddress];

    /// As the capture names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Symbol => "symbol",
            Self::Dlsym => "dlsym",
            Self::ProcAddress => "cuGetProcAddress",
        }
    }
}

/// A hook armed: hook and way (0 while unused), an address in the library that asked for it and that
/// library's own (0: not known).
struct Armed {
    what: AtomicU64,
    caller: AtomicU64,
    library: AtomicU64,
}

/// Room for each hook in each way by each library that has one.
static ARMED: [Armed; 1024] = [const {
    Armed {
        what: AtomicU64::new(0),
        caller: AtomicU64::new(0),
        library: AtomicU64::new(0),
    }
}; 1024];
static ARMED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of [`ARMED`] are written to the capture.
static ARMED_WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// How often functions succeeded that are hooked and not recorded: hook, calls, calls that are written to the capture.
static UNRECORDED: [(AtomicU16, AtomicU64, AtomicU64); 16] =
    [const { (AtomicU16::new(0), AtomicU64::new(0), AtomicU64::new(0)) }; 16];

/// A function that is hooked and not recorded succeeded.
pub(crate) fn unrecorded(id: u16) {
    let is_of = |(hook, ..): &&(AtomicU16, AtomicU64, AtomicU64)| {
        let took = hook.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire);
        took.is_ok() || took == Err(id)
    };
    if let Some((_, calls, _)) = UNRECORDED.iter().find(is_of) {
        calls.fetch_add(1, Ordering::Relaxed);
        UNWRITTEN.store(true, Ordering::Release);
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// Everything that can go unseen, each with its count and what the account says of it.
        static TALLIES: &[Tally] = &[$(Tally {
            text: $text, count: &counts::$name, written: &written::$name,
        }),*];
        #[allow(non_upper_case_globals)]
        mod counts {
            use core::sync::atomic::AtomicU64;
            $(pub(super) static $name: AtomicU64 = AtomicU64::new(0);)*
        }
        #[allow(non_upper_case_globals)]
        mod written {
            use core::sync::atomic::AtomicU64;
            $(pub(super) static $name: AtomicU64 = AtomicU64::new(0);)*
        }
        $($(#[$doc])* pub(crate) fn $name() {
            counts::$name.fetch_add(1, Ordering::Relaxed);
            UNWRITTEN.store(true, Ordering::Release);
        })*
    };
}

struct Tally {
    text: &'static str,
    count: &'static AtomicU64,
    written: &'static AtomicU64,
}

tallies! {
    /// A hook was met while our own code ran (a signal handler over it).
    reentered: "calls met while the recorder itself ran (from signal handlers) were not recorded";
    /// Our code panicked; the call went on.
    panicked: "calls were not recorded after an internal error";
    /// A thread waited in vain for another one to open the capture.
    opening_timed_out: "calls came while the capture was being opened and were not recorded";
    /// An address was handed out that we held for live: its release went unseen.
    missed_release: "releases went unseen (their addresses were handed out again)";
    /// The driver handed out a form of a hooked function that we do not know.
    unknown_form: "requests for a hooked function were answered with a form that is not hooked";
    /// An array has a format that we do not know.
    unknown_array: "arrays of a format that is not known were counted with no bytes";
    /// An array has no memory of its own.
    sparse_array: "sparse arrays were counted with no bytes: memory that is mapped to them is not recorded";
    /// A call of the runtime that allocates, opens or launches met no hook of the driver.
    unreached: "calls of the runtime reached the driver by a way that is not hooked";
}

/// Whether a tally has changed since it was last written.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Whether there is something to write: one load, with each event.
#[inline]
pub(crate) fn is_new() -> bool {
    UNWRITTEN.load(Ordering::Relaxed)
}

/// What comes up from now on is new.
pub(crate) fn begin_writing() {
    UNWRITTEN.store(false, Ordering::Release);
}

/// There is something to write.
pub(crate) fn something_new() {
    UNWRITTEN.store(true, Ordering::Release);
}

/// The driver answered a request for a hooked function with an export that is not hooked.
pub(crate) fn unhooked() {
    unknown_form();
}

/// A hook was armed; noted once for each way and library.
pub(crate) fn armed(id: u16, by: BoundBy, caller: usize) {
    armed_in(id, by, caller, loaded::symbol_at(caller).dli_fbase as usize);
}

/// The same, where it is known to where the library is mapped that holds `caller`: asking the loader takes
/// it as long as the library has symbols.
pub(crate) fn armed_in(id: u16, by: BoundBy, caller: usize, library: usize) {
    let what = (u64::from(id) << 8) | (by as u64 + 1);
    let library = library as u64;
    let known = ARMED_COUNT.load(Ordering::Acquire).min(ARMED.len());
    let same = |entry: &Armed| {
        entry.what.load(Ordering::Acquire) == what
            && entry.library.load(Ordering::Relaxed) == library
    };
    if ARMED.iter().take(known).any(same) {
        return;
    }
    let place = ARMED_COUNT.fetch_add(1, Ordering::AcqRel);
    let Some(entry) = ARMED.get(place) else {
        return;
    };
    entry.caller.store(caller as u64, Ordering::Relaxed);
    entry.library.store(library, Ordering::Relaxed);
    entry.what.store(what, Ordering::Release);
    UNWRITTEN.store(true, Ordering::Release);
}

/// The next hook that was armed and is not written: hook, way, an address in the library that asked for it, and that
/// library's own.
pub(crate) fn take_armed() -> Option<(u16, BoundBy, usize, usize)> {
    let next = ARMED_WRITTEN.load(Ordering::Acquire);
    if next >= ARMED_COUNT.load(Ordering::Acquire) {
        return None;
    }
    let entry = ARMED.get(next)?;
    let what = entry.what.load(Ordering::Acquire);
    if what == 0
        || ARMED_WRITTEN
            .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
    {
        return None; // being written, or another thread writes it
    }
    let by = BoundBy::ALL
        .into_iter()
        .find(|&by| by as u64 + 1 == what & 0xff)?;
    let (caller, library) = (&entry.caller, &entry.library);
    let [caller, library] = [caller, library].map(|word| word.load(Ordering::Relaxed) as usize);
    Some(((what >> 8) as u16, by, caller, library))
}

/// Everything that went unseen since it was last written.
pub(crate) fn take_unseen() -> impl Iterator<Item = String> {
    TALLIES.iter().filter_map(|tally| {
        let count = tally.count.load(Ordering::Relaxed);
        let is_new = tally.written.swap(count, Ordering::AcqRel) != count;
        is_new.then(|| format!("{count} {}", tally.text))
    })
}

/// Functions that succeeded and are not recorded, since they were last written: hook, calls.
pub(crate) fn take_unrecorded() -> impl Iterator<Item = (u16, u64)> {
    UNRECORDED.iter().filter_map(|(hook, calls, written)| {
        let calls = calls.load(Ordering::Relaxed);
        let is_new = written.swap(calls, Ordering::AcqRel) != calls;
        is_new.then(|| (hook.load(Ordering::Acquire), calls))
    })
}

/// Lines for the account that wait for a writer.
static LINES: Lock<Vec<String>> = Lock::new(Vec::new());

/// Leaves a line for the account with who writes next.
#[cold]
pub(crate) fn leave(line: String) {
    LINES.lock().push(line);
    something_new();
}

/// The lines that were left.
pub(crate) fn take_lines() -> Vec<String> {
    core::mem::take(&mut *LINES.lock())
}

/// Writes a line for the account. One that begins with "inexact: " takes the word "exact" from it; of
/// lines that differ only in their number the last one counts.
pub(crate) fn note(writer: &'static Writer, line: &str) {
    let length = (line.len() as u32).to_le_bytes();
    let _ = writer.definition(DefKind::NOTE, &[&length, line.as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_is_just_being_noted_is_taken_later() {
        const WHAT: u64 = 500 << 8 | 1;
        let place = ARMED_COUNT.fetch_add(1, Ordering::AcqRel);
        while take_armed().is_some() {}
        ARMED[place].what.store(WHAT, Ordering::Release);
        let taken = core::iter::from_fn(take_armed).find(|(hook, ..)| *hook == 500);
        assert_eq!(taken, Some((500, BoundBy::Symbol, 0, 0)));
    }
}
