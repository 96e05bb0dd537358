//! Puts like paths together: `history[0…213]` is one holder.

use std::collections::BTreeMap;

use crate::collect::{Best, Block, Group, How, collect};
use crate::freed::{Kept, Releases};
use crate::heap::Id;
use crate::limits::{Cut, Limits};
use crate::path::Paths;
use crate::result::{Holder, Holders, Kind};
use crate::roots::{Root, What};
use crate::search::{From, Search, rank};
use crate::shared;
use crate::tensors::{Memory, Tensors};
use crate::text::with_numbers;

/// The maximum number of holders, and of those whose `frees` is determined.
const HOLDERS: usize = 24;
const CHECKED: usize = 6;
/// The maximum number of blocks whose holder is listed.
const BLOCKS: usize = 256;

/// Groups the blocks of all tensors, whose objects are `all`.
pub(crate) fn group(
    mut paths: Paths<'_>,
    kept: &Kept<'_>,
    search: &Search,
    (tensors, all): (&mut dyn Tensors, &[Id]),
    limits: &Limits,
) -> Holders {
    let heap = kept.heap;
    let mut result = Holders::default();
    let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
    let mut graphs = Vec::new();
    let mut gradients = Vec::new();
    for (count, number) in all.iter().copied().enumerate() {
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
        if let Some(graph) = graph {
            graphs.push((graph, number));
        }
        if let Some(gradient) = gradient {
            gradients.push((gradient, number));
        }
        if let Some(memory) = memory {
            let block = blocks.entry(memory.block).or_default();
            block.bytes = memory.bytes;
            block.tensors.push((number, memory));
            offer(block, search, number, How::Own);
        }
    }
    for (memory, tensor) in gradients {
        let block = blocks.entry(memory.block).or_default();
        // An optimizer that runs has them in lists.
        if block.best.is_none_or(|best| best.order >= FAR) {
            block.bytes = memory.bytes;
            offer(block, search, tensor, How::Gradient);
        }
    }
    // What keeps its graph for longest is named: what a container or an attribute has, before variables, which soon have
    // another value; and of these the tensor whose graph contains others.
    graphs.sort_by_key(|(graph, tensor)| {
        let root = search.beginning(*tensor).map(|(root, _)| root);
        let root = root.and_then(|root| search.roots.get(root));
        let rank = root.map_or(usize::MAX, |root| rank(root, kept.frames.all.len()));
        let is_variable = search.is_variable(*tensor);
        (rank, is_variable, core::cmp::Reverse(graph.order))
    });
    let (graphs, heads): (Vec<_>, Vec<_>) = graphs.into_iter().unzip();
    for (tensor, saved) in heads.into_iter().zip(tensors.saved(&graphs)) {
        for memory in saved {
            let block = blocks.entry(memory.block).or_default();
            if block.best.is_none() {
                block.bytes = memory.bytes;
                offer(block, search, tensor, How::Graph);
            }
        }
    }
    let mut groups = collect(&mut paths, search, &mut blocks);
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
        let is_shared = frees.is_some_and(|frees| frees < group.bytes / 2);
        let also = match is_shared && group.is_own && !limits.is_over() {
            true => shared::other(group, (&mut paths, kept, search), &blocks),
            false => None,
        };
        let of_group = group.blocks.iter().filter_map(|block| blocks.get(block));
        let covers: u64 = of_group.map(|block| covered(block, search)).sum();
        result.holders.push(Holder {
            also,
            covers: (covers < group.bytes - group.bytes / 8).then_some(covers),
            kind: group.kind,
            text: with_numbers(&group.text, &group.numbers),
            place: group.place(),
            is_own: group.is_own,
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

/// The bytes of a block that its tensors are; all if something else refers to it.
fn covered(block: &Block, search: &Search) -> u64 {
    let all = block.tensors.iter();
    let (bases, named): (Vec<_>, Vec<_>) = all
        .copied()
        .partition(|(tensor, _)| is_native(search, *tensor));
    // C++ code keeps the tensor of which others are views: each has a reference, and the object of newer forms.
    let is_base = |(_, memory): &(Id, Memory)| memory.references as usize <= named.len() + 1;
    let has_all = |(_, memory): &(Id, Memory)| memory.sharers as usize == block.tensors.len();
    let covers = named.iter().map(|(_, memory)| memory.covers).sum();
    match !named.is_empty() && named.iter().all(has_all) && bases.iter().all(is_base) {
        true => block.bytes.min(covers),
        false => block.bytes,
    }
}

/// Whether only C++ code refers to a tensor.
fn is_native(search: &Search, tensor: Id) -> bool {
    let root = search
        .beginning(tensor)
        .and_then(|(root, _)| search.roots.get(root));
    let is_native = root.is_some_and(|root| matches!(root.what, What::Native(_)));
    is_native && !matches!(search.from(tensor), From::Object(_))
}

/// Keeps the better path.
fn offer(block: &mut Block, search: &Search, tensor: Id, how: How) {
    let Some((root, _)) = search.beginning(tensor) else {
        return;
    };
    let root = search.roots.get(root);
    // It has no holder in Python.
    if is_native(search, tensor) {
        return;
    }
    let order = order(root) + depth(search, tensor);
    if block.best.is_none_or(|best| order < best.order) {
        block.best = Some(Best { order, how, tensor });
    }
}

/// The number of objects from the root on, at most [`FAR`].
fn depth(search: &Search, tensor: Id) -> usize {
    let mut at = tensor;
    let mut depth = 1;
    while let From::Object(from) = search.from(at)
        && depth < FAR
    {
        (at, depth) = (from, depth + 1);
    }
    depth
}

/// More than the depth that counts.
const FAR: usize = 1000;

/// Which root of a block's tensors is named: that of the program first.
fn order(root: Option<&Root>) -> usize {
    match root {
        Some(root) if root.is_own => 0,
        Some(root) => match root.what {
            What::Local(..) | What::Body(_) | What::Module(_) => FAR,
            What::Handled => 2 * FAR,
            What::Native(_) => 3 * FAR,
            What::Cycle => 4 * FAR,
        },
        None => 5 * FAR,
    }
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
        let stays = |number: &Id| stays.get(*number as usize).copied().unwrap_or(true);
        if block.tensors.is_empty() || block.tensors.iter().any(|(number, _)| stays(number)) {
            continue;
        }
        // What else refers to it is not known: C++ code, or an object for its storage.
        let is_shared = |memory: &Memory| {
            memory.references != 1 || memory.sharers as usize != block.tensors.len()
        };
        if block.tensors.iter().any(|(_, memory)| is_shared(memory)) {
            return None;
        }
        freed = freed.saturating_add(block.bytes);
    }
    Some(freed)
}
