//! Stacks for allocations of an autograd node.

use gpumem_capture::{DefKind, StackId, Writer};
use gpumem_python_frames::hash::{chain, finish, mix};
use gpumem_stacks::Interner;

/// The initial value of hashes of stacks in backward: Python stacks begin with 0 or 1.
const BEGINNING: u64 = 0xa076_1d64_78bd_642f;

/// Maximum bytes of the name of a node's class.
const NODE_NAME: usize = 256;

/// The stack of an allocation of an autograd node while it ran: see `DefKind::BACKWARD` of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backward {
    /// Stack of the forward that created the node, if any.
    pub(crate) forward: StackId,
    /// Whether the forward line that created the node is lost.
    pub(crate) lost: bool,
    /// The thread's own Python stack.
    pub(crate) own: StackId,
    /// The number of its newest frames that are newer than the node's run.
    pub(crate) newer: u32,
    /// Address of the class's vtable.
    pub(crate) class: usize,
}

impl Backward {
    /// Its id, from the ids of Python stacks; none if it could not be defined. `name` writes the name of the node's
    /// class to the given room and returns its length.
    pub(super) fn id(
        &self,
        interner: &Interner,
        writer: &'static Writer,
        name: impl FnOnce(&mut [u8]) -> usize,
    ) -> StackId {
        interner.derived(writer, self.hash(), DefKind::BACKWARD, |id, define| {
            let mut room = [0; NODE_NAME];
            let length_of_name = name(&mut room);
            let name = room.get(..length_of_name).unwrap_or_default();
            define(&[
                &id.to_le_bytes(),
                &u32::from(self.lost).to_le_bytes(),
                &self.forward.0.to_le_bytes(),
                &self.own.0.to_le_bytes(),
                &self.newer.to_le_bytes(),
                &(name.len() as u32).to_le_bytes(),
                name,
            ])
        })
    }

    #[inline]
    fn hash(&self) -> u64 {
        let stacks = u64::from(self.forward.0) << 32 | u64::from(self.own.0);
        let rest = u64::from(self.newer) << 1 | u64::from(self.lost);
        let hash = chain(BEGINNING, mix(stacks, self.class as u64));
        finish(chain(hash, mix(rest, 0)), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_part_counts() {
        let mut hashes = HashSet::new();
        let made = Backward {
            forward: StackId(3),
            lost: false,
            own: StackId(4),
            newer: 5,
            class: 0x7f00_0000_1000,
        };
        let mut add = |made: Backward| assert!(hashes.insert(made.hash()), "{made:?}");
        add(made);
        add(Backward {
            forward: StackId(4),
            own: StackId(3),
            ..made
        });
        add(Backward { lost: true, ..made });
        add(Backward { newer: 6, ..made });
        add(Backward {
            newer: 2,
            lost: true,
            ..made
        });
        add(Backward {
            class: made.class + 8,
            ..made
        });
    }
}
