//! Stacks before and after.

use std::collections::BTreeMap;

use super::frame::FlameHeld;
use super::{FlameStack, Folded};

/// What stacks hold, before and after: what differential flamegraphs take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differential {
    /// By stack: before, after.
    pub stacks: BTreeMap<FlameStack, (FlameHeld, FlameHeld)>,
}

impl Differential {
    /// What became of what.
    pub fn of(before: &Folded, after: &Folded) -> Self {
        let mut stacks: BTreeMap<FlameStack, (FlameHeld, FlameHeld)> = BTreeMap::new();
        // The frames that stay are those of after, with its lines of source.
        for (stack, held) in &after.stacks {
            stacks.entry(stack.clone()).or_default().1 = *held;
        }
        for (stack, held) in &before.stacks {
            stacks.entry(stack.clone()).or_default().0 = *held;
        }
        Self { stacks }
    }

    /// Bytes of stacks that hold nothing any more, and how many those are.
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
