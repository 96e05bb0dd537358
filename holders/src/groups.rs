//! Puts like paths together: `history[0…213]` is one holder.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::freed::{Kept, Releases};
use crate::heap::Id;
use crate::limits::{Cut, Limits};
use crate::object::{Object, bases, full_name, kind};
use crate::path::{Path, Paths};
use crate::result::{Holder, Holders, Kind};
use crate::roots::What;
use crate::search::Search;
use crate::tensors::{Memory, Tensors};
use crate::text::{Part, is_of_module, text, with_numbers};

/// The maximum number of holders, and of those whose `frees` is determined.
const HOLDERS: usize = 24;
const CHECKED: usize = 6;
/// The maximum number of blocks whose holder is listed.
const BLOCKS: usize = 256;

/// A group while it is collected.
struct Group {
    kind: Kind,
    root: usize,
    text: String,
    numbers: Vec<(i64, i64)>,
    /// The beginning that all paths have in common.
    common: Vec<Id>,
    blocks: Vec<u64>,
    bytes: u64,
}

/// A block and the tensors that have it.
#[derive(Default)]
struct Block {
    bytes: u64,
    tensors: Vec<(Id, Memory)>,
    /// The best path so far, and whose it is: order, kind, parts.
    best: Option<(usize, Kind, Path)>,
}

/// Groups the blocks of all tensors.
pub(crate) fn group(
    mut paths: Paths<'_>,
    kept: &Kept<'_>,
    search: &Search,
    tensors: &mut dyn Tensors,
    limits: &Limits,
) -> Holders {
    let heap = kept.heap;
    let mut result = Holders::default();
    let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
    let mut graphs = Vec::new();
    let all = of_tensors(kept, tensors);
    let mut gradients = Vec::new();
    for (count, number) in all.into_iter().enumerate() {
        if count % 256 == 0 && limits.is_over() {
            result.cut = Some(Cut::Time);
            break;
        }
        let object = heap.object(number);
        let memory = tensors.memory(object);
        let gradient = tensors.gradient(object);
        let graph = tensors.graph(object);
        if memory.is_none() && gradient.is_none() && graph.is_none() {
            continue;
        }
        let path = paths.path(number);
        if let Some(graph) = graph {
            graphs.push((graph, path.clone()));
        }
        if let Some(gradient) = gradient {
            gradients.push((gradient, path.clone()));
        }
        if let Some(memory) = memory {
            let block = blocks.entry(memory.block).or_default();
            block.bytes = memory.bytes;
            block.tensors.push((number, memory));
            offer(block, search, path, |path| kind_of(search, path));
        }
    }
    for (memory, path) in gradients {
        let block = blocks.entry(memory.block).or_default();
        if block.best.is_none() {
            block.bytes = memory.bytes;
            let path = path.map(|mut path| {
                path.parts.push(Part::Name(String::from("grad")));
                path
            });
            offer(block, search, path, |_| Kind::Gradients);
        }
    }
    // A graph that contains others comes first. Of those that end together the program's own variable is named.
    graphs.sort_by_key(|(graph, path)| {
        let order = path.as_ref().map_or(usize::MAX, |path| order(search, path));
        (core::cmp::Reverse(graph.order), order)
    });
    for (graph, path) in graphs {
        for memory in tensors.saved(graph) {
            let block = blocks.entry(memory.block).or_default();
            if block.best.is_none() {
                block.bytes = memory.bytes;
                offer(block, search, path.clone(), |_| Kind::Graph);
            }
        }
    }
    let mut groups = collect(&mut blocks);
    groups.sort_by(|one, other| (other.bytes, &one.text).cmp(&(one.bytes, &other.text)));
    result.bytes = groups.iter().map(|group| group.bytes).sum();
    if search.is_cut {
        result.cut = Some(Cut::Time);
    }
    result.cut = heap.cut.or(result.cut);
    for (at, group) in groups.iter().take(HOLDERS).enumerate() {
        let frees = match at < CHECKED && result.cut.is_none() {
            true => frees(group, kept, &blocks, limits),
            false => None,
        };
        result.holders.push(Holder {
            kind: group.kind,
            text: with_numbers(&group.text, &group.numbers),
            place: paths.place(group.root),
            bytes: group.bytes,
            blocks: group.blocks.len() as u64,
            frees,
        });
        let of = group.blocks.iter().map(|block| (*block, at as u32));
        result.blocks.extend(of);
    }
    let bytes = |block: u64| blocks.get(&block).map_or(0, |block| block.bytes);
    result
        .blocks
        .sort_by_key(|(block, _)| (core::cmp::Reverse(bytes(*block)), *block));
    result.blocks.truncate(BLOCKS);
    result
}

