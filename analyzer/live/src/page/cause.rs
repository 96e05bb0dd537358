//! Why an allocation failed.

use gpumem_analyzer::render::{Terminal, cause_text, failure_line};
use gpumem_analyzer::replay::{OutOfMemory, Replay};
use gpumem_analyzer::views::Cause;

use super::text::Page;

/// What `oom` says first of a failure.
pub(crate) fn cause(replay: &Replay, failure: &OutOfMemory, cause: &Cause, columns: u16) -> Page {
    let mut page = Page::of(format!("Failure {}", cause.number));
    let terminal = Terminal {
        width: Some(usize::from(columns)),
        colour: false,
    };
    let mut text = failure_line(replay, failure, terminal);
    text.push_str(&cause_text(cause, terminal));
    page.headed(&terminal.wrap(&text));
    page
}
