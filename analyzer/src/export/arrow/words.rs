//! The texts of each column.

use std::hash::Hash;

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use gpumem_capture::{ApiId, EventKind, Level};
use rustc_hash::FxHashMap;

use super::dictionary::{Dictionary, fixed};
use crate::account::Phase;
use crate::export::events::Whose;
use crate::export::kinds::{KINDS, UNKNOWN};
use crate::names::Names;
use crate::node_classes::class;
use crate::replay::Category;

/// The levels in the order of their numbers, followed by an unknown one.
const LEVELS: [Level; Level::COUNT + 1] = [
    Level::TENSOR,
    Level::DRIVER,
    Level::HOST,
    Level::PHYSICAL,
    Level(u8::MAX),
];

/// The categories in the order of their numbers.
const CATEGORIES: [Category; 9] = {
    let of = Category::ALL;
    let none = Category::None;
    [none, of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7]]
};

/// The function of a stack that was not sampled.
const NOT_SAMPLED: &str = "(not sampled)";

pub(super) fn levels() -> ArrayRef {
    fixed(&LEVELS.map(Level::name))
}

pub(super) fn phases() -> ArrayRef {
    fixed(&Phase::ALL.map(Phase::word))
}

pub(super) fn categories() -> ArrayRef {
    fixed(&CATEGORIES.map(Category::name))
}

/// The words for kinds, and the index of each kind among them.
pub(super) fn kinds() -> (ArrayRef, [i8; 256]) {
    let mut words: Vec<&str> = KINDS.iter().map(|(_, word)| *word).collect();
    let mut places = [words.len() as i8; 256];
    for ((EventKind(kind), _), place) in KINDS.iter().zip(0..) {
        places[usize::from(*kind)] = place;
    }
    words.push(UNKNOWN);
    (fixed(&words), places)
}

/// Functions that were called, and the index of each among them.
pub(super) fn apis(names: &Names) -> Result<(ArrayRef, Vec<Option<i32>>), ArrowError> {
    let (words, by_id) = numbered(&names.apis)?;
    let last = by_id.keys().map(|id: &ApiId| usize::from(id.0)).max();
    let mut places = vec![None; last.map_or(0, |last| last + 1)];
    for (id, place) in by_id {
        places[usize::from(id.0)] = Some(place);
    }
    Ok((words, places))
}

/// Ranges, and the index of each among them.
pub(super) fn ranges(names: &Names) -> Result<(ArrayRef, FxHashMap<u32, i32>), ArrowError> {
    numbered(&names.ranges)
}

fn numbered<K: Copy + Eq + Hash>(
    names: &FxHashMap<K, String>,
) -> Result<(ArrayRef, FxHashMap<K, i32>), ArrowError> {
    let words = Dictionary::of(names.values().map(String::as_str));
    let places = names.iter();
    let places = places.map(|(id, name)| Ok((*id, words.number(name)?)));
    let places = places.collect::<Result<_, ArrowError>>()?;
    Ok((words.words, places))
}

/// The owner of an event, as numbers of names.
#[derive(Clone, Copy, Default)]
pub(super) struct Owned {
    pub(super) file: Option<i32>,
    pub(super) line: Option<u32>,
    pub(super) function: Option<i32>,
    pub(super) node: Option<i32>,
    pub(super) library: Option<i32>,
    pub(super) phase: Option<i8>,
}

/// The dictionaries for the names of owners.
pub(super) struct OwnerWords {
    pub(super) files: Dictionary,
    pub(super) functions: Dictionary,
    pub(super) nodes: Dictionary,
    pub(super) libraries: Dictionary,
}

impl OwnerWords {
    pub(super) fn of(names: &Names) -> Self {
        let codes = || names.codes.values();
        let functions = codes().map(|code| code.name.as_str());
        let nodes: Vec<String> = names.node_names().chain([""]).map(class).collect();
        Self {
            files: Dictionary::of(codes().map(|code| code.file.as_str())),
            functions: Dictionary::of(functions.chain([NOT_SAMPLED])),
            nodes: Dictionary::of(nodes.iter().map(String::as_str)),
            libraries: Dictionary::of(names.modules.iter().map(|module| module.basename())),
        }
    }

    /// An owner as numbers of its names.
    pub(super) fn numbered(&self, whose: &Whose) -> Result<Owned, ArrowError> {
        let phase = |word| Phase::ALL.iter().position(|of| of.word() == word);
        Ok(Owned {
            file: self.files.number_of(whose.file.as_deref())?,
            line: whose.line,
            function: self.functions.number_of(whose.function.as_deref())?,
            node: self.nodes.number_of(whose.node.as_deref())?,
            library: self.libraries.number_of(whose.library.as_deref())?,
            phase: whose.phase.and_then(phase).map(|place| place as i8),
        })
    }
}
