//! Start and end of the check: it starts when the library is loaded, and writes one line at exit.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::cause::CULPRITS;
use crate::compare::{self, Fault};
use crate::counts::{CAUSES, COUNTS, ENTRIES};
use crate::mismatch::{place, say};

/// The process whose stacks are compared; its forked children are not.
static PROCESS: AtomicI32 = AtomicI32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: the name is NUL-terminated, and no thread changes the environment this early or this
    // late.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null())
            .then(|| CStr::from_ptr(value).to_str().ok())
            .flatten()
    }
}

extern "C" fn begin() {
    if variable(c"UNWIND_CHECK_OUTPUT").is_none() {
        return;
    }
    // SAFETY: no arguments; the handler does only what a child process may do.
    unsafe {
        PROCESS.store(libc::getpid(), Ordering::Relaxed);
        libc::pthread_atfork(None, None, Some(forked));
    }
    let every = variable(c"UNWIND_CHECK_EVERY").and_then(|every| every.parse().ok());
    let fault = match variable(c"UNWIND_CHECK_FAULT") {
        Some("frame") => Fault::Frame,
        Some("unloads") => Fault::Unloads,
        _ => Fault::None,
    };
    compare::begin(every.unwrap_or(16), fault);
}

/// Ends the check in a child, which may have been forked while another thread held a lock.
unsafe extern "C" fn forked() {
    compare::end();
}

extern "C" fn finish() {
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    let Some(folder) = variable(c"UNWIND_CHECK_OUTPUT") else {
        return;
    };
    if PROCESS.load(Ordering::Relaxed) != process {
        return;
    }
    compare::end();
    let written = std::fs::write(format!("{folder}/{process}.json"), line() + "\n");
    if let Err(error) = written {
        say(&format!("unwind-check: {folder}: {error}\n"));
    }
}

fn line() -> String {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut line = format!("{{\"program\": {:?}", program.display().to_string());
    let named = |names: &[&str], counts: &[AtomicU64]| {
        let pairs = names.iter().zip(counts);
        let pairs =
            pairs.map(|(name, count)| format!("\"{name}\": {}", count.load(Ordering::Relaxed)));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let compared: u64 = COUNTS
        .compared
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .sum();
    let _ = write!(line, ", \"compared\": {compared}");
    for (name, count) in [
        ("frames", &COUNTS.frames),
        ("deepest", &COUNTS.deepest),
        ("truncated", &COUNTS.truncated),
        ("mismatches", &COUNTS.mismatches),
        ("distinct", &COUNTS.distinct),
        ("shared_hashes", &COUNTS.shared_hashes),
        ("changed_hashes", &COUNTS.changed_hashes),
        ("threads", &COUNTS.threads),
    ] {
        let _ = write!(line, ", \"{name}\": {}", count.load(Ordering::Relaxed));
    }
    let _ = write!(
        line,
        ", \"by_entry\": {{{}}}",
        named(&ENTRIES, &COUNTS.compared)
    );
    let _ = write!(
        line,
        ", \"by_system\": {{{}}}",
        named(&CAUSES, &COUNTS.by_system)
    );
    let culprits = CULPRITS
        .iter()
        .map(|[pc, count]| (pc.load(Ordering::Relaxed), count.load(Ordering::Relaxed)));
    let culprits: Vec<_> = culprits
        .filter(|(pc, _)| *pc != 0)
        .map(|(pc, count)| format!("[{:?}, {count}]", place(pc)))
        .collect();
    let _ = write!(line, ", \"culprits\": [{}]}}", culprits.join(", "));
    line
}
