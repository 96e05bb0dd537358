//! Folded stacks: `oldest;…;newest bytes`, one line each.

use std::io::{self, Write};

use crate::views::Folded;

/// Writes folded stacks.
///
/// # Errors
/// The writer's.
pub fn folded(stacks: &Folded, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = stacks.lines().into_iter();
    lines.try_for_each(|line| writeln!(out, "{line}"))
}
