//! Folded stacks of several captures: their sum and their mean.

use std::cmp::Reverse;

use super::{FlameHeld, FlameStack, Folded};

impl Folded {
    /// Adds the stacks of another capture. Stacks with equal frames are merged.
    pub fn add(&mut self, other: Self) {
        if self.stacks.is_empty() {
            *self = other;
            return;
        }
        for (stack, held) in other.stacks {
            *self.stacks.entry(stack).or_default() += held;
        }
    }

    /// The mean of `of` captures, if these are their sum. Remainders of bytes are added to the stacks with the
    /// largest ones, so that the mean of all stacks is the mean of the sum, rounded down. The mean of blocks is not
    /// computed.
    pub fn mean(&self, of: u64) -> Self {
        let of = of.max(1);
        let mut mean = self.clone();
        for held in mean.stacks.values_mut() {
            *held = FlameHeld {
                bytes: held.bytes / of,
                blocks: 0,
                categories: held.categories.map(|bytes| bytes / of),
            };
        }
        let left = (self.bytes() / of).saturating_sub(mean.bytes());
        let mut rest: Vec<(Reverse<u64>, &FlameStack)> = self
            .stacks
            .iter()
            .map(|(stack, held)| (Reverse(held.bytes % of), stack))
            .collect();
        rest.sort_unstable();
        for (_, stack) in rest.into_iter().take(left as usize) {
            if let Some(held) = mean.stacks.get_mut(stack) {
                held.bytes += 1;
            }
        }
        mean.stacks.retain(|_, held| held.bytes > 0);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::FrameKind;
    use crate::views::SharedFrame;

    fn folded(stacks: &[(&str, u64)]) -> Folded {
        let stacks = stacks.iter().map(|(stack, bytes)| {
            let frames = stack.split(';');
            let frames = frames.map(|label| SharedFrame::new(label, FrameKind::Python, ""));
            let held = FlameHeld {
                bytes: *bytes,
                ..FlameHeld::default()
            };
            (frames.collect(), held)
        });
        Folded {
            stacks: stacks.collect(),
        }
    }

    #[test]
    fn stacks_of_the_same_names_are_one() {
        let mut sum = Folded::default();
        for of in [
            folded(&[("a;b", 4), ("a", 1)]),
            folded(&[("a;b", 7), ("c", 2)]),
        ] {
            sum.add(of);
        }
        assert_eq!(sum, folded(&[("a", 1), ("a;b", 11), ("c", 2)]));
    }

    #[test]
    fn the_mean_of_all_is_the_sums() {
        let sum = folded(&[("a", 10), ("b", 11), ("c", 2), ("d", 1)]);
        let mean = sum.mean(3);
        assert_eq!(mean.bytes(), 24 / 3);
        assert_eq!(mean, folded(&[("a", 3), ("b", 4), ("c", 1)]));
        assert_eq!(sum.mean(1), sum);
        assert_eq!(folded(&[("a", 2)]).mean(3), folded(&[]));
    }
}
