//! What follows the records of a pass over a capture.

use gpumem_capture::Record;

use crate::replay::{Effect, Replay};

/// Called for each record after the replay has applied it.
pub type Observer<'a> = dyn FnMut(&Replay, Record<'_>, Effect) + 'a;

/// Follows the records of a pass, next to the replay. A closure follows them after the replay.
pub trait Watch {
    /// Called for each record before the replay applies it.
    fn before(&mut self, _: &Replay, _: &Record<'_>) {}

    /// Called for each record after the replay has applied it.
    fn after(&mut self, replay: &Replay, record: Record<'_>, effect: Effect);
}

impl<F: FnMut(&Replay, Record<'_>, Effect)> Watch for F {
    fn after(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        self(replay, record, effect);
    }
}

/// A closure that follows records before the replay.
pub struct Before<F>(
    /// The closure.
    pub F,
);

impl<F: FnMut(&Replay, &Record<'_>)> Watch for Before<F> {
    fn before(&mut self, replay: &Replay, record: &Record<'_>) {
        (self.0)(replay, record);
    }

    fn after(&mut self, _: &Replay, _: Record<'_>, _: Effect) {}
}

/// Two that follow the same pass.
pub struct Both<'a>(
    /// The first.
    pub &'a mut dyn Watch,
    /// The second.
    pub &'a mut dyn Watch,
);

impl Watch for Both<'_> {
    fn before(&mut self, replay: &Replay, record: &Record<'_>) {
        self.0.before(replay, record);
        self.1.before(replay, record);
    }

    fn after(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        self.0.after(replay, record, effect);
        self.1.after(replay, record, effect);
    }
}
