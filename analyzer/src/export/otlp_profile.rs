//! OpenTelemetry's profiles: the message `opentelemetry.proto.profiles.v1development.ProfilesData`
//! (<https://github.com/open-telemetry/opentelemetry-proto>), which is still in development.
//!
//! A profile has values of one kind, so each heading is a profile, and all profiles share one dictionary. The first
//! entry of each of its tables is the zero value. All entries are distinct, and all others are used.

use std::hash::Hash;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::protobuf::Message;
use super::samples::{Location, SampleRow, Samples};
use super::strings::Strings;
use crate::names::Names;
use crate::symbols::Source;

/// Facts about a profile beyond its samples.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// When the capture was opened: nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// From then to the end.
    pub duration_ns: u64,
    /// A number that identifies the capture.
    pub nonce: u64,
    /// Attributes of the process: keys of OpenTelemetry's conventions and their values.
    pub resource: Vec<(&'static str, String)>,
    /// The number of the process.
    pub pid: u32,
    /// Attributes of each profile.
    pub attributes: Vec<(&'static str, String)>,
}

/// A table of the dictionary.
struct Table<K> {
    messages: Vec<Message>,
    numbers: FxHashMap<K, u64>,
}

impl<K: Hash + Eq> Table<K> {
    fn new() -> Self {
        Self {
            messages: vec![Message::default()],
            numbers: FxHashMap::default(),
        }
    }

    fn add(&mut self, key: K, message: Message) -> u64 {
        let number = self.messages.len() as u64;
        self.messages.push(message);
        self.numbers.insert(key, number);
        number
    }
}

struct Dictionary<'a> {
    samples: &'a Samples,
    names: &'a Names,
    strings: Strings,
    mappings: Table<u32>,
    locations: Table<u32>,
    functions: Table<(u64, u64)>,
    attributes: Table<(u64, String)>,
    stacks: Table<usize>,
}

/// Writes a profile of bytes for each heading. Headings are words like `peak`, one for each of `samples`.
///
/// # Errors
/// The writer's.
pub fn otlp_profile(
    samples: &Samples,
    headings: &[&str],
    names: &Names,
    about: &About,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut dictionary = Dictionary::new(samples, names);
    let mut scope_profiles = Message::default();
    let mut scope = Message::default();
    scope.text(1, "gpumem");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    scope_profiles.message(1, &scope);
    for (heading, name) in headings.iter().enumerate() {
        let profile = dictionary.profile(heading, name, about);
        scope_profiles.message(2, &profile);
    }
    let mut resource = Message::default();
    let mut attribute = |key: &str, value: &Message| {
        let mut of = Message::default();
        of.text(1, key);
        of.message(2, value);
        resource.message(1, &of);
    };
    let mut pid = Message::default();
    pid.number(3, u64::from(about.pid));
    attribute("process.pid", &pid);
    for (key, text) in &about.resource {
        attribute(key, &text_value(text));
    }
    let mut resource_profiles = Message::default();
    resource_profiles.message(1, &resource);
    resource_profiles.message(2, &scope_profiles);
    let mut data = Message::default();
    data.message(1, &resource_profiles);
    data.message(2, &dictionary.message());
    out.write_all(data.as_bytes())
}

fn text_value(text: &str) -> Message {
    let mut value = Message::default();
    value.text(1, text);
    value
}

impl<'a> Dictionary<'a> {
    fn new(samples: &'a Samples, names: &'a Names) -> Self {
        Self {
            samples,
            names,
            strings: Strings::new(),
            mappings: Table::new(),
            locations: Table::new(),
            functions: Table::new(),
            attributes: Table::new(),
            stacks: Table::new(),
        }
    }

