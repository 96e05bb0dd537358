//! Text for people: numbers with units, aligned tables, bars, colour.

mod lines;
mod numbers;
mod style;
mod summary;
mod table;

pub use lines::{Source, lines_table};
pub use numbers::{bar, bytes, count, mebibytes, share, time};
pub use style::{Style, Terminal};
pub use summary::{account_lines, moment, partial, summary_text, what_ran};
pub use table::{Align, Table};
