//! Maps stacks to lines, with the names from the capture, which this process does not keep in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpumem_capture::{Definition, Level, Reader, Record, StackId};
use gpumem_replay::attribution::{Owner, owner};
use gpumem_replay::{At, Replay, StackKey};

/// The names in this process's capture so far, for the requested stacks.
pub(super) struct Lines(Replay);

/// Reads them; `None` if the capture cannot be read, for example because it was deleted. A long run
/// has more stacks than this process should hold in memory, so only those of `wanted` are kept, and
/// their forward stacks.
pub(super) fn read(path: &Path, mut wanted: BTreeSet<StackId>) -> Option<Lines> {
    let mut reader = Reader::open(path).ok()?;
    let mut backwards: BTreeMap<StackId, [StackId; 2]> = BTreeMap::new();
    reader
        .read_names(&mut |record: Record<'_>| {
            if let Record::Definition(
                _,
                Definition::Backward {
                    id, forward, own, ..
                },
            ) = record
            {
                backwards.insert(*id, [*forward, *own]);
            }
        })
        .ok()?;
    let mut open: Vec<StackId> = wanted.iter().copied().collect();
    while let Some(id) = open.pop() {
        let made = backwards.get(&id).into_iter().flatten();
        open.extend(made.filter(|id| wanted.insert(**id)));
    }
    let mut replay = Replay::new(At::End);
    reader
        .read_names(&mut |record: Record<'_>| {
            let is_wanted = match record {
                Record::Definition(_, definition) => match definition {
                    Definition::PyStack { id, .. }
                    | Definition::NativeStack { id, .. }
                    | Definition::Backward { id, .. } => wanted.contains(id),
                    Definition::Hook { .. } | Definition::Range { .. } => false,
                    _ => true,
                },
                _ => true,
            };
            if is_wanted {
                let _ = replay.feed(record);
            }
        })
        .ok()?;
    Some(Lines(replay))
}

impl Lines {
    /// The owner of an allocation's stacks.
    pub(super) fn owner(&self, stacks: (StackId, StackId), level: Level) -> Owner {
        let key = StackKey {
            py: stacks.0,
            native: stacks.1,
            ..StackKey::default()
        };
        owner(&self.0.names, key, level)
    }

    /// The label of an owner in tables, with its function.
    pub(super) fn label(&self, owner: &Owner) -> String {
        let label = owner.label(&self.0.names);
        match owner.function() {
            "" => label,
            function => format!("{label}  {function}"),
        }
    }
}
