//! The page with the cause of a failure.

use gpumem_analyzer::render::{Terminal, cause_text, failure_line};
use gpumem_analyzer::replay::{OutOfMemory, Replay};
use gpumem_analyzer::views::Cause;

use super::text::Page;

/// The first part of the output of `oom` for a failure.
pub(crate) fn cause(replay: &Replay, failure: &OutOfMemory, cause: &Cause, columns: u16) -> Page {
    let mut page = Page::of(format!("Failure {}", cause.number));
    let terminal = Terminal {
        width: Some(usize::from(columns)),
        colour: false,
    };
    let mut text = failure_line(replay, failure, cause.survived, terminal);
    text.push_str(&cause_text(cause, terminal));
    page.headed(&terminal.wrap(&text));
    page
}
