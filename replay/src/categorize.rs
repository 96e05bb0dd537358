//! Assigns categories to tensor blocks: see [`crate::categories`].

use gpumem_capture::{DeviceOrdinal, Event, Level, Role, StackId, ThreadId};

use crate::attribution::{is_in_closure, is_in_foreach};
use crate::block::{Block, Made};
use crate::categories::KeyFacts;
use crate::category::{Category, Origin};
use crate::ids::{KeyId, StackKey};
use crate::peak_snapshot::Address;
use crate::places::Place;
use crate::purpose::ThreadPhase;
use crate::replay::Replay;
use crate::sampling::Sampled;

impl Replay {
    /// A tensor block is allocated; `base` is its key for now.
    pub(crate) fn tensor_made(&mut self, base: KeyId, event: &Event) -> Made {
        let mut base = base;
        let facts = self.facts(base);
        let (place, origin, mut outcome) = (facts.place, facts.origin, facts.outcome);
        let before_forward = facts.before_forward;
        let of = &mut self.categories;
        if place.is_python {
            of.allocates(event.thread, place.in_module);
            // Once set, it stays: no mark may separate the rounds of an evaluation.
            let is_before = before_forward != KeyId::NONE || !of.forward_began;
            if is_before && origin == Origin::Outside {
                base = match before_forward {
                    KeyId::NONE => self.new_before_forward(base),
                    known => known,
                };
                outcome = self.facts(base).outcome;
            }
        } else if place.in_backward && self.spans.marked(event.thread) == ThreadPhase::Outside {
            of.works(event.thread);
        }
        let of = &self.categories;
        let category = match outcome {
            Category::None => origin.assumed(of.has_modules),
            before => before,
        };
        let (turn, is_early) = (of.turn, of.is_early(event.thread));
        Made {
            key: self.key_as(base, category),
            base,
            turn,
            is_early,
        }
    }

    /// Makes the key of the same stacks before the forward of a step.
    #[cold]
    fn new_before_forward(&mut self, base: KeyId) -> KeyId {
        let stacks = self.stacks(base);
        let to = self.key(StackKey {
            purpose: stacks.purpose.before_forward(),
            ..stacks
        });
        if let Some(facts) = self.categories.known.of(base) {
            facts.before_forward = to;
        }
        to
    }

    /// A tensor block is about to end.
    pub(crate) fn tensor_ends(&mut self, event: &Event) {
        let address = (event.ptr, false);
        let Some(block) = self.tensor_at(event.device, address) else {
            return;
        };
        if block.is_told {
            return;
        }
        let facts = self.facts(block.key);
        let (origin, base, purpose) = (facts.origin, facts.base, facts.purpose);
        let by_backward = self.is_in_backward(event.thread);
        let age = self.categories.age(block, purpose.is_no_grad());
        let was = origin.given_back(by_backward, age);
        // The key's facts may not be set yet.
        self.facts(base);
        self.categories.note_outcome(base, was);
        // Usually it has this category already.
        if was != purpose.category() {
            self.stand_under(event.device, address, base, was, false);
        }
    }

    /// Whether a block that this thread frees now is freed by a backward.
    pub fn is_in_backward(&self, thread: ThreadId) -> bool {
        match self.spans.without_python(thread) {
            ThreadPhase::Backward => true,
            ThreadPhase::Beside => !self.categories.is_the_programs(thread),
            _ => false,
        }
    }

    /// A role is recorded for a tensor block.
    #[cold]
    pub(crate) fn tensor_has_role(&mut self, event: &Event) {
        let category = match Role(event.aux) {
            Role::PARAMETER | Role::BUFFER => Category::Parameter,
            Role::GRADIENT => Category::Gradient,
            Role::OPTIMIZER_STATE => Category::OptimizerState,
            _ => return,
        };
        let address = (event.ptr, false);
        let Some(block) = self.tensor_at(event.device, address) else {
            return;
        };
        let is = self.stacks(block.key).purpose.category();
        if block.is_told && is.outranks(category) {
            return;
        }
        let base = self.facts(block.key).base;
        // Computes its facts if they are not yet known.
        self.facts(base);
        self.categories.note_outcome(base, category);
        self.stand_under(event.device, address, base, category, true);
    }

    /// Decides the category of live tensor blocks that have no final one, at the program's end or at a failure.
    pub fn settle_categories(&mut self) {
        let live: Vec<_> = self
            .levels
            .iter()
            .filter(|((_, level), _)| *level == Level::TENSOR)
            .flat_map(|((device, _), state)| {
                let blocks = state.blocks.iter().filter(|(_, block)| !block.is_told);
                blocks.map(|(address, block)| (*device, *address, *block))
            })
            .collect();
        for (device, address, block) in live {
            let facts = self.facts(block.key);
            let (origin, base, purpose) = (facts.origin, facts.base, facts.purpose);
            let before = self.facts(base).outcome;
            let age = self.categories.age(block, purpose.is_no_grad());
            let is = origin.live(before, age);
            self.stand_under(device, address, base, is, true);
        }
    }

    /// Computes the facts of all keys, so that each has a key without a category.
    pub(crate) fn work_out_facts(&mut self) {
        for key in 0..self.keys.len() as u32 {
            self.facts(KeyId(key));
        }
    }

