//! Which other container has the tensors of a group.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::blocks::Blocks;
use crate::collect::Group;
use crate::freed::Kept;
use crate::heap::Id;
use crate::path::Paths;
use crate::search::Search;
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
        let Some(path) = paths.path(object) else {
            continue;
        };
        let root = search.roots.get(path.root);
        if !root.is_some_and(|root| root.is_own) || path.parts.is_empty() {
            continue;
        }
        // A tuple or an object with the tensor is an element of what keeps it.
        let end = path
            .parts
            .iter()
            .rposition(|part| !matches!(part, Part::Index(_)));
        let parts = path.parts.get(..=end?).unwrap_or_default();
        let mut numbers = Vec::new();
        let text = text(parts, &mut numbers);
        let numbers: Vec<_> = numbers.iter().map(|number| (*number, *number)).collect();
        let text = with_numbers(&text, &numbers);
        if !text.is_empty() && !group.text.starts_with(&text) {
            *known.entry((text, paths.place(path.root))).or_default() += count;
        }
    }
    let ((text, place), count) = known.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count >= tensors.len()).then(|| format!("{text}, {place}"))
}
