//! What is alive at the end of what was allocated before the last step of a training began.

use gpumem_capture::{EventKind, Level, Record, Seq};
use rustc_hash::FxHashMap;

use crate::replay::{Figure, Replay, Sizes, StackKey};
use crate::views::{ByStack, Select};

/// Notices when steps ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// The newest mark, and the one before it.
    newest: Option<Seq>,
    before: Option<Seq>,
}

impl Steps {
    /// Takes in a record.
    pub fn observe(&mut self, record: Record<'_>) {
        if let Record::Event(seq, event) = record
            && event.kind == EventKind::STEP
        {
            self.before = self.newest.replace(seq);
        }
    }

    /// What is alive at the end, and was allocated before the last step that ended began: nothing where
    /// only one did. Without steps it is all that is alive. `None` where a bounded capture has evicted
    /// what would tell.
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
