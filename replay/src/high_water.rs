//! Bytes by stack at the peak, in one pass and with memory for the stacks only.
//!
//! A new peak only advances a clock. A stack's figure at the peak is copied from its live figure when the stack next
//! changes, or at the end: a stack whose mark is older than the clock has not changed since the peak. (Memray's
//! high-water-mark aggregator works in the same way.)

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

use crate::serialize::serialize;

/// Bytes, and their number of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Figure {
    /// One block.
    pub fn block(bytes: u64) -> Self {
        Self { bytes, blocks: 1 }
    }
}

impl SubAssign for Figure {
    fn sub_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.blocks = self.blocks.saturating_sub(other.blocks);
    }
}

impl AddAssign for Figure {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }
}

impl Sum for Figure {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, of| {
            sum += of;
            sum
        })
    }
}

/// Counts peaks: [`Clock::tick`] is called at each new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock(u64);

impl Clock {
    /// A new peak, now.
    pub fn tick(&mut self) {
        self.0 += 1;
    }
}

/// The peaks for which a stack's figures are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Peak of the stack's own level.
    pub level: Clock,
    /// Peak of the device: see [`crate::DevicePeak`].
    pub device: Clock,
}

/// A stack's totals over the whole capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Its allocations.
    pub allocations: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The number of allocations that were freed.
    pub frees: u64,
}

impl AddAssign for Total {
    fn add_assign(&mut self, other: Self) {
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.frees = self.frees.saturating_add(other.frees);
    }
}

serialize! {
    Figure { bytes, blocks }
    Clock { 0 }
    Mark { figure, clock }
    Total { allocations, bytes, frees }
    HighWater { live, level, device, total }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    figure: Figure,
    clock: Clock,
}

impl Mark {
    fn settle(&mut self, live: Figure, now: Clock) {
        if self.clock < now {
            *self = Self {
                figure: live,
                clock: now,
            };
        }
    }
}

/// The figures of one stack: live, and at the peaks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighWater {
    live: Figure,
    level: Mark,
    device: Mark,
    total: Total,
}

impl HighWater {
    fn settle(&mut self, now: Clocks) {
        self.level.settle(self.live, now.level);
        self.device.settle(self.live, now.device);
    }

    /// A block of this stack became live. `now` is before any peak that this makes.
    pub fn add(&mut self, block: Figure, now: Clocks) {
        self.add_live(block, now);
        self.total.allocations = self.total.allocations.saturating_add(block.blocks);
        self.total.bytes = self.total.bytes.saturating_add(block.bytes);
    }

    /// A free was cancelled, or a block of another stack moved here.
    pub fn add_live(&mut self, block: Figure, now: Clocks) {
        self.settle(now);
        self.live += block;
    }

    /// A free that was counted did not happen.
    pub fn cancel_free(&mut self) {
        self.total.frees = self.total.frees.saturating_sub(1);
    }

    /// A block of this stack is no longer live.
    pub fn remove(&mut self, block: Figure, now: Clocks) {
        self.remove_live(block, now);
        self.total.frees = self.total.frees.saturating_add(block.blocks);
    }

    /// A block of this stack moved to another stack.
    pub fn remove_live(&mut self, block: Figure, now: Clocks) {
        self.settle(now);
        self.live -= block;
    }

    /// A reservation grew at its newest part, which this stack made.
    pub fn grow(&mut self, bytes: u64, now: Clocks) {
        self.settle(now);
        self.live.bytes = self.live.bytes.saturating_add(bytes);
        self.total.bytes = self.total.bytes.saturating_add(bytes);
    }

    /// A reservation lost a part of the growth that this stack made.
    pub fn shrink(&mut self, bytes: u64, now: Clocks) {
        self.settle(now);
        self.live.bytes = self.live.bytes.saturating_sub(bytes);
    }

    /// Its totals.
    pub fn total(&self) -> Total {
        self.total
    }

