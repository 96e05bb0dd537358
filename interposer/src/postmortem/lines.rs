//! Whose lines stacks are: read back from the capture's own names, which this process does not keep.

use std::path::Path;

use gpumem_capture::{Level, Reader, Record, StackId};
use gpumem_replay::attribution::{Owner, owner};
use gpumem_replay::{Moment, Replay, StackKey};

/// The names of this process's capture so far.
pub(super) struct Lines(Replay);

/// Reads them; `None` where the capture cannot be read: it may have been deleted.
pub(super) fn read(path: &Path) -> Option<Lines> {
    let mut reader = Reader::open(path).ok()?;
    let mut replay = Replay::new(Moment::End);
    let names = &mut |record: Record<'_>| {
        let _ = replay.feed(record);
    };
    reader.read_names(names).ok()?;
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
