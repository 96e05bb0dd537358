//! Whose lines stacks are: read back from the capture's own names, which this process does not keep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpumem_capture::{Definition, Level, Reader, Record, StackId};
use gpumem_replay::attribution::{Owner, owner};
use gpumem_replay::{At, Replay, StackKey};

/// The names of this process's capture so far, of the stacks that are wanted.
pub(super) struct Lines(Replay);

/// Reads them; `None` where the capture cannot be read: it may have been deleted. A long run has more
/// stacks than this process should hold, so only those of `wanted` are kept, and of what made them.
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
    /// Whose the stacks of an allocation are.
    pub(super) fn owner(&self, stacks: (StackId, StackId), level: Level) -> Owner {
        let key = StackKey {
            py: stacks.0,
            native: stacks.1,
            ..StackKey::default()
        };
        owner(&self.0.names, key, level)
    }

    /// An owner as tables show it, with its function.
    pub(super) fn label(&self, owner: &Owner) -> String {
        let label = owner.label(&self.0.names);
        match owner.function() {
            "" => label,
            function => format!("{label}  {function}"),
        }
    }
}
