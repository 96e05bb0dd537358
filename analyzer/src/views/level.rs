//! Which level a view is of where none is asked for.

use gpumem_capture::Level;

use crate::replay::Replay;

/// The level asked for, or the one that tells most.
pub fn level_or_default(asked: Option<Level>, replay: &Replay) -> Level {
    asked.unwrap_or_else(|| {
        let has = |level| replay.levels.keys().any(|(_, of)| *of == level);
        if has(Level::TENSOR) || !has(Level::DRIVER) {
            Level::TENSOR
        } else {
            Level::DRIVER
        }
    })
}
