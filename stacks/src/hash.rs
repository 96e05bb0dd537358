//! A 64-bit hash over a whole native stack. Python stacks are hashed in the crate that walks them.

use gpumem_python_frames::hash::{chain, finish};
use gpumem_unwind::Stack;

/// The hash of a native stack. Valid as long as the modules are those of `epoch`.
#[inline]
pub(super) fn native(taken: &Stack, epoch: u64) -> u64 {
    finish(
        chain(taken.hash, epoch << 1 | u64::from(taken.truncated)),
        taken.len,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_part_counts() {
        let taken = Stack {
            hash: 7,
            len: 3,
            truncated: false,
        };
        let mut hashes = HashSet::from([native(&taken, 0)]);
        for (other, epoch) in [
            (
                Stack {
                    truncated: true,
                    ..taken
                },
                0,
            ),
            (taken, 1),
            (Stack { hash: 8, ..taken }, 0),
            (Stack { len: 2, ..taken }, 0),
        ] {
            assert!(hashes.insert(native(&other, epoch)));
        }
    }
}
