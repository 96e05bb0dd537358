//! Which other container has the tensors of a group, or tensors with the same graphs.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::blocks::{Blocks, How};
use crate::collect::Group;
use crate::freed::Kept;
use crate::heap::Id;
use crate::path::Paths;
use crate::search::{From, Search};
use crate::tensors::Saved;
use crate::text::{Part, text, with_numbers};

/// The container of the program, other than the group's, that refers to most of its tensors: `second, global of __main__`.
/// None if no other has half of them.
pub(crate) fn other(
    group: &Group,
    (paths, kept, search): (&mut Paths<'_>, &Kept<'_>, &Search),
    blocks: &Blocks,
) -> Option<String> {
    let tensors = blocks
        .of(&group.blocks)
        .flat_map(|block| blocks.tensors(block));
    let tensors: FxHashSet<Id> = tensors.map(|(tensor, _)| *tensor).collect();
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for object in 0..kept.heap.objects.len() as Id {
        let references = kept.heap.references(object).iter();
        let count = references.filter(|to| tensors.contains(to)).count();
        if count == 0 || group.common.contains(&object) || tensors.contains(&object) {
            continue;
        }
        if let Some((text, place)) = container(object, paths, search)
            && !group.text.starts_with(&text)
        {
            *known.entry((text, place)).or_default() += count;
        }
    }
    let ((text, place), count) = known.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count >= tensors.len()).then(|| format!("{text}, {place}"))
}

/// The text and the place of a container of the program.
fn container(object: Id, paths: &mut Paths<'_>, search: &Search) -> Option<(String, String)> {
    let path = paths.path(object)?;
    let root = search.roots.get(path.root);
    let is_own = root.is_some_and(|root| root.is_own);
    // A tuple or an object with the tensor is an element of what keeps it.
    let is_name = |part: &Part| !matches!(part, Part::Index(_));
    let end = path.parts.iter().rposition(is_name).filter(|_| is_own)?;
    let parts = path.parts.get(..=end).unwrap_or_default();
    let mut numbers = Vec::new();
    let text = text(parts, &mut numbers);
    let numbers: Vec<_> = numbers.iter().map(|number| (*number, *number)).collect();
    let text = with_numbers(&text, &numbers);
    (!text.is_empty()).then(|| (text, paths.place(path.root)))
}

/// Containers whose tensors have parts of the same graphs. A variable counts as its tensor.
pub(crate) struct Joined {
    /// How many tensors of one container have a graph that a tensor of another one has, too.
    pairs: FxHashMap<(Id, Id), usize>,
}

/// The container of a tensor.
fn of_tensor(search: &Search, tensor: Id) -> Id {
    match search.from(tensor) {
        From::Object(object) if !search.is_variable(tensor) => object,
        _ => tensor,
    }
}

impl Joined {
    /// Those of graphs that hang on `heads`. Variables do not count with containers: they soon have another value.
    pub(crate) fn of(heads: &[(Id, How)], saved: &[Saved], search: &Search) -> Self {
        let head = |at: usize| heads.get(at).filter(|(_, how)| *how == How::Graph);
        let mut pairs = FxHashMap::default();
        for (at, saved) in saved.iter().enumerate() {
            let of = head(at).zip(saved.joins.and_then(head));
            let Some(((one, _), (other, _))) = of else {
                continue;
            };
            let (a, b) = (of_tensor(search, *one), of_tensor(search, *other));
            if a != b && search.is_variable(*one) == search.is_variable(*other) {
                *pairs.entry((a, b)).or_default() += 1;
                *pairs.entry((b, a)).or_default() += 1;
            }
        }
        Self { pairs }
    }

    /// The container with parts of most graphs of a group.
    pub(crate) fn other(
        &self,
        group: &Group,
        paths: &mut Paths<'_>,
        search: &Search,
        blocks: &Blocks,
    ) -> Option<String> {
        let heads = blocks.of(&group.blocks).filter_map(|block| block.best);
        let heads: FxHashSet<Id> = heads.map(|best| best.tensor).collect();
        let containers: FxHashSet<Id> = heads.iter().map(|of| of_tensor(search, *of)).collect();
        let mut others: BTreeMap<Id, usize> = BTreeMap::new();
        for ((one, other), count) in &self.pairs {
            if containers.contains(one) && !containers.contains(other) {
                *others.entry(*other).or_default() += count;
            }
        }
        let (object, count) = others.into_iter().max_by_key(|(_, count)| *count)?;
        let (text, place) = container(object, paths, search)?;
        (2 * count >= heads.len() && !group.text.starts_with(&text))
            .then(|| format!("{text}, {place}"))
    }
}
