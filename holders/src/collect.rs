//! Puts the blocks of like paths together.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::heap::Id;
use crate::path::{Path, Paths};
use crate::result::Kind;
use crate::roots::What;
use crate::search::{From, Search};
use crate::tensors::Memory;
use crate::text::{Part, is_of_module, text};

/// The text and the place of values of functions that run and are not the program's.
const RUNNING: (&str, &str) = ("running calls", "of installed packages");

/// A group while it is collected.
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// The first of the roots.
    pub(crate) root: usize,
    pub(crate) roots: BTreeSet<usize>,
    pub(crate) place: String,
    pub(crate) is_own: bool,
    pub(crate) text: String,
    pub(crate) numbers: Vec<(i64, i64)>,
    /// The beginning that all paths have in common.
    pub(crate) common: Vec<Id>,
    pub(crate) blocks: Vec<u64>,
    pub(crate) bytes: u64,
}

impl Group {
    fn add(&mut self, block: u64, bytes: u64, numbers: impl Iterator<Item = i64>) {
        for ((least, most), number) in self.numbers.iter_mut().zip(numbers) {
            (*least, *most) = ((*least).min(number), (*most).max(number));
        }
        self.blocks.push(block);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Where it is: of a function that calls itself, how many calls.
    pub(crate) fn place(&self) -> String {
        match (self.place.strip_prefix("local of "), self.roots.len()) {
            (Some(frame), calls) if calls > 1 => format!("local of {calls} calls of {frame}"),
            _ => self.place.clone(),
        }
    }
}

/// A block and the tensors that have it.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) bytes: u64,
    pub(crate) tensors: Vec<(Id, Memory)>,
    /// The tensor with the best path so far.
    pub(crate) best: Option<Best>,
}

/// A tensor by whose path a block is named.
#[derive(Clone, Copy)]
pub(crate) struct Best {
    /// The smallest is the best.
    pub(crate) order: usize,
    pub(crate) how: How,
    pub(crate) tensor: Id,
}

/// How a tensor has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// It is its memory.
    Own,
    /// It is that of its gradient.
    Gradient,
    /// The graph that hangs on it keeps it.
    Graph,
}

/// The elements of one list: their group, the numbers in its text before that of an element, and the objects of the path
/// to the list.
pub(crate) struct Elements {
    group: usize,
    numbers: Vec<i64>,
    objects: usize,
}

pub(crate) fn collect(
    paths: &mut Paths<'_>,
    search: &Search,
    blocks: &mut BTreeMap<u64, Block>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<(Kind, String, String), usize> = BTreeMap::new();
    let mut lists: FxHashMap<(How, Id), Elements> = FxHashMap::default();
    for (address, block) in blocks {
        let Some(Best { how, tensor, .. }) = block.best else {
            continue;
        };
        let list = match search.from(tensor) {
            From::Object(list) => list,
            _ => Id::MAX,
        };
        if let Some(elements) = lists.get(&(how, list))
            && let Some(Part::Index(number)) = paths.element(list, tensor)
            && let Some(group) = groups.get_mut(elements.group)
        {
            let numbers = elements.numbers.iter().copied().chain([number]);
            group.common.truncate(elements.objects);
            group.add(*address, block.bytes, numbers);
            continue;
        }
        let Some(path) = paths.path(tensor) else {
            continue;
        };
        let (kind, text, mut numbers, place, is_own) = named(paths, search, &path, how);
        let key = (kind, place.clone(), text.clone());
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Group {
                kind,
                root: path.root,
                roots: BTreeSet::new(),
                place,
                is_own,
                text,
                numbers: numbers.iter().map(|number| (*number, *number)).collect(),
                common: path.objects.clone(),
                blocks: Vec::new(),
                bytes: 0,
            });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else {
            continue;
        };
        group.roots.insert(path.root);
        let same = group.common.iter().zip(&path.objects);
        let same = same.take_while(|(one, other)| one == other).count();
        group.common.truncate(same);
        group.add(*address, block.bytes, numbers.iter().copied());
        // The last number of the text is that of the element.
        if let Some(Part::Index(number)) = path.parts.last()
            && matches!(kind, Kind::Object | Kind::Graph)
            && is_own
            && numbers.pop() == Some(*number)
        {
            let elements = Elements {
                group: at,
                numbers,
                objects: path.objects.len() - 1,
            };
            lists.insert((how, list), elements);
        }
    }
    groups
}

/// The kind, the text, its numbers and the place of a path, and whether that is in the program.
fn named(
    paths: &mut Paths<'_>,
    search: &Search,
    path: &Path,
    how: How,
) -> (Kind, String, Vec<i64>, String, bool) {
    let kind = match (how, kind_of(search, path)) {
        (How::Own, kind) => kind,
        (How::Gradient, _) => Kind::Gradients,
        (How::Graph, Kind::Traceback) => Kind::Traceback,
        (How::Graph, _) => Kind::Graph,
    };
    let root = search.roots.get(path.root);
    let is_own = root.is_some_and(|root| root.is_own);
    // What the functions of packages that run call their values says nothing.
    if !is_own && root.is_some_and(|root| matches!(root.what, What::Local(..))) {
        let (text, place) = (String::from(RUNNING.0), String::from(RUNNING.1));
        return (kind, text, Vec::new(), place, is_own);
    }
    // A module is one holder.
    let is_module = |part: &Part| matches!(part, Part::Name(name) if is_of_module(name));
    let module = path.parts.iter().position(is_module);
    let mut parts = match (kind, module) {
        (Kind::Object, _) | (_, None) => path.parts.clone(),
        (_, Some(end)) => path.parts.get(..end).unwrap_or(&[]).to_vec(),
    };
    if kind == Kind::Traceback && module.is_none() {
        parts = up_to_variable(&parts).to_vec();
    }
    if kind == Kind::Gradients && module.is_none() {
        parts.push(Part::Name(String::from("grad")));
    }
    let mut numbers = Vec::new();
    let text = text(&parts, &mut numbers);
    (kind, text, numbers, paths.place(path.root), is_own)
}

/// The parts up to the variable of a frame: what it refers to is not named.
fn up_to_variable(parts: &[Part]) -> &[Part] {
    let last = parts
        .iter()
        .rposition(|part| matches!(part, Part::Arrow(_)));
    last.and_then(|last| parts.get(..=last)).unwrap_or(parts)
}

fn kind_of(search: &Search, path: &Path) -> Kind {
    let has = |wanted: &str| {
        let mut parts = path.parts.iter();
        parts.any(|part| matches!(part, Part::Name(name) if name == wanted))
    };
    let is_kept = |part: &Part| matches!(part, Part::Arrow(text) if text == "traceback");
    match search.roots.get(path.root).map(|root| &root.what) {
        Some(What::Native) => Kind::Native,
        Some(What::Cycle) => Kind::Cycle,
        Some(What::Handled) => Kind::Traceback,
        _ if path.parts.iter().any(is_kept) => Kind::Traceback,
        _ if has("_parameters") || has("_buffers") => Kind::Parameters,
        _ => Kind::Object,
    }
}
