//! Leaks of a training: what is live at the end and was allocated before the last step began.

use gpumem_capture::{EventKind, Level, Record, Seq};
use rustc_hash::FxHashMap;

use crate::replay::{Figure, Replay, Sizes, StackKey};
use crate::views::{ByStack, Select};

/// Finds the ends of steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// The newest mark, and the one before it.
    newest: Option<Seq>,
    before: Option<Seq>,
}

impl Steps {
    /// Observes a record.
    pub fn observe(&mut self, record: Record<'_>) {
        if let Record::Event(seq, event) = record
            && event.kind == EventKind::STEP
        {
            self.before = self.newest.replace(seq);
        }
    }

    /// Blocks that are live at the end and were allocated before the last complete step began; nothing if only one
    /// step ended. Without steps, all live blocks. `None` if a bounded capture has evicted the needed records.
    pub fn leaked(
        &self,
        replay: &Replay,
        level: Level,
        select: &Select,
        sizes: Sizes,
    ) -> Option<ByStack> {
        if replay.spans.steps > 0 {
            let bounded = replay.restored.is_some();
            if bounded && (self.before.is_none() || replay.evicted.blocks > 0) {
                return None;
            }
            let began = self.before.unwrap_or(Seq(0));
            return Some(alive(replay, level, select, sizes, began));
        }
        Some(ByStack::of(replay, level, select, |device| {
            use crate::replay::At::End;
            let figures = replay.figures(device, level, End);
            (figures, replay.total(device, level, End))
        }))
    }
}

fn alive(replay: &Replay, level: Level, select: &Select, sizes: Sizes, before: Seq) -> ByStack {
    ByStack::of(replay, level, select, |device| {
        let row = replay.levels.get(&(device, level));
        let blocks = row.into_iter().flat_map(|row| row.live_blocks());
        let mut figures: FxHashMap<StackKey, Figure> = FxHashMap::default();
        for (_, block) in blocks {
            if block.seq < before && sizes.take(block.bytes) {
                let (bytes, blocks) = (block.bytes, 1);
                *figures.entry(replay.stacks(block.key)).or_default() += Figure { bytes, blocks };
            }
        }
        let scale = replay.scale(device, level, Some(crate::replay::At::End));
        let figures: Vec<_> = figures
            .into_iter()
            .map(|(stacks, figure)| (stacks, scale.of(stacks, figure)))
            .filter(|(_, figure)| figure.bytes > 0)
            .collect();
        let sum = figures.iter().map(|(_, figure)| figure.bytes).sum();
        (figures, sum)
    })
}
