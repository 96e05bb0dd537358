//! Speedscope's own format: <https://www.speedscope.app/file-format-schema.json>.

use std::io::Write;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::samples::Samples;
use crate::symbols::Source;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared<'a>,
    profiles: Vec<Profile<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "is_unknown")]
    line: u32,
}

fn is_unknown(line: &u32) -> bool {
    *line == 0
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<&'a [u32]>,
    weights: Vec<u64>,
}

/// Writes one profile for each heading of `samples`, with its name. The weights of a profile are bytes and sum to its
/// `endValue`.
///
/// # Errors
/// The writer's.
pub fn speedscope(
    samples: &Samples,
    headings: &[&str],
    name: &str,
    out: &mut dyn Write,
) -> serde_json::Result<()> {
    // Functions that are inlined at a place are separate frames.
    let mut numbers: FxHashMap<&Source, u32> = FxHashMap::default();
    let mut frames = Vec::new();
    let mut of_location: Vec<Vec<u32>> = Vec::new();
    for location in &samples.locations {
        let of = location.functions.iter().map(|function| {
            *numbers.entry(function).or_insert_with(|| {
                frames.push(Named {
                    name: &function.name,
                    file: &function.file,
                    line: function.line,
                });
                frames.len() as u32 - 1
            })
        });
        of_location.push(of.collect());
    }
    let stacks: Vec<Vec<u32>> = samples
        .rows
        .iter()
        .map(|row| {
            let of = |index: &u32| of_location[*index as usize].iter().copied();
            row.stack.iter().flat_map(of).collect()
        })
        .collect();
    let file = File {
        schema: SCHEMA,
        name,
        exporter: concat!("gpumem-analyze ", env!("CARGO_PKG_VERSION")),
        active: 0,
        shared: Shared { frames },
        profiles: headings
            .iter()
            .enumerate()
            .map(|(heading, name)| profile(samples, &stacks, heading, name))
            .collect(),
    };
    serde_json::to_writer(out, &file)
}

fn profile<'a>(
    samples: &Samples,
    stacks: &'a [Vec<u32>],
    heading: usize,
    name: &'a str,
) -> Profile<'a> {
    let rows = samples.rows.iter().zip(stacks);
    let held = rows.filter_map(|(row, stack)| {
        let bytes = row.figures[heading].bytes;
        (bytes > 0).then_some((&stack[..], bytes))
    });
    let (samples, weights): (Vec<&[u32]>, Vec<u64>) = held.unzip();
    Profile {
        kind: "sampled",
        name,
        unit: "bytes",
        start_value: 0,
        end_value: weights.iter().sum(),
        samples,
        weights,
    }
}
