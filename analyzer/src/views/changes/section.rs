//! A section of a device: the blocks that were allocated and freed in it, by size.

use gpumem_capture::{Event, EventKind, Nanos, Seq};
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Effect;

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Group {
    /// Size of each block in bytes.
    pub bytes: u64,
    /// Number of blocks of this size.
    pub blocks: u64,
}

/// The current section of a device. A block belongs to the section if its allocation is not older than the section's
/// first event. So blocks need not be kept, only their number by size.
#[derive(Default)]
pub(super) struct Section {
    pub first: Option<(Seq, Nanos)>,
    sizes: Sizes,
    /// Older blocks that became live again because their frees were cancelled.
    back: FxHashSet<u64>,
    pub total: u64,
    pub peak: u64,
    /// Live bytes of wanted blocks, if not all are wanted.
    pub wanted: u64,
}

/// Blocks by size. Most sections have only few sizes, which are searched linearly.
#[derive(Default)]
struct Sizes {
    few: Vec<(u64, Moved)>,
    others: FxHashMap<u64, Moved>,
}

/// How many sizes are searched linearly.
const FEW: usize = 12;

impl Sizes {
    fn of(&mut self, bytes: u64) -> &mut Moved {
        let known = self.few.iter().position(|(of, _)| *of == bytes);
        let at = match known {
            None if self.few.len() == FEW => return self.others.entry(bytes).or_default(),
            None => {
                self.few.push((bytes, Moved::default()));
                self.few.len() - 1
            }
            Some(at) => at,
        };
        &mut self.few[at].1
    }

    /// Calls `each` for each size and removes it.
    fn take(&mut self, mut each: impl FnMut(u64, Moved)) {
        for (bytes, moved) in self.few.drain(..) {
            each(bytes, moved);
        }
        if self.others.is_empty() {
            return;
        }
        for (bytes, moved) in std::mem::take(&mut self.others) {
            each(bytes, moved);
        }
    }
}

/// Blocks of one size.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// Live blocks of the section itself, and older ones whose frees were cancelled.
    added: u64,
    /// Older blocks that are no longer live.
    removed: u64,
}

impl Section {
    /// An event made a block live or freed it. `first` is the section's first event.
    pub fn change(&mut self, event: &Event, effect: Effect, first: Seq) {
        match effect {
            Effect::Live(block) => {
                let moved = self.sizes.of(block.bytes);
                let is_older = event.kind == EventKind::CANCEL && block.seq < first;
                if is_older && Seq(event.aux) >= first && !self.back.contains(&event.ptr) {
                    // The free was counted in this section and is cancelled.
                    moved.removed = moved.removed.saturating_sub(1);
                    return;
                }
                if is_older {
                    self.back.insert(event.ptr);
                }
                moved.added += 1;
            }
            Effect::Gone(block) => {
                let own =
                    block.seq >= first || (!self.back.is_empty() && self.back.contains(&event.ptr));
                let moved = self.sizes.of(block.bytes);
                if own {
                    moved.added = moved.added.saturating_sub(1);
                } else {
                    moved.removed += 1;
                }
            }
            Effect::None => {}
        }
    }

    /// The added and the removed blocks, the largest sizes first. They are reset.
    pub fn groups(&mut self) -> (Vec<Group>, Vec<Group>) {
        self.back.clear();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        self.sizes.take(|bytes, moved| {
            for (blocks, groups) in [(moved.added, &mut added), (moved.removed, &mut removed)] {
                if blocks > 0 {
                    groups.push(Group { bytes, blocks });
                }
            }
        });
        added.sort_unstable_by(|a, b| b.cmp(a));
        removed.sort_unstable_by(|a, b| b.cmp(a));
        (added, removed)
    }
}
