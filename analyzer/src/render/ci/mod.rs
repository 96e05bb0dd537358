//! The comparison for a change: a comment in Markdown, and a picture of the peaks over commits.

mod answer;
mod comment;
mod details;
mod markdown;
mod trend;
mod words;

pub use answer::ci_answer;
pub use comment::ci_comment;
pub use trend::trend_svg;
