//! Puts like paths together: `history[0…213]` is one holder.

use rustc_hash::FxHashSet;

use crate::blocks::{Best, Block, Blocks, How};
use crate::collect::{Group, collect};
use crate::freed::{Kept, Releases};
use crate::heap::Id;
use crate::limits::{Cut, Limits};
use crate::path::Paths;
use crate::result::{Holder, Holders, Kind};
use crate::roots::{Root, What};
use crate::search::{From, Search, rank};
use crate::shared::{self, Joined};
use crate::tensors::{Memory, Tensors};
use crate::text::with_numbers;
use crate::unused::Unused;

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
    let objects: Vec<_> = all.iter().map(|number| heap.object(*number)).collect();
    let mut own = Vec::with_capacity(all.len());
    tensors.memories(&objects, &mut |at, memory| {
        own.extend(all.get(at).map(|number| (*number, memory)));
    });
    let (mut graphs, mut gradients) = (Vec::new(), Vec::new());
    for (at, (number, object)) in all.iter().copied().zip(objects).enumerate() {
        if at % 256 == 0 && limits.is_over() {
            result.cut = Some(Cut::Time);
            break;
        }
        let graph = tensors.graph(object);
        graphs.extend(graph.map(|graph| (graph, (number, How::Graph))));
        if let Some(gradient) = tensors.gradient(object) {
            gradients.push((gradient, number));
            let graph = tensors.graph_of_gradient(object);
            graphs.extend(graph.map(|graph| (graph, (number, How::GraphOfGradient))));
        }
    }
    // What keeps its graph for longest is named: what a container or an attribute has, before variables, which soon have
    // another value; and of these the tensor whose graph others contain: a state, rather than its loss.
    graphs.sort_by_key(|(graph, (tensor, how))| {
        let root = search.beginning(*tensor).map(|(root, _)| root);
        let root = root.and_then(|root| search.roots.get(root));
        let rank = root.map_or(usize::MAX, |root| rank(root, kept.frames.all.len()));
        let is_variable = search.is_variable(*tensor);
        (rank, is_variable, *how == How::Graph, graph.order)
    });
    let (graphs, heads): (Vec<_>, Vec<_>) = graphs.into_iter().unzip();
    let saved = tensors.saved(&graphs);
    let others = gradients.iter().map(|(memory, _)| memory);
    let of_graphs = saved.iter().flat_map(|of| &of.memories);
    let others = others.chain(of_graphs).copied().collect();
    let mut blocks = Blocks::new(own, others);
    blocks.each(|block, tensors| {
        for (tensor, _) in tensors {
            offer(block, search, *tensor, How::Own);
        }
    });
    for (memory, tensor) in gradients {
        // An optimizer that runs has them in lists.
        if let Some(block) = blocks.at(memory.block)
            && block.best.is_none_or(|best| best.order >= FAR)
        {
            offer(block, search, tensor, How::Gradient);
        }
    }
    for ((tensor, how), saved) in heads.iter().zip(&saved) {
        for memory in &saved.memories {
            if let Some(block) = blocks.at(memory.block)
                && block.best.is_none()
            {
                offer(block, search, *tensor, *how);
            }
        }
    }
    let joined = Joined::of(&heads, &saved, search);
    let (mut groups, is_whole) = collect(&mut paths, search, &blocks, limits);
    groups.sort_by(|one, other| (other.bytes, &one.text).cmp(&(one.bytes, &other.text)));
    result.bytes = groups.iter().map(|group| group.bytes).sum();
    if search.is_cut || !is_whole {
        result.cut = Some(Cut::Time);
    }
    result.cut = heap.cut.or(result.cut);
    // A tensor's C++ object refers to its Python object while it has other references.
    let tensors = blocks.all.iter().flat_map(|block| blocks.tensors(block));
    let counted = tensors.filter(|(_, memory)| memory.references > 1);
    let counted: FxHashSet<Id> = counted.map(|(tensor, _)| *tensor).collect();
    let mut unused = Unused::new(kept, search);
    let mut largest = Vec::new();
    for (at, group) in groups.iter().take(HOLDERS).enumerate() {
        let frees = match at < CHECKED && result.cut.is_none() {
            true => frees(group, kept, (&blocks, &counted), limits),
            false => None,
        };
        let is_shared = frees.is_some_and(|frees| frees < group.bytes / 2);
        let also = match group.kind {
            _ if !group.is_own || limits.is_over() => None,
            Kind::Graph => joined.other(group, &mut paths, search, &blocks),
            _ if is_shared => shared::other(group, (&mut paths, kept, search), &blocks),
            _ => None,
        };
        let covers = blocks.of(&group.blocks);
        let covers = covers.map(|block| covered(block, blocks.tensors(block), search));
        let covers: u64 = covers.sum();
        let is_double = |block: &&Block| {
            let mut tensors = blocks.tensors(block).iter();
            tensors.len() > 0 && tensors.all(|(_, memory)| memory.is_double)
        };
        let double = blocks.of(&group.blocks).filter(is_double);
        result.holders.push(Holder {
            also,
            unused: !limits.is_over() && unused.all(group, &mut paths, &blocks),
            double: double.map(|block| block.bytes).sum(),
            covers: (covers < group.bytes - group.bytes / 8).then_some(covers),
            kind: group.kind,
            text: with_numbers(&group.text, &group.numbers),
            place: group.place(),
            is_own: group.is_own,
            bytes: group.bytes,
            blocks: group.blocks.len() as u64,
            frees,
        });
        largest.extend(group.blocks.iter().map(|block| (*block, at as u32)));
    }
    let block = |number: &u32| blocks.all.get(*number as usize);
    let key = |(number, _): &(u32, u32)| {
        (
            block(number).map(|of| core::cmp::Reverse(of.bytes)),
            *number,
        )
    };
    if largest.len() > BLOCKS {
        largest.select_nth_unstable_by_key(BLOCKS, key);
        largest.truncate(BLOCKS);
    }
    largest.sort_unstable_by_key(key);
    let of = |(number, at): (u32, u32)| Some((block(&number)?.address, at));
    result.blocks = largest.into_iter().filter_map(of).collect();
    result
}

