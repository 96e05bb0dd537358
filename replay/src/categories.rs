//! What is followed of a program to tell what its tensors' blocks are for: see [`Category`].
//!
//! A block's category is a part of the key that its figures stand under. It is known at the block's end, or once it is
//! told; until then the block stands under what the one before it was that had the same stacks. Where that was wrong,
//! its figures are moved, those at the peaks too.

use gpumem_capture::{Event, EventKind, Phase, StackId, ThreadId};
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::category::{Age, Category, Origin};
use crate::ids::KeyId;
use crate::places::Place;
use crate::purpose::Purpose;
use crate::serialize::{Serialize, serialize};

/// What is followed.
#[derive(Debug, Default)]
pub(crate) struct Categories {
    /// Turns that have ended.
    pub(crate) turn: u32,
    /// Whether a module was called.
    pub(crate) has_modules: bool,
    /// Whether one was called in this turn, as far as turns end with phases and steps.
    pub(crate) forward_began: bool,
    /// The turn that began with the newest phase or step.
    marked: u32,
    /// Threads that allocated from Python or for backward.
    threads: FxHashMap<ThreadId, Thread>,
    /// The newest of them.
    newest: Option<(ThreadId, bool)>,
    /// What the newest block that ended was, by stacks, as far as it is not in what can be worked out again.
    outcomes: FxHashMap<KeyId, u16>,
    /// What can be worked out again.
    pub(crate) known: Known,
}

/// What a thread has done.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// It allocated from Python.
    python: bool,
    /// It was in a module the last time.
    in_module: bool,
    /// It was in one at some time.
    calls_modules: bool,
    /// It ran a node of autograd's for another thread, which waits: it is one of the engine's, though hooks of Python's may
    /// run on it.
    works: bool,
}

serialize! {
    Thread { python, in_module, calls_modules, works }
}

/// By stacks.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// By the number of the key; those that are not known have no base.
    pub(crate) keys: Vec<KeyFacts>,
    pub(crate) places: FxHashMap<StackId, Place>,
}

/// In one line of the processor's cache: programs have thousands of stacks, and each block's are looked up.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct KeyFacts {
    pub(crate) origin: Origin,
    pub(crate) place: Place,
    /// That of the key.
    pub(crate) purpose: Purpose,
    /// The key without a category; [`KeyId::NONE`]: nothing is known of this key.
    pub(crate) base: KeyId,
    /// Of a key without a category: what the newest block that ended was.
    pub(crate) outcome: Category,
    /// The key of the same stacks before the forward of a step, if they ever were outside all modules there.
    pub(crate) before_forward: KeyId,
    /// The keys with each category, as far as there are any.
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
    /// The facts of a key, to be changed if they are known.
    #[inline]
    pub(crate) fn of(&mut self, key: KeyId) -> Option<&mut KeyFacts> {
        let facts = self.keys.get_mut(key.0 as usize)?;
        (facts.base != KeyId::NONE).then_some(facts)
    }
}

/// All but what can be worked out again.
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
    /// A mark may end a turn.
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

    /// Keys have other numbers now.
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

    /// A thread allocates from Python, in a module or not: a turn may end, or a forward begin.
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

    /// A thread allocates in a node of autograd's, and has not begun that backward itself.
    #[inline]
    pub(crate) fn works(&mut self, thread: ThreadId) {
        self.threads.entry(thread).or_default().works = true;
    }

    /// Whether what a thread makes now is made before the forward begins. Batches are made ahead by threads that call no
    /// modules.
    #[inline]
    pub(crate) fn is_early(&self, thread: ThreadId) -> bool {
        let calls_modules = |of: &Thread| of.calls_modules;
        !self.forward_began || !self.threads.get(&thread).is_some_and(calls_modules)
    }

    /// Whether a thread runs the program's own Python, and is none of autograd's.
    pub(crate) fn is_the_programs(&self, thread: ThreadId) -> bool {
        let is_the_programs = |of: &Thread| of.python && !of.works;
        self.threads.get(&thread).is_some_and(is_the_programs)
    }

    /// What the newest block was that had these stacks and ended before its facts were worked out.
    pub(crate) fn earlier_outcome(&self, base: KeyId) -> Category {
        let number = self.outcomes.get(&base).copied().unwrap_or_default();
        Category::numbered(number)
    }

    /// A block with these stacks was this.
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

/// A block that stands under another key from now on, and the key that it stood under.
pub(crate) type Moved = Option<(Block, KeyId)>;
