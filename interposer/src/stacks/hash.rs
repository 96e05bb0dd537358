//! One 64-bit hash over a whole stack.
//!
//! Two different stacks among a million share a hash with a probability of 3·10⁻⁸.

use gpumem_unwind::Taken;

use crate::python::{Frame, Hashed};

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xc2b2_ae3d_27d4_eb4f;
const THIRD: u64 = 0xd6e8_feb8_6659_fd93;
/// What the hashes of stacks in backward begin with: Python stacks begin with 0 or 1.
const BACKWARD: u64 = 0xa076_1d64_78bd_642f;

/// The 128-bit product of the two, its halves folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Chains `value`, which has been mixed already, to `hash`: the order matters.
#[inline]
fn chain(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(THIRD)
}

/// 0 is what an empty place in a table holds.
#[inline]
fn finish(hash: u64, len: usize) -> u64 {
    fold(hash ^ FIRST, len as u64 ^ SECOND).max(1)
}

/// Of a Python stack, the newest frame first.
#[inline]
pub(crate) fn python(frames: &[Frame], truncated: bool) -> u64 {
    let mut hash = u64::from(truncated);
    for frame in frames.iter().rev() {
        hash = with_newer(hash, mixed(frame));
    }
    finish(hash, frames.len())
}

/// What a frame is to [`with_newer`]: it does not depend on the frames around it.
#[inline]
pub(crate) fn mixed(frame: &Frame) -> u64 {
    let place = frame.code ^ u64::from(frame.word) << 32 ^ u64::from(frame.word) >> 15;
    fold(place ^ FIRST, frame.identity ^ SECOND)
}

/// The hash of a Python stack with one frame more, a newer one; that of none is 0.
#[inline]
pub(crate) fn with_newer(hash: u64, mixed: u64) -> u64 {
    chain(hash, mixed)
}

/// The same as [`python`], of a whole stack.
#[inline]
pub(crate) fn looked(looked: Hashed) -> u64 {
    finish(looked.hash, looked.len)
}

/// Of a native stack, as long as the modules are those of `epoch`.
#[inline]
pub(super) fn native(taken: &Taken, epoch: u64) -> u64 {
    finish(
        chain(taken.hash, epoch << 1 | u64::from(taken.truncated)),
        taken.len,
    )
}

/// Of what a node of PyTorch's autograd made: see [`super::Backward`].
#[inline]
pub(super) fn backward(made: &super::Backward) -> u64 {
    let stacks = u64::from(made.forward.0) << 32 | u64::from(made.own.0);
    let rest = u64::from(made.newer) << 1 | u64::from(made.lost);
    let hash = chain(BACKWARD, fold(stacks ^ FIRST, made.class as u64 ^ SECOND));
    finish(chain(hash, fold(rest ^ FIRST, THIRD)), 2)
}

/// Of a code object.
pub(super) fn code(frame: &Frame) -> u64 {
    finish(fold(frame.code ^ FIRST, frame.identity ^ SECOND), 1)
}

#[cfg(test)]
mod tests {
    use super::super::Backward;
    use super::*;
    use gpumem_capture::StackId;
    use std::collections::HashSet;

    fn frame(code: u64, identity: u64, word: u32) -> Frame {
        Frame {
            code,
            identity,
            word,
        }
    }

    #[test]
    fn every_part_counts() {
        let stack = [frame(0x7000, 5, 40), frame(0x7100, 6, 60)];
        let mut hashes = HashSet::from([python(&stack, false), python(&stack, true)]);
        let mut add = |change: &dyn Fn(&mut Vec<Frame>)| {
            let mut changed = stack.to_vec();
            change(&mut changed);
            assert!(hashes.insert(python(&changed, false)), "{changed:?}");
        };
        add(&|s| s[0].code += 16);
        add(&|s| s[0].identity += 1);
        add(&|s| s[0].word += 2);
        add(&|s| s[1].word |= 1 << 31);
        add(&|s| s.reverse());
        add(&|s| s.truncate(1));
        add(&|s| s.push(frame(0, 0, 0)));
        add(&|s| s.clear());
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
        let taken = Taken {
            hash: 7,
            len: 3,
            truncated: false,
        };
        let mut hashes = HashSet::from([native(&taken, 0)]);
        for (other, epoch) in [
            (
                Taken {
                    truncated: true,
                    ..taken
                },
                0,
            ),
            (taken, 1),
            (Taken { hash: 8, ..taken }, 0),
            (Taken { len: 2, ..taken }, 0),
        ] {
            assert!(hashes.insert(native(&other, epoch)));
        }
    }

    #[test]
    fn a_million_similar_stacks_differ() {
        let mut high_bits = HashSet::new();
        let mut hashes = HashSet::new();
        for i in 0..1_000_000u64 {
            let stack = [
                frame(0x7f00_0000_1000, 9, 20),
                frame(
                    0x7f00_0000_0000 + i / 1000 * 64,
                    i / 1000,
                    2 * (i % 1000) as u32,
                ),
                frame(0x7f00_0000_2000, 1, 30),
            ];
            let hash = python(&stack, false);
            assert!(hashes.insert(hash));
            high_bits.insert(hash >> 48);
        }
        assert!(
            high_bits.len() > 65_000,
            "tables use the high bits: {}",
            high_bits.len()
        );
    }
}
