//! The page of a job: one file, with its style, its program and its numbers in it, however many ranks there are.

mod cells;
mod data;

use std::io::{Error, ErrorKind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cells::Cells;
use data::Data;

use crate::packed;
use crate::ranks::Job;
use crate::render::web_page::{WebPage, escaped};

const STYLE: &str = include_str!("../../../../../web/src/ranks/page.css");

fn web_page() -> WebPage {
    WebPage::new(
        include_str!("../../../../../web/src/ranks/page.html"),
        STYLE,
        include_str!("../../../../../web/dist/ranks.js"),
    )
}

/// No page is larger.
const LARGEST: usize = 5_000_000;
/// Of that, the heatmap's cells before they are text.
const ROOM: usize = 2_500_000;
/// The heatmap's columns, at first and at least.
const COLUMNS: (usize, usize) = (256, 16);

/// The whole page, of what was named on the command line.
///
/// # Errors
/// If numbers cannot be written, or a page with the fewest columns would be too large.
pub fn ranks_page(job: &Job, named: &str) -> std::io::Result<String> {
    let (mut columns, least) = COLUMNS;
    loop {
        let map = job.heatmap(columns);
        if let Some(cells) = Cells::of(&map, ROOM)? {
            let data = serde_json::to_vec(&Data::of(job, &map, cells.units, named))?;
            // Neither has a letter that could end the element that it stands in.
            let both = format!(
                "{}\n{}",
                packed::text(&data)?,
                STANDARD.encode(&cells.packed)
            );
            let html = web_page().filled(&[("data", &both), ("title", &escaped(named))]);
            if html.len() <= LARGEST {
                return Ok(html);
            }
        }
        if columns <= least {
            let why = format!(
                "a page of {} ranks would have more than 5 MB",
                job.ranks.len()
            );
            return Err(Error::new(ErrorKind::FileTooLarge, why));
        }
        columns /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::Metric;

    #[test]
    fn the_program_knows_the_parts_of_each_metric() {
        let source = include_str!("../../../../../web/src/ranks/data.ts");
        let (_, after) = source.split_once("type Metric = ").expect("a type");
        let (known, _) = after.split_once(';').expect("its end");
        let all = Metric::ALL.map(|metric| serde_json::to_string(&metric).expect("JSON"));
        assert_eq!(known, all.join(" | "));
    }

    #[test]
    fn every_place_is_filled_and_only_its_own_program_runs() {
        web_page().check();
    }
}
