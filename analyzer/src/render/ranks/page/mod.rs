//! The page of a job: one file with its style, program and data, for any number of ranks.

mod cells;
mod data;

use std::io::{Error, ErrorKind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cells::Cells;
use data::Data;

use crate::packed;
use crate::ranks::Job;
use crate::render::markup::escaped;
use crate::render::web_page::WebPage;

const STYLE: &str = include_str!("../../../../../web/src/ranks/page.css");

fn web_page() -> WebPage {
    WebPage::new(
        include_str!("../../../../../web/src/ranks/page.html"),
        STYLE,
        include_str!("../../../../../web/dist/ranks.js"),
    )
}

/// The maximum size of a page.
const LARGEST: usize = 5_000_000;
/// The part of it for the heatmap's cells, before base64.
const ROOM: usize = 2_500_000;
/// The initial and least number of the heatmap's columns.
const COLUMNS: (usize, usize) = (256, 16);

/// The whole page. `named` is the command-line argument.
///
/// # Errors
/// If numbers cannot be written, or a page with the fewest columns would be too large.
pub fn ranks_page(job: &Job, named: &str) -> std::io::Result<String> {
    let (mut columns, least) = COLUMNS;
    loop {
        let map = job.heatmap(columns);
        if let Some(cells) = Cells::of(&map, ROOM)? {
            let data = serde_json::to_vec(&Data::of(job, &map, cells.units, named))?;
            // Neither contains a character that could end its element.
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
