//! Aliases: memory of another process, device or API that this process can access. Its bytes are counted where they
//! were allocated; only opening and closing is recorded here.

use gpumem_capture::{Event, EventKind};

use crate::state::alias::{Alias, Opened};
use crate::state::origin::Origin;
use crate::state::pending::{Pending, Undo};
use crate::tracker::Tracker;

impl Tracker {
    /// Records that foreign memory is accessible at an address, or by a handle if it has no address.
    pub fn opened(&mut self, ptr: u64, alias: Alias, caller: u64, origin: Origin) {
        let opened = self
            .aliases
            .entry(ptr)
            .or_insert(Opened { alias, times: 0 });
        opened.times += 1;
        if opened.times == 1 {
            self.push(Event {
                aux: caller,
                ..alias.event(EventKind::ALIAS, ptr, origin)
            });
        }
    }

    /// Records that an alias is about to be closed; `None` if the alias is unknown.
    pub fn closing(&mut self, ptr: u64, origin: Origin) -> Option<Pending> {
        let mut pending = Pending::default();
        let is_known = self.close_alias(ptr, origin, &mut pending);
        is_known.then_some(pending)
    }

    /// Closes one opening. Returns whether there was one.
    pub(crate) fn close_alias(&mut self, ptr: u64, origin: Origin, pending: &mut Pending) -> bool {
        let Some(opened) = self.aliases.get_mut(&ptr) else {
            return false;
        };
        let alias = opened.alias;
        opened.times -= 1;
        if opened.times == 0 {
            self.aliases.remove(&ptr);
            self.push(alias.event(EventKind::ALIAS_END, ptr, origin.without_stacks()));
        }
        pending.push(Undo::Alias { ptr, alias });
        true
    }

    pub(crate) fn reopen_alias(&mut self, ptr: u64, alias: Alias, origin: Origin) {
        self.opened(ptr, alias, 0, origin);
    }

    /// Ends every alias that `wanted` selects, because its context has ended.
    pub(crate) fn end_aliases(&mut self, wanted: impl Fn(&Alias) -> bool, origin: Origin) {
        let all = self.aliases.iter();
        let gone: Vec<_> = all
            .filter(|(_, opened)| wanted(&opened.alias))
            .map(|(ptr, opened)| (*ptr, opened.alias))
            .collect();
        for (ptr, alias) in gone {
            self.aliases.remove(&ptr);
            self.push(alias.event(EventKind::ALIAS_END, ptr, origin));
        }
    }
}
