//! The state from which the categories of tensor blocks follow: see [`Category`].
//!
//! A block's category is part of the key of its figures. It is known when the block ends, or when a role is recorded
//! for it. Until then the block has the category of the newest ended block with the same stacks. If the category turns
//! out to be another one, the block's figures move, those at the peaks too.

use gpumem_capture::{Event, EventKind, Phase, StackId, ThreadId};
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::category::{Age, Category, Origin};
use crate::ids::KeyId;
use crate::places::Place;
use crate::purpose::Purpose;
use crate::serialize::{Serialize, serialize};

/// The state of the program that is followed.
#[derive(Debug, Default)]
pub(crate) struct Categories {
    /// Turns that have ended.
    pub(crate) turn: u32,
    /// Whether a module was called.
    pub(crate) has_modules: bool,
    /// Whether a module was called since the newest phase or step began or ended.
    pub(crate) forward_began: bool,
    /// The turn that began with the newest phase or step.
    marked: u32,
    /// Threads that allocated from Python or for backward.
    threads: FxHashMap<ThreadId, Thread>,
    /// The newest of them.
    newest: Option<(ThreadId, bool)>,
    /// The category of the newest ended block, by stacks, if it is not in `known`.
    outcomes: FxHashMap<KeyId, u16>,
    /// Facts that can be computed again.
    pub(crate) known: Known,
}

/// What a thread has done.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Whether it allocated from Python.
    python: bool,
    /// Whether its newest allocation was in a module.
    in_module: bool,
    /// Whether it ever called a module.
    calls_modules: bool,
    /// Whether it ran an autograd node for another thread that waits. It is then one of the engine's threads, though
    /// Python hooks may run on it.
    works: bool,
}

serialize! {
    Thread { python, in_module, calls_modules, works }
}

/// Facts by stacks.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Facts by key number; unknown keys have no base.
    pub(crate) keys: Vec<KeyFacts>,
    pub(crate) places: FxHashMap<StackId, Place>,
}

/// In one line of the processor's cache: a program has thousands of stacks, and each block looks up one.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct KeyFacts {
    pub(crate) origin: Origin,
    pub(crate) place: Place,
    /// The purpose of the key.
    pub(crate) purpose: Purpose,
    /// The key without a category; [`KeyId::NONE`] if nothing is known about this key.
    pub(crate) base: KeyId,
    /// For a key without a category: the category of the newest ended block.
    pub(crate) outcome: Category,
    /// The key of the same stacks before the forward of a step, if they ever were outside all modules there.
    pub(crate) before_forward: KeyId,
    /// The existing keys with each category.
    pub(crate) with: [KeyId; 9],
}

impl KeyFacts {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        origin: Origin::Unknown,
        place: Place::NOWHERE,
        purpose: Purpose::NONE,
        base: KeyId::NONE,
        outcome: Category::None,
        before_forward: KeyId::NONE,
        with: [KeyId::NONE; 9],
    };
}

impl Known {
    /// The facts of a key, mutable, if they are known.
    #[inline]
    pub(crate) fn of(&mut self, key: KeyId) -> Option<&mut KeyFacts> {
        let facts = self.keys.get_mut(key.0 as usize)?;
        (facts.base != KeyId::NONE).then_some(facts)
    }
}

/// All fields except those that can be computed again.
impl Serialize for Categories {
    fn put(&self, to: &mut Vec<u8>) {
        self.turn.put(to);
        self.has_modules.put(to);
        self.forward_began.put(to);
        self.marked.put(to);
        self.threads.put(to);
        self.all_outcomes().put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            turn: Serialize::take(from)?,
            has_modules: Serialize::take(from)?,
            forward_began: Serialize::take(from)?,
            marked: Serialize::take(from)?,
            threads: Serialize::take(from)?,
            newest: None,
            outcomes: Serialize::take(from)?,
            known: Known::default(),
        })
    }
}

impl Categories {
    /// Takes in a mark, which may end a turn.
    #[inline]
    pub(crate) fn mark(&mut self, event: &Event) {
        let ends = match event.kind {
            EventKind::PHASE_BEGIN => [Phase::BACKWARD.0, Phase::OPTIMIZER.0].contains(&event.aux),
            EventKind::STEP => true,
            _ => false,
        };
        self.turn = self.turn.saturating_add(u32::from(ends));
        self.forward_began &= !ends;
        if ends {
            self.marked = self.turn;
        }
    }

    /// Renumbers the keys.
    pub(crate) fn change_keys(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        let outcomes = self.all_outcomes();
        self.known = Known::default();
        self.outcomes = outcomes
            .into_iter()
            .map(|(mut key, outcome)| {
                change(&mut key);
                (key, outcome)
            })
            .collect();
    }

    pub(crate) fn age(&self, block: Block, is_no_grad: bool) -> Age {
        Age {
            turns: self.turn.wrapping_sub(block.turn),
            has_modules: self.has_modules,
            is_early: block.is_early,
            outlived_forward: !block.is_early && block.turn < self.marked,
            is_no_grad,
        }
    }

    /// A thread allocates from Python, in a module or not. This may end a turn or begin a forward.
    #[inline]
    pub(crate) fn allocates(&mut self, thread: ThreadId, in_module: bool) {
        if self.newest == Some((thread, in_module)) && self.forward_began == in_module {
            return;
        }
        self.newest = Some((thread, in_module));
        self.has_modules |= in_module;
        self.forward_began |= in_module;
        let of = self.threads.entry(thread).or_default();
        let has_left = of.in_module && !in_module;
        of.python = true;
        of.in_module = in_module;
        of.calls_modules |= in_module;
        self.turn = self.turn.saturating_add(u32::from(has_left));
    }

    /// A thread allocates in an autograd node of a backward that another thread began.
    #[inline]
    pub(crate) fn works(&mut self, thread: ThreadId) {
        self.threads.entry(thread).or_default().works = true;
    }

    /// Whether an allocation of a thread now comes before the forward. Threads that call no modules always count as
    /// before it: they prepare batches.
    #[inline]
    pub(crate) fn is_early(&self, thread: ThreadId) -> bool {
        let calls_modules = |of: &Thread| of.calls_modules;
        !self.forward_began || !self.threads.get(&thread).is_some_and(calls_modules)
    }

    /// Whether a thread runs the program's own Python and is not one of autograd's.
    pub(crate) fn is_the_programs(&self, thread: ThreadId) -> bool {
        let is_the_programs = |of: &Thread| of.python && !of.works;
        self.threads.get(&thread).is_some_and(is_the_programs)
    }

    /// The category of the newest block with these stacks that ended before its facts were computed.
    pub(crate) fn earlier_outcome(&self, base: KeyId) -> Category {
        let number = self.outcomes.get(&base).copied().unwrap_or_default();
        Category::numbered(number)
    }

    /// Stores the category of an ended block with these stacks.
    #[inline]
    pub(crate) fn note_outcome(&mut self, base: KeyId, category: Category) {
        if let Some(facts) = self.known.of(base) {
            facts.outcome = category;
        }
    }

    fn all_outcomes(&self) -> FxHashMap<KeyId, u16> {
        let known = (0..).map(KeyId).zip(&self.known.keys);
        let known = known.map(|(key, facts)| (key, facts.outcome as u16));
        let mut all = self.outcomes.clone();
        all.extend(known.filter(|(_, outcome)| *outcome != 0));
        all
    }
}

/// A block that moves to another key, and its previous key.
pub(crate) type Moved = Option<(Block, KeyId)>;
