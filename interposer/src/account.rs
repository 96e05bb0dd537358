//! The recorder's part of the account: installed hooks, and everything that was not recorded.
//!
//! Facts arrive at any time, also before a capture is open; they are kept here and written once one is.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use gpumem_capture::{DefKind, Writer};
use gpumem_sys::loaded;

use gpumem_capture::writer::lock::Lock;

/// How a client got the address of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundBy {
    /// The loader bound the name to our export.
    Symbol,
    /// `dlsym` or `dlvsym` returned it.
    Dlsym,
    /// `cuGetProcAddress` returned it.
    ProcAddress,
}

impl BoundBy {
    const ALL: [Self; 3] = [Self::Symbol, Self::Dlsym, Self::ProcAddress];

    /// The name in the capture.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Symbol => "symbol",
            Self::Dlsym => "dlsym",
            Self::ProcAddress => "cuGetProcAddress",
        }
    }
}

/// An installed hook: hook and method (0 while unused), an address in the library that requested it and that
/// library's own (0: unknown).
struct Armed {
    what: AtomicU64,
    caller: AtomicU64,
    library: AtomicU64,
}

/// The number of occurrences, and how many of these are written.
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

    /// Adds one.
    fn add(&self) {
        self.all.fetch_add(1, Ordering::Relaxed);
        something_new();
    }

    /// The count, if it is not written; marks it as written.
    fn take(&self) -> Option<u64> {
        let all = self.all.load(Ordering::Relaxed);
        (self.written.swap(all, Ordering::AcqRel) != all).then_some(all)
    }
}

/// Messages and facts about the program that occur once per process.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Once {
    /// NVML is missing.
    NvmlMissing,
    /// NVML does not report this process's figure.
    NvmlHidden,
    /// Memory beyond a limit could not be withheld.
    LimitNotHeld,
    /// There is no room for one more scope.
    TooManyScopes,
    /// A mapping of the recorder was lost.
    MemoryLost,
    /// PyTorch has recorded the use of some part: it would have recorded that of optimizers.
    PytorchNotes,
    /// An optimizer was created.
    OptimizerMade,
    /// The program reports its steps itself.
    StepsTold,
    /// The recorder's code has panicked.
    Panicked,
}

/// Facts that wait for a capture, and messages that occur once.
struct Account {
    /// Room for each hook, in each method, for each library that has one.
    armed: [Armed; 1024],
    armed_count: AtomicUsize,
    /// How many of `armed` are written to the capture.
    armed_written: AtomicUsize,
    /// The number of successful calls of functions that are hooked and not recorded.
    unrecorded: [(AtomicU16, Count); 16],
    /// In the order of [`TALLIES`].
    unseen: [Count; TALLIES.len()],
    /// Whether there is something to write.
    unwritten: AtomicBool,
    /// Lines to be written.
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

/// Records that something has happened. Returns whether it is the first time in this process.
pub(crate) fn is_first(what: Once) -> bool {
    let bit = 1 << what as u8;
    ACCOUNT.once.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Whether something has happened in this process.
pub(crate) fn has_been(what: Once) -> bool {
    ACCOUNT.once.load(Ordering::Relaxed) & (1 << what as u8) != 0
}

/// Counts a successful call of a function that is hooked and not recorded.
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
        /// The account's text for everything that was not recorded.
        const TALLIES: &[&str] = &[$($text),*];
        $($(#[$doc])* pub(crate) fn $name() {
            count(Tally::$name);
        })*
    };
}

tallies! {
    /// A hook was called while the recorder's code ran (by a signal handler that interrupted it, or by a function that
    /// it calls, such as the program's `malloc`).
    reentered: "calls made inside the recorder, by a signal handler or the program's malloc, were not recorded";
    /// The recorder panicked; the call continued.
    panicked: "calls were not recorded after an internal error";
    /// A thread waited without success for another one to open the capture.
    opening_timed_out: "calls during the opening of the capture were not recorded";
    /// An address was allocated that was still live: its release was missed.
    missed_release: "releases were not seen (their addresses were allocated again)";
    /// The driver returned an unknown form of a hooked function.
    unknown_form: "requests for a hooked function returned a version that is not hooked";
    /// An array has an unknown format.
    unknown_array: "arrays of an unknown format were counted with 0 bytes";
    /// An array has no memory itself.
    sparse_array: "sparse arrays were counted with 0 bytes: memory that is mapped to them is not recorded";
    /// A call of the runtime that allocates, opens or launches reached no hook of the driver.
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

/// Starts a write: facts from now on are new.
pub(crate) fn begin_writing() {
    ACCOUNT.unwritten.store(false, Ordering::Release);
}

/// Marks that there is something to write.
pub(crate) fn something_new() {
    ACCOUNT.unwritten.store(true, Ordering::Release);
}

/// The driver returned an export that is not hooked for a hooked function.
pub(crate) fn unhooked() {
    unknown_form();
}

/// Records an installed hook, once for each method and library.
pub(crate) fn armed(id: u16, by: BoundBy, caller: usize) {
    armed_in(id, by, caller, loaded::symbol_at(caller).dli_fbase as usize);
}

/// The same, if the mapping of the library that holds `caller` is known: the duration of a loader query grows with
/// the number of the library's symbols.
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

/// The next installed hook that is not written: hook, method, an address in the library that requested it, and that
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

/// Everything that was not recorded since the last write.
pub(crate) fn take_unseen() -> impl Iterator<Item = String> {
    let all = TALLIES.iter().zip(&ACCOUNT.unseen);
    all.filter_map(|(text, unseen)| unseen.take().map(|count| format!("{count} {text}")))
}

/// Functions that succeeded and are not recorded, since the last write: hook, calls.
pub(crate) fn take_unrecorded() -> impl Iterator<Item = (u16, u64)> {
    let hook =
        |(hook, count): &(AtomicU16, Count)| Some((hook.load(Ordering::Acquire), count.take()?));
    ACCOUNT.unrecorded.iter().filter_map(hook)
}

/// Leaves a line for the account to the next writer.
#[cold]
pub(crate) fn leave(line: String) {
    ACCOUNT.lines.lock().push(line);
    something_new();
}

/// The lines that were left.
pub(crate) fn take_lines() -> Vec<String> {
    core::mem::take(&mut *ACCOUNT.lines.lock())
}

/// Writes a line for the account. A line that begins with "inexact: " means that the account is no longer "exact".
/// Of lines that differ only in their number, the last one counts.
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
