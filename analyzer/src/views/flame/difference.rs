//! Stacks before and after a change.

use std::collections::BTreeMap;

use super::frame::FlameHeld;
use super::{FlameStack, Folded};

/// Memory of stacks before and after a change: the input of differential flamegraphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differential {
    /// By stack: before, after.
    pub stacks: BTreeMap<FlameStack, (FlameHeld, FlameHeld)>,
}

impl Differential {
    /// Compares stacks.
    pub fn of(before: &Folded, after: &Folded) -> Self {
        let mut stacks: BTreeMap<FlameStack, (FlameHeld, FlameHeld)> = BTreeMap::new();
        // The kept frames are those of `after`, with its lines of source.
        for (stack, held) in &after.stacks {
            stacks.entry(stack.clone()).or_default().1 = *held;
        }
        for (stack, held) in &before.stacks {
            stacks.entry(stack.clone()).or_default().0 = *held;
        }
        Self { stacks }
    }

    /// Bytes of stacks that no longer hold memory, and their number.
    pub fn gone(&self) -> (u64, u64) {
        let gone = self
            .stacks
            .values()
            .filter(|(before, after)| after.bytes == 0 && before.bytes > 0);
        gone.fold((0, 0), |(bytes, stacks), (before, _)| {
            (bytes + before.bytes, stacks + 1)
        })
    }
}
