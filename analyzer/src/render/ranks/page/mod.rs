//! The page of a job: one file, with its style, its program and its numbers in it, however many ranks there are.

mod cells;
mod data;

use std::io::{Error, ErrorKind};

use cells::Cells;
use data::Data;

use crate::packed;
use crate::ranks::Job;
use crate::render::html::{BASE, STYLE, filled};

const PAGE: &str = include_str!("page.html");
const STYLES: [&str; 2] = [STYLE, include_str!("page.css")];
const PROGRAM: [&str; 10] = [
    BASE[0],
    BASE[1],
    include_str!("unpack.js"),
    include_str!("state.js"),
    include_str!("colours.js"),
    include_str!("heatmap.js"),
    include_str!("pointing.js"),
    include_str!("pinned.js"),
    include_str!("tables.js"),
    include_str!("main.js"),
];

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
                packed::base64(&cells.packed)
            );
            let html = filled(PAGE, &STYLES, &PROGRAM, &both, named);
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
    use crate::render::html::is_filled_and_fetches_nothing;

    #[test]
    fn the_program_knows_the_parts_of_each_metric() {
        let (_, after) = include_str!("pinned.js")
            .split_once("const EXPLAIN = {")
            .unwrap();
        let (known, _) = after.split_once('}').unwrap();
        for metric in Metric::ALL {
            let name = serde_json::to_string(&metric).unwrap();
            assert!(
                known.contains(&format!(" {}: [", name.trim_matches('"'))),
                "{name}"
            );
        }
    }

    #[test]
    fn every_place_is_filled_and_nothing_is_fetched() {
        is_filled_and_fetches_nothing(PAGE, &STYLES, &PROGRAM);
    }
}
