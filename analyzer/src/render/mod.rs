//! Text for people: numbers with units, aligned tables, bars, colour.

mod annotated;
mod changes;
mod diff;
mod flame;
mod fragmentation;
mod hints;
mod leaks;
mod ledger;
mod lines;
mod report;
mod sizes;
mod style;
mod summary;
mod table;
mod temporary;
mod tree;
mod when;

pub use annotated::annotated_text;
pub use changes::change_text;
pub use diff::diff_text;
pub use flame::{flamegraph, flamegraph_of};
pub use fragmentation::{over_time_text, pool_map_text};
pub use gpumem_replay::numbers::{bar, bytes, count, mebibytes, share, signed, time};
pub use hints::hints_text;
pub use leaks::leaks_text;
pub use ledger::{ledger_text, pool_text};
pub use lines::{Source, lines_table};
pub use report::{ReportChanges, report_text};
pub use sizes::sizes_text;
pub use style::{Style, Terminal};
pub use summary::{account_lines, moment, partial, summary_text, what_ran};
pub use table::{Align, Table};
pub use temporary::temporary_text;
pub use tree::{TreeLimits, tree_text};
pub use when::{at, when};
