//! Figures of stacks under several headings, with each place in code once: the input of profiles.

use std::collections::BTreeMap;
use std::rc::Rc;

use gpumem_capture::{DeviceOrdinal, PyFrame};
use rustc_hash::FxHashMap;

use crate::account::place;
use crate::names::{Names, NativeFrame};
use crate::node_classes::class;
use crate::replay::{Figure, Replay, StackKey};
use crate::stacks::{Frame, mixed};
use crate::symbols::{Source, Symbols};
use crate::views::ByStack;

/// A place in code, or a named placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The functions at it, the oldest first. There are several if some are inlined.
    pub functions: Vec<Source>,
    /// The address of the call in the recorded process; 0 if it is not native code.
    pub address: u64,
    /// The module that contains it: an index into [`Names::modules`].
    pub module: Option<u32>,
}

impl Location {
    fn named(name: &str) -> Self {
        Self {
            functions: vec![Source {
                name: name.into(),
                file: "".into(),
                line: 0,
            }],
            address: 0,
            module: None,
        }
    }
}

/// The figures of one stack under each heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Indices into [`Samples::locations`], the oldest first.
    pub stack: Vec<u32>,
    /// One for each heading.
    pub figures: Vec<Figure>,
}

/// All stacks, in a deterministic order.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Each place once.
    pub locations: Vec<Location>,
    /// Each distinct list of places once. With several devices, each list begins with its device.
    pub rows: Vec<SampleRow>,
}

impl Samples {
    /// The figures of stacks under each heading.
    pub fn of(replay: &Replay, symbols: &mut Symbols, headings: &[&ByStack]) -> Self {
        let names = &replay.names;
        let mut by_stack: BTreeMap<(DeviceOrdinal, StackKey), Vec<Figure>> = BTreeMap::new();
        for (heading, held) in headings.iter().enumerate() {
            for on in &held.devices {
                for (stacks, figure) in &on.figures {
                    let figures = by_stack.entry((on.device, *stacks)).or_default();
                    figures.resize(headings.len(), Figure::default());
                    figures[heading] += *figure;
                }
            }
        }
        let natives = by_stack.keys().map(|(_, stacks)| stacks.native);
        let frames = natives.filter_map(|native| names.native_stacks.get(&native));
        symbols.find(names, frames.flat_map(|(frames, _)| frames));
        let devices = headings.iter().map(|held| held.devices.len()).max();
        let mut places = Places::default();
        let mut rows: BTreeMap<Vec<u32>, Vec<Figure>> = BTreeMap::new();
        for ((device, stacks), figures) in by_stack {
            let mut stack = places.stack(names, symbols, stacks);
            if devices > Some(1) {
                stack.insert(0, places.named(&place(device)));
            }
            let row = rows.entry(stack).or_default();
            row.resize(headings.len(), Figure::default());
            for (sum, figure) in row.iter_mut().zip(figures) {
                *sum += figure;
            }
        }
        let rows = rows.into_iter();
        Self {
            locations: places.locations,
            rows: rows
                .map(|(stack, figures)| SampleRow { stack, figures })
                .collect(),
        }
    }

    /// Bytes and blocks of all stacks under a heading.
    pub fn total(&self, heading: usize) -> Figure {
        let mut total = Figure::default();
        for row in &self.rows {
            total += row.figures.get(heading).copied().unwrap_or_default();
        }
        total
    }
}

/// Assigns an index to each place.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The places so far.
    pub(super) locations: Vec<Location>,
    numbers: FxHashMap<Location, u32>,
    stacks: FxHashMap<StackKey, Vec<u32>>,
}

impl Places {
    /// The places of a mixed stack, the oldest first.
    pub(super) fn stack(
        &mut self,
        names: &Names,
        symbols: &mut Symbols,
        stacks: StackKey,
    ) -> Vec<u32> {
        if let Some(known) = self.stacks.get(&stacks) {
            return known.clone();
        }
        let frames = mixed(names, symbols, stacks);
        let frames = frames.iter().map(|frame| match frame {
            Frame::Python(frame) => python(names, frame),
            Frame::Native(frame) => native(names, symbols, frame),
            Frame::Backward(node) => {
                Location::named(&format!("backward: {}", class(names.node(*node))))
            }
            Frame::Note(note) => Location::named(note),
        });
        let stack: Vec<u32> = frames.map(|location| self.index(location)).collect();
        self.stacks.insert(stacks, stack.clone());
        stack
    }

    /// A placeholder for a frame without a place in code.
    pub(super) fn named(&mut self, name: &str) -> u32 {
        self.index(Location::named(name))
    }

    fn index(&mut self, location: Location) -> u32 {
        if let Some(known) = self.numbers.get(&location) {
            return *known;
        }
        let number = self.locations.len() as u32;
        self.locations.push(location.clone());
        self.numbers.insert(location, number);
        number
    }
}

fn python(names: &Names, frame: &PyFrame) -> Location {
    let Some(code) = names.codes.get(&frame.code) else {
        return Location::named("(Python function not in the capture)");
    };
    let (name, file): (Rc<str>, Rc<str>) = (code.name.as_str().into(), code.file.as_str().into());
    let line = names.line(frame).unwrap_or(code.first_line);
    Location {
        functions: vec![Source { name, file, line }],
        address: 0,
        module: None,
    }
}

fn native(names: &Names, symbols: &mut Symbols, frame: &NativeFrame) -> Location {
    Location {
        functions: symbols.sources(names, frame).to_vec(),
        address: frame.call_address(),
        module: frame.module,
    }
}
