//! What a call has ended that has now returned: it has ended, or is taken back.

use crate::state::origin::Origin;
use crate::state::work::{Pending, Then, Undo, Work};
use crate::tracker::Tracker;

impl Tracker {
    /// A call has returned: what it ended has ended, or is taken back.
    pub fn settle(&mut self, pending: Pending, succeeded: bool, origin: Origin) {
        let Some(mut work) = self.pending.take(&pending) else {
            return;
        };
        if !succeeded {
            self.undo(&mut work, origin);
            work.then = None;
        }
        match work.then.take() {
            Some(Then::UnknownFree { key, flags }) => self.unknown_free(key, flags, origin),
            Some(Then::EndContext(ending)) => self.context_ended(ending, origin),
            Some(Then::Unload(library)) => self.code.unloaded(library),
            Some(Then::Launch { nodes, caller }) => self.launched(&nodes, caller, origin),
            None => {}
        }
        self.pending.done(work);
    }

    fn undo(&mut self, work: &mut Work, origin: Origin) {
        let origin = origin.without_stacks();
        while let Some(undo) = work.undo.pop() {
            match undo {
                Undo::Block { key, block, seq } => self.cancel(key, block, seq, origin),
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
