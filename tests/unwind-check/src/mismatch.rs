//! Prints a stack on which the two unwinders differ.

use std::fmt::Write as _;

use gpumem_unwind::{Registers, Stack, modules};

/// The number of mismatches that are printed.
pub(crate) const PRINTED: u64 = 5;

/// Module and offset of a return address.
pub(crate) fn place(pc: u64) -> String {
    match modules::describe(pc - 1) {
        Some(module) => {
            let name = module.path.file_name().unwrap_or_default();
            format!("{}+0x{:x}", name.display(), pc - module.span.bias)
        }
        None => format!("0x{pc:x}"),
    }
}

/// Writes to standard error.
pub(crate) fn say(text: &str) {
    // SAFETY: the text's own bytes. A failure to write them has no remedy.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Prints a stack on which the two unwinders differ.
#[cold]
pub(crate) fn print(
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
