//! pprof's format: a gzip of the message `perftools.profiles.Profile`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! Each heading has two sample types, its blocks and its bytes. Every sample has a value for each type.

use std::collections::BTreeSet;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use gpumem_capture::ProcessKey;
use rustc_hash::FxHashMap;

use super::protobuf::Message;
use super::samples::{Location, Samples};
use super::strings::Strings;
use crate::names::{Module, Names};
use crate::symbols::Source;

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
    let mut strings = Strings::new();
    let mut profile = Message::default();
    for heading in headings {
        for (what, unit) in [("objects", "count"), ("space", "bytes")] {
            let mut of = Message::default();
            of.number(1, strings.number(&format!("{heading}_{what}")));
            of.number(2, strings.number(unit));
            profile.message(1, &of);
        }
    }
    for row in &samples.rows {
        let mut sample = Message::default();
        // The newest first; ids are from 1.
        sample.numbers(1, row.stack.iter().rev().map(|index| u64::from(*index) + 1));
        let values = row.figures.iter();
        sample.numbers(2, values.flat_map(|figure| [figure.blocks, figure.bytes]));
        profile.message(2, &sample);
    }
    let modules = modules(&samples.locations, names);
    for (index, id) in modules.iter().zip(1..) {
        if let Some(module) = names.modules.get(*index as usize) {
            profile.message(3, &mapping(module, id, &mut strings));
        }
    }
    let modules: FxHashMap<u32, u64> = modules.into_iter().zip(1..).collect();
    let mut functions = Functions::default();
    for (location, id) in samples.locations.iter().zip(1..) {
        let mut message = Message::default();
        message.number(1, id);
        let mapping = location.module.and_then(|index| modules.get(&index));
        message.number(2, mapping.copied().unwrap_or(0));
        message.number(3, location.address);
        for function in location.functions.iter().rev() {
            let mut line = Message::default();
            line.number(1, functions.id(function, &mut strings));
            line.number(2, u64::from(function.line));
            message.message(4, &line);
        }
        profile.message(4, &message);
    }
    for function in &functions.messages {
        profile.message(5, function);
    }
    let comments: Vec<u64> = about
        .comments
        .iter()
        .map(|comment| strings.number(comment))
        .collect();
    let first = headings.first().copied().unwrap_or_default();
    let default = strings.number(&format!("{first}_space"));
    for text in &strings.texts {
        profile.text(6, text);
    }
    profile.number(9, about.started_unix_ns);
    profile.number(10, about.duration_ns);
    profile.numbers(13, comments);
    profile.number(14, default);
    // The header has no name and no time, so that the same capture gives the same bytes.
    let mut zipped = GzBuilder::new().write(out, Compression::default());
    zipped.write_all(profile.as_bytes())?;
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

fn mapping(module: &Module, id: u64, strings: &mut Strings) -> Message {
    let mut mapping = Message::default();
    mapping.number(1, id);
    mapping.number(2, module.start);
    mapping.number(3, module.end);
    mapping.number(5, strings.number(&module.path));
    mapping.number(6, strings.number(&module.build_id_text()));
    // Functions were already looked up by build id; viewers need not do it by path.
    for field in 7..=10 {
        mapping.flag(field, true);
    }
    mapping
}

/// Functions by name and file.
#[derive(Default)]
struct Functions {
    messages: Vec<Message>,
    ids: FxHashMap<(u64, u64), u64>,
}

impl Functions {
    fn id(&mut self, function: &Source, strings: &mut Strings) -> u64 {
        let (name, file) = (
            strings.number(&function.name),
            strings.number(&function.file),
        );
        let messages = &mut self.messages;
        *self.ids.entry((name, file)).or_insert_with(|| {
            let id = messages.len() as u64 + 1;
            let mut message = Message::default();
            message.number(1, id);
            message.number(2, name);
            message.number(3, name);
            message.number(4, file);
            messages.push(message);
            id
        })
    }
}
