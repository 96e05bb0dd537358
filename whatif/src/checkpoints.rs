//!  States of pools to which the recorded program restored them, and the blocks that were live in each state.
//!
//! A restore frees the pool's blocks and allocates those of the state. The recorder saw this as frees and allocations
//! of the thread. Here the allocator does the same by itself, so these events are skipped. The allocator holds its lock
//! of the device from the first of these events to the last. So the first one is the point at which the restore took
//! effect, relative to other threads.

use gpumem_capture::{Event, EventKind, ThreadId};
use gpumem_torch_abi::Shared;
use rustc_hash::{FxHashMap, FxHashSet};

/// A state of a pool.
pub(crate) struct State<Block> {
    /// The pool's number in the allocator.
    pub(crate) pool: (u64, u64),
    pub(crate) shared: Shared,
    /// Blocks that were live, by their recorded addresses.
    pub(crate) live: Vec<(u64, Block)>,
}

/// A restore of a pool that is in progress in the recorded run.
struct Restore {
    thread: ThreadId,
    /// The state, by its recorded address.
    state: u64,
    /// Whether the restore was made here, or has failed.
    is_tried: bool,
    /// Blocks that it allocated and did not free again, by their recorded addresses.
    handed_out: FxHashSet<u64>,
}

/// The part of a restore that an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is no part of a restore.
    Nothing,
    /// The first part: the pool is now restored to the state at this recorded address.
    First(u64),
    Another,
}

/// The result of a restore of the recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its beginning is unknown.
    Unknown,
    /// It freed and allocated nothing; it must be made now.
    Empty(u64),
    /// It allocated the blocks that were live when the state was saved.
    AsTaken,
    /// It failed, or allocated other blocks.
    Otherwise,
}

/// Saved states, and restores in progress.
pub(crate) struct Checkpoints<Block> {
    /// The newest state at each recorded address; older ones at the address are gone.
    states: FxHashMap<u64, State<Block>>,
    restores: Vec<Restore>,
}

impl<Block> Default for Checkpoints<Block> {
    fn default() -> Self {
        Self {
            states: FxHashMap::default(),
            restores: Vec::new(),
        }
    }
}

impl<Block> Checkpoints<Block> {
    /// A state was saved at an address of the recorded process; returns whether it could be saved here.
    pub(crate) fn taken(&mut self, at: u64, state: Option<State<Block>>) -> bool {
        let is_taken = state.is_some();
        match state {
            Some(state) => drop(self.states.insert(at, state)),
            None => drop(self.states.remove(&at)),
        }
        is_taken
    }

    /// The state of a recorded address.
    pub(crate) fn state(&self, at: u64) -> Option<&State<Block>> {
        self.states.get(&at)
    }

    /// A thread begins to restore a pool; returns whether the state is known.
    pub(crate) fn begin(&mut self, thread: ThreadId, state: u64) -> bool {
        let is_known = self.states.contains_key(&state);
        if is_known {
            self.restores.push(Restore {
                thread,
                state,
                is_tried: false,
                handed_out: FxHashSet::default(),
            });
        }
        is_known
    }

    /// The part of a restore that an allocation or free is.
    #[inline]
    pub(crate) fn part(&mut self, event: &Event) -> Part {
        if self.restores.is_empty() {
            return Part::Nothing;
        }
        let mut restores = self.restores.iter_mut();
        let Some(restore) = restores.find(|of| of.thread == event.thread) else {
            return Part::Nothing;
        };
        match event.kind {
            EventKind::ALLOC => restore.handed_out.insert(event.ptr),
            EventKind::FREE => restore.handed_out.remove(&event.ptr),
            _ => return Part::Nothing,
        };
        match core::mem::replace(&mut restore.is_tried, true) {
            true => Part::Another,
            false => Part::First(restore.state),
        }
    }

    /// A thread's restore has ended.
    pub(crate) fn end(&mut self, thread: ThreadId, state: u64, has_failed: bool) -> Ended {
        let is_it = |of: &Restore| (of.thread, of.state) == (thread, state);
        let Some(at) = self.restores.iter().position(is_it) else {
            return Ended::Unknown;
        };
        let restore = self.restores.swap_remove(at);
        let live = self.states.get(&state).map_or(&[][..], |of| &of.live);
        let is_same = live.len() == restore.handed_out.len()
            && live.iter().all(|(ptr, _)| restore.handed_out.contains(ptr));
        match has_failed || !is_same {
            true => Ended::Otherwise,
            false if !restore.is_tried => Ended::Empty(state),
            false => Ended::AsTaken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: ThreadId = ThreadId(7);

    fn checkpoints() -> Checkpoints<()> {
        let mut checkpoints = Checkpoints::default();
        let state = |live: &[u64]| State {
            pool: (1, 0),
            shared: Shared::default(),
            live: live.iter().map(|ptr| (*ptr, ())).collect(),
        };
        checkpoints.taken(64, Some(state(&[1])));
        checkpoints.taken(64, Some(state(&[2, 3])));
        checkpoints.taken(128, Some(state(&[])));
        checkpoints
    }

    fn event(kind: EventKind, ptr: u64, thread: ThreadId) -> Event {
        Event {
            kind,
            ptr,
            thread,
            ..Event::default()
        }
    }

    #[test]
    fn what_a_restore_frees_and_hands_out_is_part_of_it() {
        let mut checkpoints = checkpoints();
        let (alloc, free) = (EventKind::ALLOC, EventKind::FREE);
        assert_eq!(checkpoints.part(&event(free, 9, THREAD)), Part::Nothing);
        assert!(checkpoints.begin(THREAD, 64));
        let other = event(free, 1, ThreadId(8));
        assert_eq!(checkpoints.part(&other), Part::Nothing);
        assert_eq!(checkpoints.part(&event(free, 9, THREAD)), Part::First(64));
        for (kind, ptr) in [(alloc, 2), (alloc, 3), (alloc, 4), (free, 4)] {
            assert_eq!(checkpoints.part(&event(kind, ptr, THREAD)), Part::Another);
        }
        assert_eq!(checkpoints.end(THREAD, 64, false), Ended::AsTaken);
        assert_eq!(checkpoints.part(&event(free, 9, THREAD)), Part::Nothing);
    }

    #[test]
    fn other_blocks_than_those_of_the_newest_state_are_an_end_of_another_kind() {
        let mut checkpoints = checkpoints();
        for (ptr, fails, ended) in [
            (3, false, Ended::AsTaken),
            (3, true, Ended::Otherwise),
            (1, false, Ended::Otherwise),
        ] {
            assert!(checkpoints.begin(THREAD, 64));
            for ptr in [2, ptr] {
                checkpoints.part(&event(EventKind::ALLOC, ptr, THREAD));
            }
            assert_eq!(checkpoints.end(THREAD, 64, fails), ended);
        }
        assert!(checkpoints.begin(THREAD, 128));
        assert_eq!(checkpoints.end(THREAD, 128, false), Ended::Empty(128));
    }

    #[test]
    fn a_state_that_is_not_known_has_no_restore() {
        let mut checkpoints = checkpoints();
        checkpoints.taken(64, None);
        for state in [0, 64] {
            assert!(!checkpoints.begin(THREAD, state));
            let freed = event(EventKind::FREE, 9, THREAD);
            assert_eq!(checkpoints.part(&freed), Part::Nothing);
            assert_eq!(checkpoints.end(THREAD, state, false), Ended::Unknown);
        }
    }
}