/// The bytes of a block that its tensors are; all if something else refers to it.
fn covered(block: &Block, tensors: &[(Id, Memory)], search: &Search) -> u64 {
    let is_named = |(tensor, _): &&(Id, Memory)| !is_native(search, *tensor);
    let named = tensors.iter().filter(is_named).count();
    // C++ code keeps the tensor of which others are views: each has a reference, and the object of newer forms.
    let is_known = |of: &(Id, Memory)| match is_named(&of) {
        true => of.1.sharers as usize == tensors.len(),
        false => of.1.references as usize <= named + 1,
    };
    if named == 0 || !tensors.iter().all(is_known) {
        return block.bytes;
    }
    let covers = tensors.iter().filter(is_named).map(|(_, of)| of.covers);
    block.bytes.min(covers.sum())
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
    (blocks, counted): (&Blocks, &FxHashSet<Id>),
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
    let stays = kept.without(releases, group.root, (counted, limits))?;
    let mut freed = 0u64;
    for block in blocks.of(&group.blocks) {
        let tensors = blocks.tensors(block);
        let stays = |number: &Id| stays.get(*number as usize).copied().unwrap_or(true);
        if tensors.is_empty() || tensors.iter().any(|(number, _)| stays(number)) {
            continue;
        }
        // What else refers to it is not known: C++ code, or an object for its storage.
        let is_shared =
            |memory: &Memory| memory.references != 1 || memory.sharers as usize != tensors.len();
        if tensors.iter().any(|(_, memory)| is_shared(memory)) {
            return None;
        }
        freed = freed.saturating_add(block.bytes);
    }
    Some(freed)
}
