//! Folded stacks: `oldest;…;newest bytes`, one line each.

use std::io::{self, Write};

use crate::views::Folded;

/// Writes them.
///
/// # Errors
/// The writer's.
pub fn folded(stacks: &Folded, out: &mut dyn Write) -> io::Result<()> {
    stacks.lines().try_for_each(|line| writeln!(out, "{line}"))
}
