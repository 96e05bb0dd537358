//! The life of the check: it begins when the library is loaded, and writes one line at exit.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use gpumem_unwind::{Registers, Stack, modules};

use crate::cause::CULPRITS;
use crate::compare::{self, Fault};
use crate::counts::{CAUSES, COUNTS, ENTRIES};

/// Mismatches that are printed.
pub(crate) const MISMATCHES: u64 = 5;

/// The process whose stacks are compared: not those that it forks.
static PROCESS: AtomicI32 = AtomicI32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: the name is NUL-terminated, and nobody changes the environment this early or this late.
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
    // SAFETY: no arguments; the handler does what a child may do.
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

/// A child may have been forked while another thread held what is needed.
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

/// Module and offset of a call.
fn place(pc: u64) -> String {
    match modules::describe(pc - 1) {
        Some(module) => {
            let name = module.path.file_name().unwrap_or_default();
            format!("{}+0x{:x}", name.display(), pc - module.span.bias)
        }
        None => format!("0x{pc:x}"),
    }
}

fn say(text: &str) {
    // SAFETY: the text's own bytes. Nothing can be done where they are not taken.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Prints a stack on which the two do not agree.
#[cold]
pub(crate) fn mismatch(
    ours: &[u64],
    reference: &[Registers],
    taken: Stack,
    truncated: bool,
    by_system: bool,
) {
    let mut text = format!(
        "unwind-check: a mismatch; {} and {} frames, truncated {} and {truncated}, by the system's: {by_system}\n",
        ours.len(),
        reference.len(),
        taken.truncated,
    );
    let differs = ours
        .iter()
        .zip(reference)
        .position(|(ours, system)| *ours != system.pc);
    let differs = differs.unwrap_or(ours.len().min(reference.len()));
    for index in differs.saturating_sub(3)..differs + 4 {
        let ours = ours.get(index).map(|pc| place(*pc));
        let system = reference.get(index);
        let _ = writeln!(
            text,
            "  {index}: {} | {} sp {:x} bp {:x}",
            ours.unwrap_or_default(),
            system.map(|frame| place(frame.pc)).unwrap_or_default(),
            system.map_or(0, |frame| frame.sp),
            system.map_or(0, |frame| frame.bp),
        );
    }
    say(&text);
}
