//! What the account must say of the recording itself: hooks armed, and everything that went unseen.
//!
//! Facts arrive at any time, also before a capture is open; they wait here and are written once one
//! is.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

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

/// How often something happened, and how many of these are written.
struct Count {
    all: AtomicU64,
    written: AtomicU64,
}

impl Count {
    const fn new() -> Self {
        Self {
            all: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Once more.
    fn add(&self) {
        self.all.fetch_add(1, Ordering::Relaxed);
        something_new();
    }

    /// The count, if it is not written, as which it is taken from now on.
    fn take(&self) -> Option<u64> {
        let all = self.all.load(Ordering::Relaxed);
        (self.written.swap(all, Ordering::AcqRel) != all).then_some(all)
    }
}

/// What is said, or noted of the program, once in a process.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Once {
    /// NVML is not there.
    NvmlMissing,
    /// NVML does not tell this process's figure.
    NvmlHidden,
    /// What is beyond a limit could not be taken.
    LimitNotHeld,
    /// There is no room for one more scope.
    TooManyScopes,
    /// A mapping of ours was lost.
    MemoryLost,
    /// PyTorch has noted the use of something: it would have noted that of optimizers.
    PytorchNotes,
    /// An optimizer was made.
    OptimizerMade,
    /// The program tells its steps itself.
    StepsTold,
}

/// What waits for a capture, and what is said once.
struct Account {
    /// Room for each hook in each way by each library that has one.
    armed: [Armed; 1024],
    armed_count: AtomicUsize,
    /// How many of `armed` are written to the capture.
    armed_written: AtomicUsize,
    /// How often functions succeeded that are hooked and not recorded.
    unrecorded: [(AtomicU16, Count); 16],
    /// In the order of [`TALLIES`].
    unseen: [Count; TALLIES.len()],
    /// Whether there is something to write.
    unwritten: AtomicBool,
    /// Lines that wait for a writer.
    lines: Lock<Vec<String>>,
    /// A bit for each [`Once`].
    once: AtomicU32,
}

static ACCOUNT: Account = Account {
    armed: [const {
        Armed {
            what: AtomicU64::new(0),
            caller: AtomicU64::new(0),
            library: AtomicU64::new(0),
        }
    }; 1024],
    armed_count: AtomicUsize::new(0),
    armed_written: AtomicUsize::new(0),
    unrecorded: [const { (AtomicU16::new(0), Count::new()) }; 16],
    unseen: [const { Count::new() }; TALLIES.len()],
    unwritten: AtomicBool::new(false),
    lines: Lock::new(Vec::new()),
    once: AtomicU32::new(0),
};

/// Notes that something has happened. Whether it is the first time in this process.
pub(crate) fn is_first(what: Once) -> bool {
    let bit = 1 << what as u8;
    ACCOUNT.once.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Whether something has happened in this process.
pub(crate) fn has_been(what: Once) -> bool {
    ACCOUNT.once.load(Ordering::Relaxed) & (1 << what as u8) != 0
}

/// A function that is hooked and not recorded succeeded.
pub(crate) fn unrecorded(id: u16) {
    let is_of = |(hook, _): &&(AtomicU16, Count)| {
        let took = hook.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire);
        took.is_ok() || took == Err(id)
    };
    if let Some((_, count)) = ACCOUNT.unrecorded.iter().find(is_of) {
        count.add();
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        #[allow(non_camel_case_types)]
        enum Tally { $($name),* }
        /// Everything that can go unseen, as the account says it.
        const TALLIES: &[&str] = &[$($text),*];
        $($(#[$doc])* pub(crate) fn $name() {
            count(Tally::$name);
        })*
    };
}

tallies! {
    /// A hook was met while our own code ran (a signal handler over it).
    reentered: "calls from signal handlers that interrupted the recorder were not recorded";
    /// Our code panicked; the call went on.
    panicked: "calls were not recorded after an internal error";
    /// A thread waited in vain for another one to open the capture.
    opening_timed_out: "calls during the opening of the capture were not recorded";
    /// An address was handed out that we held for live: its release went unseen.
    missed_release: "releases were not seen (their addresses were allocated again)";
    /// The driver handed out a form of a hooked function that we do not know.
    unknown_form: "requests for a hooked function returned a version that is not hooked";
    /// An array has a format that we do not know.
    unknown_array: "arrays of an unknown format were counted with 0 bytes";
    /// An array has no memory of its own.
    sparse_array: "sparse arrays were counted with 0 bytes: memory that is mapped to them is not recorded";
    /// A call of the runtime that allocates, opens or launches met no hook of the driver.
    unreached: "calls of the runtime reached the driver through functions that are not hooked";
}

#[cold]
fn count(tally: Tally) {
    if let Some(unseen) = ACCOUNT.unseen.get(tally as usize) {
        unseen.add();
    }
}

/// Whether there is something to write: one load, with each event.
#[inline]
pub(crate) fn is_new() -> bool {
    ACCOUNT.unwritten.load(Ordering::Relaxed)
}

/// What comes up from now on is new.
pub(crate) fn begin_writing() {
    ACCOUNT.unwritten.store(false, Ordering::Release);
}

/// There is something to write.
pub(crate) fn something_new() {
    ACCOUNT.unwritten.store(true, Ordering::Release);
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
    let known = ACCOUNT
        .armed_count
        .load(Ordering::Acquire)
        .min(ACCOUNT.armed.len());
    let same = |entry: &Armed| {
        entry.what.load(Ordering::Acquire) == what
            && entry.library.load(Ordering::Relaxed) == library
    };
    if ACCOUNT.armed.iter().take(known).any(same) {
        return;
    }
    let place = ACCOUNT.armed_count.fetch_add(1, Ordering::AcqRel);
    let Some(entry) = ACCOUNT.armed.get(place) else {
        return;
    };
    entry.caller.store(caller as u64, Ordering::Relaxed);
    entry.library.store(library, Ordering::Relaxed);
    entry.what.store(what, Ordering::Release);
    ACCOUNT.unwritten.store(true, Ordering::Release);
}

/// The next hook that was armed and is not written: hook, way, an address in the library that asked for it, and that
/// library's own.
pub(crate) fn take_armed() -> Option<(u16, BoundBy, usize, usize)> {
    let next = ACCOUNT.armed_written.load(Ordering::Acquire);
    if next >= ACCOUNT.armed_count.load(Ordering::Acquire) {
        return None;
    }
    let entry = ACCOUNT.armed.get(next)?;
    let what = entry.what.load(Ordering::Acquire);
    if what == 0
        || ACCOUNT
            .armed_written
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
    let all = TALLIES.iter().zip(&ACCOUNT.unseen);
    all.filter_map(|(text, unseen)| unseen.take().map(|count| format!("{count} {text}")))
}

/// Functions that succeeded and are not recorded, since they were last written: hook, calls.
pub(crate) fn take_unrecorded() -> impl Iterator<Item = (u16, u64)> {
    let hook =
        |(hook, count): &(AtomicU16, Count)| Some((hook.load(Ordering::Acquire), count.take()?));
    ACCOUNT.unrecorded.iter().filter_map(hook)
}

/// Leaves a line for the account with who writes next.
#[cold]
pub(crate) fn leave(line: String) {
    ACCOUNT.lines.lock().push(line);
    something_new();
}

/// The lines that were left.
pub(crate) fn take_lines() -> Vec<String> {
    core::mem::take(&mut *ACCOUNT.lines.lock())
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
        let place = ACCOUNT.armed_count.fetch_add(1, Ordering::AcqRel);
        while take_armed().is_some() {}
        ACCOUNT.armed[place].what.store(WHAT, Ordering::Release);
        let taken = core::iter::from_fn(take_armed).find(|(hook, ..)| *hook == 500);
        assert_eq!(taken, Some((500, BoundBy::Symbol, 0, 0)));
    }
}
