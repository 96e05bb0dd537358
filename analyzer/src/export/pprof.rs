//! pprof's format: a gzip of the message `perftools.profiles.Profile`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! Each heading has two sample types, its blocks and its bytes. Every sample has a value for each type.

use std::collections::BTreeSet;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use gpumem_capture::ProcessKey;
use prost::Message;
use rustc_hash::FxHashMap;

use super::samples::{Location, SampleRow, Samples};
use crate::names::{Module, Names};

/// Facts about a profile beyond its samples.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// When the capture was opened: nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// From then to the end.
    pub duration_ns: u64,
    /// Lines of text, which viewers show.
    pub comments: Vec<String>,
}

/// Writes a profile. `headings` are words like `peak`, one for each of `samples`: their types are
/// `peak_objects` and `peak_space`. The first heading's bytes are what viewers show first.
///
/// # Errors
/// The writer's.
pub fn pprof(
    samples: &Samples,
    headings: &[&str],
    names: &Names,
    about: &About,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut strings = Strings::default();
    strings.number("");
    let mut profile = Profile {
        time_nanos: about.started_unix_ns as i64,
        duration_nanos: about.duration_ns as i64,
        ..Profile::default()
    };
    for heading in headings {
        for (what, unit) in [("objects", "count"), ("space", "bytes")] {
            profile.sample_type.push(ValueType {
                r#type: strings.number(&format!("{heading}_{what}")),
                unit: strings.number(unit),
            });
        }
    }
    let sample = |row: &SampleRow| Sample {
        // The newest first; ids are from 1.
        location_id: row
            .stack
            .iter()
            .rev()
            .map(|index| u64::from(*index) + 1)
            .collect(),
        value: row
            .figures
            .iter()
            .flat_map(|figure| [figure.blocks as i64, figure.bytes as i64])
            .collect(),
    };
    profile.sample = samples.rows.iter().map(sample).collect();
    let modules = modules(&samples.locations, names);
    for (index, id) in modules.iter().zip(1..) {
        if let Some(module) = names.modules.get(*index as usize) {
            profile.mapping.push(mapping(module, id, &mut strings));
        }
    }
    let modules: FxHashMap<u32, u64> = modules.into_iter().zip(1..).collect();
    let mut functions: FxHashMap<(i64, i64), u64> = FxHashMap::default();
    for (location, id) in samples.locations.iter().zip(1..) {
        let lines = location.functions.iter().rev().map(|function| {
            let (name, filename) = (
                strings.number(&function.name),
                strings.number(&function.file),
            );
            let id = functions.len() as u64 + 1;
            let function_id = *functions.entry((name, filename)).or_insert_with(|| {
                profile.function.push(Function {
                    id,
                    name,
                    system_name: name,
                    filename,
                });
                id
            });
            Line {
                function_id,
                line: function.line.into(),
            }
        });
        profile.location.push(Place {
            id,
            mapping_id: location
                .module
                .and_then(|index| modules.get(&index))
                .copied()
                .unwrap_or(0),
            address: location.address,
            line: lines.collect(),
        });
    }
    let comments = about.comments.iter();
    profile.comment = comments.map(|comment| strings.number(comment)).collect();
    let first = headings.first().copied().unwrap_or_default();
    profile.default_sample_type = strings.number(&format!("{first}_space"));
    profile.string_table = strings.texts;
    // The header has no name and no time, so that the same capture gives the same bytes.
    let mut zipped = GzBuilder::new().write(out, Compression::default());
    zipped.write_all(&profile.encode_to_vec())?;
    zipped.finish().map(drop)
}

/// The program itself, whose name readers show as the profile's, followed by the modules of the places in the order
/// in which they were loaded.
fn modules(locations: &[Location], names: &Names) -> Vec<u32> {
    let modules = locations.iter().filter_map(|location| location.module);
    let mut modules: BTreeSet<u32> = modules.collect();
    let program = names.fact(ProcessKey::EXECUTABLE);
    let is_program = |module: &Module| Some(module.path.as_str()) == program;
    let program = names.modules.iter().position(is_program);
    let program = program.map(|index| index as u32);
    if let Some(program) = program {
        modules.remove(&program);
    }
    program.into_iter().chain(modules).collect()
}

fn mapping(module: &Module, id: u64, strings: &mut Strings) -> Mapping {
    Mapping {
        id,
        memory_start: module.start,
        memory_limit: module.end,
        filename: strings.number(&module.path),
        build_id: strings.number(&module.build_id_text()),
        // Functions were already looked up by build id; viewers need not do it by path.
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    }
}

/// The table of texts, each once. 0 is the empty one.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    numbers: FxHashMap<String, i64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

// The messages of profile.proto, with the fields that are written.

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = 1)]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = 2)]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = 3)]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = 4)]
    location: Vec<Place>,
    #[prost(message, repeated, tag = 5)]
    function: Vec<Function>,
    #[prost(string, repeated, tag = 6)]
    string_table: Vec<String>,
    #[prost(int64, tag = 9)]
    time_nanos: i64,
    #[prost(int64, tag = 10)]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = 13)]
    comment: Vec<i64>,
    #[prost(int64, tag = 14)]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = 1)]
    r#type: i64,
    #[prost(int64, tag = 2)]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = 1)]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = 2)]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = 1)]
    id: u64,
    #[prost(uint64, tag = 2)]
    memory_start: u64,
    #[prost(uint64, tag = 3)]
    memory_limit: u64,
    #[prost(int64, tag = 5)]
    filename: i64,
    #[prost(int64, tag = 6)]
    build_id: i64,
    #[prost(bool, tag = 7)]
    has_functions: bool,
    #[prost(bool, tag = 8)]
    has_filenames: bool,
    #[prost(bool, tag = 9)]
    has_line_numbers: bool,
    #[prost(bool, tag = 10)]
    has_inline_frames: bool,
}

/// profile.proto's `Location`.
#[derive(Clone, PartialEq, Message)]
struct Place {
    #[prost(uint64, tag = 1)]
    id: u64,
    #[prost(uint64, tag = 2)]
    mapping_id: u64,
    #[prost(uint64, tag = 3)]
    address: u64,
    #[prost(message, repeated, tag = 4)]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = 1)]
    function_id: u64,
    #[prost(int64, tag = 2)]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = 1)]
    id: u64,
    #[prost(int64, tag = 2)]
    name: i64,
    #[prost(int64, tag = 3)]
    system_name: i64,
    #[prost(int64, tag = 4)]
    filename: i64,
}
