//! One 64-bit hash over a whole stack: native ones, and what a node of PyTorch's autograd made.

use gpumem_python_frames::hash::{chain, finish, mix};
use gpumem_unwind::Stack;

use super::backward::Backward;

/// What the hashes of stacks in backward begin with: Python stacks begin with 0 or 1.
const BACKWARD: u64 = 0xa076_1d64_78bd_642f;

/// Of a native stack, as long as the modules are those of `epoch`.
#[inline]
pub(super) fn native(taken: &Stack, epoch: u64) -> u64 {
    finish(
        chain(taken.hash, epoch << 1 | u64::from(taken.truncated)),
        taken.len,
    )
}

/// Of what a node of PyTorch's autograd made: see [`Backward`].
#[inline]
pub(super) fn backward(made: &Backward) -> u64 {
    let stacks = u64::from(made.forward.0) << 32 | u64::from(made.own.0);
    let rest = u64::from(made.newer) << 1 | u64::from(made.lost);
    let hash = chain(BACKWARD, mix(stacks, made.class as u64));
    finish(chain(hash, mix(rest, 0)), 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumem_capture::StackId;
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
        let mut add = |made: Backward| assert!(hashes.insert(backward(&made)), "{made:?}");
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