/// The objects that are tensors.
fn of_tensors(kept: &Kept<'_>, tensors: &dyn Tensors) -> Vec<Id> {
    let mut known: FxHashMap<Object, bool> = FxHashMap::default();
    let mut is_tensor = |class: Object| {
        let of = |class| tensors.is_tensor(&full_name(class));
        *known.entry(class).or_insert_with(|| bases(class).any(of))
    };
    let objects = (0..).zip(&kept.heap.objects);
    objects
        .filter(|(_, object)| is_tensor(kind(**object)))
        .map(|(number, _)| number)
        .collect()
}

/// Keeps the better path.
fn offer(block: &mut Block, search: &Search, path: Option<Path>, kind: impl Fn(&Path) -> Kind) {
    let Some(path) = path else { return };
    // A tensor that only C++ code refers to has no holder in Python.
    let root = search.roots.get(path.root).map(|root| &root.what);
    if path.objects.len() == 1 && root == Some(&What::Native) {
        return;
    }
    let kind = kind(&path);
    let order = order(search, &path) + path.objects.len();
    if block.best.as_ref().is_none_or(|(best, ..)| order < *best) {
        block.best = Some((order, kind, path));
    }
}

/// Which root of a block's tensors is named: that of the program first.
fn order(search: &Search, path: &Path) -> usize {
    const FAR: usize = 1000;
    match search.roots.get(path.root) {
        Some(root) if root.is_own => 0,
        Some(root) => match root.what {
            What::Local(..) | What::Body(_) | What::Module(_) => FAR,
            What::Handled => 2 * FAR,
            What::Native => 3 * FAR,
            What::Cycle => 4 * FAR,
        },
        None => 5 * FAR,
    }
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

fn collect(blocks: &mut BTreeMap<u64, Block>) -> Vec<Group> {
    let mut groups: BTreeMap<(Kind, usize, String), Group> = BTreeMap::new();
    for (address, block) in blocks {
        let Some((_, kind, path)) = &block.best else {
            continue;
        };
        // A module is one holder.
        let is_module = |part: &Part| matches!(part, Part::Name(name) if is_of_module(name));
        let parts = match path.parts.iter().position(is_module) {
            Some(end) if *kind != Kind::Object => path.parts.get(..end).unwrap_or(&[]),
            _ => &path.parts,
        };
        let mut numbers = Vec::new();
        let text = text(parts, &mut numbers);
        // Objects that native code has are not distinguished.
        let root = match kind {
            Kind::Native | Kind::Cycle => usize::MAX,
            _ => path.root,
        };
        let key = (*kind, root, text.clone());
        let group = groups.entry(key).or_insert_with(|| Group {
            kind: *kind,
            root: path.root,
            text,
            numbers: numbers.iter().map(|number| (*number, *number)).collect(),
            common: path.objects.clone(),
            blocks: Vec::new(),
            bytes: 0,
        });
        for ((least, most), number) in group.numbers.iter_mut().zip(numbers) {
            (*least, *most) = ((*least).min(number), (*most).max(number));
        }
        let same = group.common.iter().zip(&path.objects);
        let same = same.take_while(|(one, other)| one == other).count();
        group.common.truncate(same);
        group.blocks.push(*address);
        group.bytes = group.bytes.saturating_add(block.bytes);
    }
    groups.into_values().collect()
}

/// See [`Holder::frees`].
fn frees(
    group: &Group,
    kept: &Kept<'_>,
    blocks: &BTreeMap<u64, Block>,
    limits: &Limits,
) -> Option<u64> {
    if !matches!(group.kind, Kind::Object | Kind::Traceback) {
        return None;
    }
    let releases = match (&group.common[..], group.blocks.len()) {
        ([], _) => return None,
        ([_], 1) => Releases::Root(group.root),
        ([.., from, to], 1) => Releases::Reference(*from, *to),
        ([.., container], _) => Releases::Object(*container),
    };
    let stays = kept.without(releases, group.root, limits)?;
    let mut freed = 0u64;
    for block in group.blocks.iter().filter_map(|block| blocks.get(block)) {
        let is_gone = block.tensors.iter().all(|(number, memory)| {
            let stays = stays.get(*number as usize).copied().unwrap_or(true);
            !stays && memory.references == 1 && memory.sharers as usize == block.tensors.len()
        });
        if is_gone && !block.tensors.is_empty() {
            freed = freed.saturating_add(block.bytes);
        }
    }
    Some(freed)
}