    fn profile(&mut self, heading: usize, name: &str, about: &About) -> Message {
        let mut profile = Message::default();
        let mut kind = Message::default();
        kind.number(1, self.strings.number(&format!("{name}_space")));
        kind.number(2, self.strings.number("bytes"));
        profile.message(1, &kind);
        for (index, row) in self.samples.rows.iter().enumerate() {
            let bytes = row.figures.get(heading).map_or(0, |figure| figure.bytes);
            if bytes == 0 {
                continue;
            }
            let mut sample = Message::default();
            sample.number(1, self.stack(index, row));
            sample.numbers(4, [bytes]);
            profile.message(2, &sample);
        }
        profile.fixed(3, about.started_unix_ns);
        profile.number(4, about.duration_ns);
        // The same capture has the same profiles, each with a different id.
        let mut id = [0; 16];
        id[..8].copy_from_slice(&about.nonce.to_be_bytes());
        id[8..].copy_from_slice(&(heading as u64 + 1).to_be_bytes());
        profile.bytes_of(7, &id);
        let attributes = about.attributes.iter();
        let attributes: Vec<u64> = attributes
            .map(|(key, text)| self.attribute(key, text))
            .collect();
        profile.numbers(11, attributes);
        profile
    }

    fn stack(&mut self, index: usize, row: &SampleRow) -> u64 {
        if row.stack.is_empty() {
            return 0;
        }
        if let Some(known) = self.stacks.numbers.get(&index) {
            return *known;
        }
        // The newest first.
        let places: Vec<u64> = row
            .stack
            .iter()
            .rev()
            .map(|at| self.location(*at))
            .collect();
        let mut stack = Message::default();
        stack.numbers(1, places);
        self.stacks.add(index, stack)
    }

    fn location(&mut self, index: u32) -> u64 {
        if let Some(known) = self.locations.numbers.get(&index) {
            return *known;
        }
        let samples = self.samples;
        let location = &samples.locations[index as usize];
        let mut message = Message::default();
        message.number(1, location.module.map_or(0, |module| self.mapping(module)));
        message.number(2, location.address);
        for function in location.functions.iter().rev() {
            let mut line = Message::default();
            line.number(1, self.function(function));
            line.number(2, u64::from(function.line));
            message.message(3, &line);
        }
        let kind = kind(location).map(|kind| self.attribute("profile.frame.type", kind));
        message.numbers(4, kind);
        self.locations.add(index, message)
    }

    fn mapping(&mut self, index: u32) -> u64 {
        if let Some(known) = self.mappings.numbers.get(&index) {
            return *known;
        }
        let Some(module) = self.names.modules.get(index as usize) else {
            return 0;
        };
        let mut mapping = Message::default();
        mapping.number(1, module.start);
        mapping.number(2, module.end);
        mapping.number(4, self.strings.number(&module.path));
        let build_id = module.build_id_text();
        if !build_id.is_empty() {
            let attribute = self.attribute("process.executable.build_id.gnu", &build_id);
            mapping.numbers(5, [attribute]);
        }
        self.mappings.add(index, mapping)
    }

    fn function(&mut self, function: &Source) -> u64 {
        let name = self.strings.number(&function.name);
        let file = self.strings.number(&function.file);
        if let Some(known) = self.functions.numbers.get(&(name, file)) {
            return *known;
        }
        let mut message = Message::default();
        message.number(1, name);
        message.number(2, name);
        message.number(3, file);
        self.functions.add((name, file), message)
    }

    fn attribute(&mut self, key: &str, text: &str) -> u64 {
        let key = self.strings.number(key);
        let entry = (key, text.to_owned());
        if let Some(known) = self.attributes.numbers.get(&entry) {
            return *known;
        }
        let mut attribute = Message::default();
        attribute.number(1, key);
        attribute.message(2, &text_value(text));
        self.attributes.add(entry, attribute)
    }

    fn message(&self) -> Message {
        let mut dictionary = Message::default();
        let mut table = |field, messages: &[Message]| {
            for message in messages {
                dictionary.message(field, message);
            }
        };
        table(1, &self.mappings.messages);
        table(2, &self.locations.messages);
        table(3, &self.functions.messages);
        // No sample has a link.
        table(4, &[Message::default()]);
        table(6, &self.attributes.messages);
        table(7, &self.stacks.messages);
        for text in &self.strings.texts {
            dictionary.text(5, text);
        }
        dictionary
    }
}

/// The kind of code at a place; `None` for a placeholder without code.
fn kind(location: &Location) -> Option<&'static str> {
    match location {
        Location { address: 1.., .. } => Some("native"),
        of if of
            .functions
            .iter()
            .any(|function| !function.file.is_empty()) =>
        {
            Some("cpython")
        }
        _ => None,
    }
}
