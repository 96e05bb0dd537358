//! Owners of events as numbers of names, computed once for each pair of stacks at each level.

use arrow_schema::ArrowError;
use gpumem_capture::Level;

use super::words::{Owned, OwnerWords};
use crate::attribution::owner;
use crate::export::events::{Numbers, whose};
use crate::replay::{KeyId, Replay, StackKey};

/// The index of an owner, with its stacks: the replay may have reused the number for other stacks.
type Known = Option<(StackKey, u32)>;

/// Owners by the number of their stacks.
pub(super) struct Owners<'a> {
    replay: &'a Replay,
    words: OwnerWords,
    by_level: [Vec<Known>; Level::COUNT],
    /// The first has no names: for events without stacks.
    pub(super) all: Vec<Owned>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(replay: &'a Replay, words: OwnerWords) -> Self {
        Self {
            replay,
            words,
            by_level: Default::default(),
            all: vec![Owned::default()],
        }
    }

    /// The index in `all` of the event's owner.
    #[inline]
    pub(super) fn place(&mut self, row: &Numbers) -> Result<u32, ArrowError> {
        let Some((key, stacks)) = row.stacks else {
            return Ok(0);
        };
        let known = self.by_level.get(usize::from(row.of_level.0));
        match known.and_then(|known| known.get(key.0 as usize)) {
            Some(Some((of, place))) if *of == stacks => Ok(*place),
            _ => self.find(key, stacks, row.of_level),
        }
    }

    #[cold]
    fn find(&mut self, key: KeyId, stacks: StackKey, level: Level) -> Result<u32, ArrowError> {
        let owner = owner(&self.replay.names, stacks, level);
        let owned = self.words.numbered(&whose(self.replay, stacks, &owner))?;
        let (at, place) = (key.0 as usize, self.all.len() as u32);
        self.all.push(owned);
        // Numbers of stacks are dense, because the replay keeps them in a list.
        if let Some(known) = self.by_level.get_mut(usize::from(level.0)) {
            if known.len() <= at {
                known.resize((at + 1).next_power_of_two(), None);
            }
            known[at] = Some((stacks, place));
        }
        Ok(place)
    }
}
