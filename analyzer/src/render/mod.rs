//! Text for people: numbers with units, aligned tables, bars, colour.

mod annotated;
mod changes;
mod diff;
mod flame;
mod html;
mod ledger;
mod lines;
mod report;
mod style;
mod summary;
mod table;
mod timeline;
mod tree;
mod when;

pub use annotated::annotated_text;
pub use changes::change_text;
pub use diff::diff_text;
pub use flame::flamegraph;
pub use gpumem_replay::numbers::{bar, bytes, count, mebibytes, share, signed, time};
pub use html::page_html;
pub use ledger::{ledger_text, pool_text};
pub use lines::{Source, lines_table};
pub use report::{ReportChanges, report_text};
pub use style::{Style, Terminal};
pub use summary::{account_lines, moment, partial, summary_text, what_ran};
pub use table::{Align, Table};
pub use timeline::{timeline_svg, timeline_text};
pub use tree::{TreeLimits, tree_text};
pub use when::{at, when};