    /// Moves a live block to another stack, as if it had been that stack's since its allocation. `at_level`,
    /// `at_device`: whether it was live at those peaks.
    pub(crate) fn give(
        &mut self,
        to: &mut Self,
        block: Figure,
        (at_level, at_device): (bool, bool),
        now: Clocks,
    ) {
        self.settle(now);
        to.settle(now);
        let give = |from: &mut Figure, to: &mut Figure| {
            *from -= block;
            *to += block;
        };
        give(&mut self.live, &mut to.live);
        if at_level {
            give(&mut self.level.figure, &mut to.level.figure);
        }
        if at_device {
            give(&mut self.device.figure, &mut to.device.figure);
        }
        // A block allocated before figures were counted is not among its allocations.
        if self.total.allocations >= block.blocks {
            self.total.allocations -= block.blocks;
            self.total.bytes = self.total.bytes.saturating_sub(block.bytes);
            to.total.allocations = to.total.allocations.saturating_add(block.blocks);
            to.total.bytes = to.total.bytes.saturating_add(block.bytes);
        }
    }

    /// Whether it never held anything.
    pub(crate) fn is_nothing(&self) -> bool {
        let nothing = Figure::default();
        [self.live, self.level.figure, self.device.figure]
            .iter()
            .all(|it| *it == nothing)
            && self.total == Total::default()
    }

    /// Adds another stack's figures.
    pub fn merge(&mut self, mut other: Self, now: Clocks) {
        self.settle(now);
        other.settle(now);
        self.live += other.live;
        self.level.figure += other.level.figure;
        self.device.figure += other.device.figure;
        self.total += other.total;
    }

    /// What is live now.
    pub fn live(&self) -> Figure {
        self.live
    }

    /// What was live at the level's last peak.
    pub fn at_level_peak(&self, now: Clocks) -> Figure {
        let mut mark = self.level;
        mark.settle(self.live, now.level);
        mark.figure
    }

    /// What was live at the device's last peak.
    pub fn at_device_peak(&self, now: Clocks) -> Figure {
        let mut mark = self.device;
        mark.settle(self.live, now.device);
        mark.figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a pseudorandom program on 5 stacks and compares with copies taken at each peak.
    #[test]
    fn equals_a_copy_of_all_stacks_taken_at_the_peak() {
        let mut seed = 0x9e37_79b9_u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        let mut by_stack = [HighWater::default(); 5];
        let mut blocks: Vec<(usize, u64)> = Vec::new();
        let (mut clocks, mut live, mut peak) = (Clocks::default(), 0, 0);
        let mut copy = [Figure::default(); 5];
        for step in 0..3000 {
            // Grows for a while, then shrinks, and so on: several peaks with changes after each.
            let growing = step / 300 % 2 == 0;
            if blocks.is_empty() || random(10) < if growing { 7 } else { 3 } {
                let (stack, bytes) = (random(5) as usize, u64::from(random(1000)));
                blocks.push((stack, bytes));
                by_stack[stack].add(Figure::block(bytes), clocks);
                live += bytes;
            } else {
                let (stack, bytes) = blocks.swap_remove(random(blocks.len() as u32) as usize);
                by_stack[stack].remove(Figure::block(bytes), clocks);
                live -= bytes;
            }
            if live > peak {
                peak = live;
                clocks.level.tick();
                copy = by_stack.map(|high_water| high_water.live());
            }
        }
        assert_eq!(
            by_stack.map(|high_water| high_water.at_level_peak(clocks)),
            copy
        );
        assert_eq!(copy.iter().map(|figure| figure.bytes).sum::<u64>(), peak);
        assert_ne!(by_stack.map(|high_water| high_water.live()), copy);
    }

    #[test]
    fn the_two_peaks_are_kept_apart() {
        let (mut high_water, mut clocks) = (HighWater::default(), Clocks::default());
        high_water.add(Figure::block(10), clocks);
        clocks.level.tick();
        high_water.remove(Figure::block(10), clocks);
        high_water.add(Figure::block(4), clocks);
        clocks.device.tick();
        high_water.remove(Figure::block(4), clocks);
        assert_eq!(
            high_water.at_level_peak(clocks),
            Figure {
                bytes: 10,
                blocks: 1
            }
        );
        assert_eq!(
            high_water.at_device_peak(clocks),
            Figure {
                bytes: 4,
                blocks: 1
            }
        );
        assert_eq!(high_water.live(), Figure::default());
    }
}
