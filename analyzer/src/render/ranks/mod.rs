//! The ranks of a job, as text.

mod answer;
mod caveats;
#[cfg(feature = "databases")]
mod fleet;
mod outlier;
mod page;
mod rows;
mod shades;
mod table;
mod timeline;
mod words;

#[cfg(feature = "databases")]
pub use fleet::fleet_outliers_text;
pub use page::ranks_page;
pub use shades::Cells;
pub use timeline::ranks_timeline_text;

use answer::first_answer;
use caveats::caveats;
use outlier::{name_of, told};
use table::table;

use super::{Source, Terminal};
use crate::account::many;
use crate::ranks::{Job, Outlier};

/// How many ranks are described.
const TOLD: usize = 8;

/// Which ranks differ, by what and since when; followed by the ranks.
pub fn ranks_text(job: &Job, all: bool, terminal: Terminal) -> String {
    let by_rank: Vec<&[Outlier]> = job.outliers.chunk_by(|a, b| a.rank == b.rank).collect();
    let mut out = first_answer(job, &by_rank, terminal);
    out.push('\n');
    let mut source = Source::of_job(&job.source);
    for of in by_rank.iter().take(TOLD) {
        out.push_str(&told(&name_of(of), of, &mut source, terminal));
    }
    if let more @ 1.. = by_rank.len().saturating_sub(TOLD) {
        let more = many(more as u64, "more rank differs", "more ranks differ");
        out.push_str(&format!(
            "{more}: --format json has all.

"
        ));
    }
    out.push_str(&table(job, all, terminal));
    out.push_str(&caveats(job));
    out
}
