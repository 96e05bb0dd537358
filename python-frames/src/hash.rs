//! 64-bit hashes over stacks. Among a million stacks, the probability that two different ones collide is 3·10⁻⁸.
//!
//! [`mix`], [`chain`] and [`finish`] are the building blocks, which callers can use for hashes of other data.

use crate::frame::{Frame, ModuleObject};

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xc2b2_ae3d_27d4_eb4f;
const THIRD: u64 = 0xd6e8_feb8_6659_fd93;

/// Mixes two words to one, for [`chain`].
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ FIRST) * u128::from(b ^ SECOND);
    (product as u64) ^ (product >> 64) as u64
}

/// Appends `value`, which has been mixed already, to `hash`: the order matters.
#[inline]
pub fn chain(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(THIRD)
}

/// The hash of a chain of `len` values. Never 0: tables may use that for an empty place.
#[inline]
pub fn finish(hash: u64, len: usize) -> u64 {
    mix(hash, len as u64).max(1)
}

/// The hash of a Python stack, the newest frame first.
#[inline]
pub fn stack(frames: &[Frame], truncated: bool) -> u64 {
    let mut hash = u64::from(truncated);
    for frame in frames.iter().rev() {
        hash = chain(hash, frame_value(frame));
    }
    finish(hash, frames.len())
}

/// The value of a frame for [`chain`]: it does not depend on the frames around it.
#[inline]
pub(crate) fn frame_value(frame: &Frame) -> u64 {
    let word = u64::from(frame.position.bits());
    let value = mix(frame.code ^ word << 32 ^ word >> 15, frame.identity);
    match module(frame.module) {
        0 => value,
        module => chain(module, value),
    }
}

/// The hash of a module object; 0 only without a module.
#[inline]
pub fn module(object: ModuleObject) -> u64 {
    match object.address {
        0 => 0,
        address => mix(address, object.kind).max(1),
    }
}

/// The hash of the code object that a frame runs.
pub fn code(frame: &Frame) -> u64 {
    finish(mix(frame.code, frame.identity), 1)
}

/// The hash of a stack before its length is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackHash {
    pub(crate) chained: u64,
    pub(crate) len: usize,
}

impl StackHash {
    /// The same result as [`stack`].
    #[inline]
    pub fn finish(self) -> u64 {
        finish(self.chained, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Position;
    use std::collections::HashSet;

    fn frame(code: u64, identity: u64, offset: i32) -> Frame {
        Frame {
            code,
            identity,
            position: Position::new(offset, false),
            module: ModuleObject::NONE,
        }
    }

    #[test]
    fn every_part_counts() {
        let frames = [frame(0x7000, 5, 40), frame(0x7100, 6, 60)];
        let mut hashes = HashSet::from([stack(&frames, false), stack(&frames, true)]);
        let mut add = |change: &dyn Fn(&mut Vec<Frame>)| {
            let mut changed = frames.to_vec();
            change(&mut changed);
            assert!(hashes.insert(stack(&changed, false)), "{changed:?}");
        };
        add(&|s| s[0].code += 16);
        add(&|s| s[0].identity += 1);
        add(&|s| s[0].position = Position::new(42, false));
        add(&|s| s[1].position = Position::new(60, true));
        add(&|s| {
            s[1].module = ModuleObject {
                address: 0x9000,
                kind: 0x9100,
            }
        });
        add(&|s| {
            s[1].module = ModuleObject {
                address: 0x9010,
                kind: 0x9100,
            }
        });
        add(&|s| {
            s[1].module = ModuleObject {
                address: 0x9000,
                kind: 0x9110,
            }
        });
        add(&|s| {
            s[0].module = ModuleObject {
                address: 0x9000,
                kind: 0x9100,
            }
        });
        add(&|s| s.reverse());
        add(&|s| s.truncate(1));
        add(&|s| s.push(frame(0, 0, 0)));
        add(&|s| s.clear());
        let of_code = |at, identity, offset| code(&frame(at, identity, offset));
        assert_ne!(of_code(0x7000, 5, 40), of_code(0x7000, 6, 40));
        assert_ne!(of_code(0x7000, 5, 40), of_code(0x7008, 5, 40));
        assert_eq!(of_code(0x7000, 5, 40), of_code(0x7000, 5, 60));
    }

    #[test]
    fn none_is_no_module() {
        assert_eq!(module(ModuleObject::NONE), 0);
        let object = ModuleObject {
            address: 0x7000,
            kind: 0x8000,
        };
        assert_ne!(module(object), 0);
    }

    #[test]
    fn a_million_similar_stacks_differ() {
        let mut high_bits = HashSet::new();
        let mut hashes = HashSet::new();
        for i in 0..1_000_000u64 {
            let frames = [
                frame(0x7f00_0000_1000, 9, 20),
                frame(
                    0x7f00_0000_0000 + i / 1000 * 64,
                    i / 1000,
                    2 * (i % 1000) as i32,
                ),
                frame(0x7f00_0000_2000, 1, 30),
            ];
            let hash = stack(&frames, false);
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
