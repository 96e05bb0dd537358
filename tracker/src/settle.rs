//! Completes a call that has returned: ends that were recorded before it become final, or are
//! reverted.

use crate::state::origin::Origin;
use crate::state::pending::{Pending, Then, Undo};
use crate::tracker::Tracker;

impl Tracker {
    /// Records that a call has returned: what it ended becomes final, or is reverted.
    pub fn settle(&mut self, pending: Pending, succeeded: bool, origin: Origin) {
        if !succeeded {
            return self.undo(pending, origin);
        }
        match pending.then {
            Some(Then::UnknownFree { key, flags }) => self.unknown_free(key, flags, origin),
            Some(Then::EndContext(ending)) => self.context_ended(ending, origin),
            Some(Then::Unload(library)) => self.code.unloaded(library),
            Some(Then::Launch { nodes, caller }) => self.launched(&nodes, caller, origin),
            None => {}
        }
    }

    fn undo(&mut self, mut pending: Pending, origin: Origin) {
        let origin = origin.without_stacks();
        while let Some(undo) = pending.pop() {
            match undo {
                Undo::Block { key, block, free } => self.cancel(key, block, free.get(), origin),
                Undo::Alias { ptr, alias } => self.reopen_alias(ptr, alias, origin),
                Undo::Handle { handle, before } => self.restore_handle(handle, before, origin),
                Undo::Mapping { at, mapping } => self.restore_mapping(at, mapping, origin),
                Undo::Address { ptr, bytes } => self.address_reserved(ptr, bytes, 0, origin),
                Undo::Reserved(ended) => self.restore(ended, origin),
                Undo::Context(ending) => self.restore_context(&ending),
                Undo::Pool(pool) => self.spare_pool(pool),
            }
        }
    }
}
