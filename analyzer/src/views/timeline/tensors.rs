//! The categories of a device's tensors at the points of its buckets.
//!
//! The category of a block is known at its end. Its bytes are then added to all points at which it was live. These
//! are consecutive, so it is enough to store the first one and the one after the last.

use gpumem_capture::Seq;

use crate::replay::Category;

/// The number of categories.
pub(super) const CATEGORIES: usize = Category::ALL.len();

/// Bytes by category, in the order of [`Category::ALL`].
pub(super) type ByCategory = [u64; CATEGORIES];

/// The index of a category in them.
pub(super) fn index_of(category: Category) -> usize {
    let index = Category::ALL.iter().position(|of| *of == category);
    index.unwrap_or(CATEGORIES - 1)
}

/// A tensor's block that is no longer live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The event that made it.
    pub made: Seq,
    /// Its category.
    pub category: Category,
    /// Its bytes.
    pub bytes: u64,
}

/// The differences between consecutive points, modulo 2^64.
#[derive(Debug, Default)]
pub(super) struct Differences(Vec<ByCategory>);

impl Differences {
    /// A block was live at the points from `from` up to but not including `to`.
    pub fn add(&mut self, from: usize, to: usize, block: Ended) {
        if from >= to {
            return;
        }
        if self.0.len() <= to {
            self.0.resize(to + 1, [0; CATEGORIES]);
        }
        let category = index_of(block.category);
        let mut change = |point: usize, bytes: u64| {
            if let Some(of) = self.0.get_mut(point) {
                of[category] = of[category].wrapping_add(bytes);
            }
        };
        change(from, block.bytes);
        change(to, block.bytes.wrapping_neg());
    }

    /// Adds the sums of the differences to the points, and resets the differences.
    pub fn settle<'a>(&mut self, points: impl Iterator<Item = &'a mut ByCategory>) {
        let mut sum = [0_u64; CATEGORIES];
        for (point, more) in points.zip(std::mem::take(&mut self.0)) {
            for (category, more) in more.into_iter().enumerate() {
                sum[category] = sum[category].wrapping_add(more);
                let of = &mut point[category];
                *of = of.wrapping_add(sum[category]);
            }
        }
    }
}

/// The categories, adjusted so that they sum to `tensors`: bytes of unknown blocks count as other. Only an inexact
/// capture has less than the sum of its blocks.
pub(super) fn summing_to(tensors: u64, mut by_category: ByCategory) -> ByCategory {
    let mut left = tensors;
    for bytes in &mut by_category {
        *bytes = left.min(*bytes);
        left -= *bytes;
    }
    by_category[index_of(Category::Other)] += left;
    by_category
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_at_the_points_that_it_was_live_at() {
        let mut differences = Differences::default();
        let block = |category, bytes| Ended {
            made: Seq(0),
            category,
            bytes,
        };
        differences.add(1, 3, block(Category::Gradient, 5));
        differences.add(0, 4, block(Category::Gradient, 2));
        differences.add(2, 2, block(Category::Gradient, 9));
        let mut points = [ByCategory::default(); 4];
        differences.settle(points.iter_mut());
        differences.add(3, 4, block(Category::Other, 1));
        differences.settle(points.iter_mut());
        let of = |category| points.map(|point| point[index_of(category)]);
        assert_eq!(of(Category::Gradient), [2, 7, 7, 2]);
        assert_eq!(of(Category::Other), [0, 0, 0, 1]);
    }

    #[test]
    fn categories_sum_to_the_level() {
        let mut known = [0; CATEGORIES];
        known[0] = 7;
        known[1] = 2;
        for tensors in [0, 3, 7, 8, 9, 20] {
            let sums: u64 = summing_to(tensors, known).iter().sum();
            assert_eq!(sums, tensors);
        }
        assert_eq!(summing_to(20, known)[CATEGORIES - 1], 11);
    }
}