    /// The key of the same stacks for blocks of all categories, allocated during the training or after it.
    pub fn key_of_all_categories(&self, key: KeyId) -> KeyId {
        let base = self.stacks(key).without_category();
        let in_training = StackKey {
            purpose: base.purpose.in_training(),
            ..base
        };
        let known = |key| self.key_ids.get(key);
        known(&in_training).or_else(|| known(&base)).unwrap_or(key)
    }

    /// A block with the key of its stacks only, because its category may change.
    pub(crate) fn of_all_categories(&mut self, block: Block) -> Block {
        Block {
            key: self.facts(block.key).base,
            ..block
        }
    }

    /// The category of a block, as far as it is known.
    pub(crate) fn category(&mut self, block: Block) -> Category {
        self.facts(block.key).purpose.category()
    }

    fn tensor_at(&self, device: DeviceOrdinal, address: Address) -> Option<Block> {
        let state = self.levels.get(&(device, Level::TENSOR))?;
        state.blocks.get(&address).copied()
    }

    /// Moves a block to a category, as if it had it since its allocation.
    fn stand_under(
        &mut self,
        device: DeviceOrdinal,
        address: Address,
        base: KeyId,
        category: Category,
        is_told: bool,
    ) {
        let to = self.key_as(base, category);
        let sampled = Sampled::new(self.sampling, &self.keys).at(Level::TENSOR);
        let peak = self.devices.get(&device);
        let peak = peak.map(|device| (device.clock, device.moment.map(|(seq, _)| seq)));
        let (clock, moment) = peak.unwrap_or_default();
        if let Some(state) = self.levels.get_mut(&(device, Level::TENSOR)) {
            state.device_clock = clock;
            let moved = state.stand_under(address, to, is_told);
            if let Some((block, from)) = moved {
                state.move_figures(block, from, moment, &self.window, sampled);
            }
        }
    }

    /// The key with a category.
    #[inline]
    fn key_as(&mut self, base: KeyId, category: Category) -> KeyId {
        match self.facts(base).with[category as usize] {
            KeyId::NONE => self.new_key_as(base, category),
            known => known,
        }
    }

    #[cold]
    fn new_key_as(&mut self, base: KeyId, category: Category) -> KeyId {
        let stacks = self.stacks(base);
        // The category of evicted stacks is unknown.
        if stacks == StackKey::EVICTED {
            return base;
        }
        let key = self.key(StackKey {
            purpose: stacks.purpose.with(category),
            ..stacks
        });
        if let Some(facts) = self.categories.known.of(base) {
            facts.with[category as usize] = key;
        }
        key
    }

    /// The facts of a key, with a category or without.
    #[inline]
    fn facts(&mut self, key: KeyId) -> &KeyFacts {
        let at = key.0 as usize;
        let known = self.categories.known.keys.get(at);
        if known.is_none_or(|facts| facts.base == KeyId::NONE) {
            self.find_facts(key);
        }
        &self.categories.known.keys[at]
    }

    #[cold]
    fn find_facts(&mut self, key: KeyId) {
        let stacks = self.stacks(key);
        let base = match stacks.purpose.category() {
            Category::None => key,
            _ => self.key(StackKey {
                purpose: stacks.purpose.with(Category::None),
                ..stacks
            }),
        };
        let place = self.place(stacks.py);
        let facts = KeyFacts {
            origin: self.origin(stacks, place),
            place,
            purpose: stacks.purpose,
            base,
            outcome: self.categories.earlier_outcome(key),
            before_forward: self
                .key_ids
                .get(&StackKey {
                    purpose: stacks.purpose.before_forward(),
                    ..stacks
                })
                .unwrap_or(KeyId::NONE),
            with: [KeyId::NONE; 9],
        };
        let keys = &mut self.categories.known.keys;
        let least = key.0 as usize + 1;
        if keys.len() < least {
            keys.resize(least.next_power_of_two(), KeyFacts::UNKNOWN);
        }
        keys[key.0 as usize] = facts;
    }

    /// Where in the program a block with these stacks was allocated.
    fn origin(&self, stacks: StackKey, place: Place) -> Origin {
        let purpose = stacks.purpose;
        if purpose.is_workspace() {
            return Origin::Workspace;
        }
        if stacks == StackKey::EVICTED || stacks.py == StackId::EVICTED {
            return Origin::Unknown;
        }
        match purpose.phase() {
            _ if place.in_backward => match place.in_module {
                true => Origin::Recomputed,
                false => Origin::Backward,
            },
            ThreadPhase::Backward if place.in_module => Origin::Recomputed,
            ThreadPhase::Backward | ThreadPhase::ZeroGrad => Origin::Backward,
            ThreadPhase::Beside if !place.is_python && !stacks.is_not_sampled() => Origin::Backward,
            ThreadPhase::Optimizer if is_in_foreach(&self.names, stacks.py) => Origin::Backward,
            ThreadPhase::Optimizer if !is_in_closure(&self.names, stacks.py) => Origin::Optimizer,
            _ if place.makes_weights => Origin::Weights,
            // A custom function's forward runs with gradients off, and keeps tensors for backward.
            _ if place.in_module || stacks.is_not_sampled() => {
                match purpose.is_no_grad() && !place.in_function {
                    true => Origin::Inference,
                    false => Origin::Forward,
                }
            }
            _ => Origin::Outside,
        }
    }

    #[inline]
    pub(crate) fn place(&mut self, stack: StackId) -> Place {
        let places = &mut self.categories.known.places;
        let names = &self.names;
        *places
            .entry(stack)
            .or_insert_with(|| Place::of(names, stack))
    }
}
