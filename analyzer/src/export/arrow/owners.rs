//! Whose events are, as numbers of names: worked out once for each pair of stacks at each level.

use arrow_schema::ArrowError;
use gpumem_capture::Level;

use super::super::events::{Whose, whose};
use crate::attribution::owner;
use crate::replay::{KeyId, Replay, StackKey};

/// Whose an event is, by the numbers of names.
#[derive(Clone, Copy, Default)]
pub(super) struct Owned {
    pub(super) file: Option<i32>,
    pub(super) line: Option<u32>,
    pub(super) function: Option<i32>,
    pub(super) node: Option<i32>,
    pub(super) library: Option<i32>,
    pub(super) phase: Option<i8>,
}

/// What was worked out for a number of stacks; the stacks tell whether it still stands for them.
type Known = Option<(StackKey, Owned)>;

/// Owners by the number of the stacks.
pub(super) struct Owners<'a> {
    replay: &'a Replay,
    by_level: [Vec<Known>; Level::COUNT],
}

impl<'a> Owners<'a> {
    pub(super) fn new(replay: &'a Replay) -> Self {
        Self {
            replay,
            by_level: Default::default(),
        }
    }

    /// Whose an event with these stacks is; `numbered` gives the names their numbers.
    #[inline]
    pub(super) fn of(
        &mut self,
        key: KeyId,
        stacks: StackKey,
        level: Level,
        numbered: impl FnOnce(&Whose) -> Result<Owned, ArrowError>,
    ) -> Result<Owned, ArrowError> {
        let known = self.by_level.get(usize::from(level.0));
        match known.and_then(|known| known.get(key.0 as usize)) {
            Some(Some((of, owned))) if *of == stacks => Ok(*owned),
            _ => self.find(key, stacks, level, numbered),
        }
    }

    #[cold]
    fn find(
        &mut self,
        key: KeyId,
        stacks: StackKey,
        level: Level,
        numbered: impl FnOnce(&Whose) -> Result<Owned, ArrowError>,
    ) -> Result<Owned, ArrowError> {
        let owner = owner(&self.replay.names, stacks, level);
        let owned = numbered(&whose(self.replay, stacks, &owner))?;
        let at = key.0 as usize;
        // Keys have dense numbers: the replay keeps a list of them.
        if let Some(known) = self.by_level.get_mut(usize::from(level.0)) {
            if known.len() <= at {
                known.resize((at + 1).next_power_of_two(), None);
            }
            known[at] = Some((stacks, owned));
        }
        Ok(owned)
    }
}
