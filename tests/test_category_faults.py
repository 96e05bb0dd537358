"""Changes a line of the replay's source to a wrong rule. The property tests of categories must fail for each."""

import faults
import pytest

pytestmark = pytest.mark.slow

# What is changed: the file, the line (or a part that stands there once), and what comes instead; further parts alike.
FAULTS = {
    "a gradient is an activation": ("categorize.rs", "Role::GRADIENT => Category::Gradient,", "Role::GRADIENT => Category::Activation,"),
    "a buffer has no role": ("categorize.rs", "Role::PARAMETER | Role::BUFFER =>", "Role::PARAMETER =>"),
    "the newest role counts": ("category.rs", "rank(self) <= rank(other)", "false && rank(self) <= rank(other)"),
    "the first role counts": ("category.rs", "rank(self) <= rank(other)", "true || rank(self) <= rank(other)"),
    "gradients that are off are not looked at": ("categorize.rs", "match purpose.is_no_grad() && !place.in_function {", "match false {"),
    "a custom function keeps nothing": ("categorize.rs", "match purpose.is_no_grad() && !place.in_function {", "match purpose.is_no_grad() {"),
    "a workspace is a tensor as others are": ("categorize.rs", "if purpose.is_workspace() {", "if false {"),
    "what a forward that runs again makes is backward's": ("categorize.rs", "ThreadPhase::Backward if place.in_module => Origin::Recomputed,", ""),
    "the thread's older frames are a node's": ("places.rs", "ran.newer_frames(names)", "names.py_stacks.get(&ran.own).map_or(&[][..], |(frames, _)| frames)"),
    "zeroing gradients is as any phase": ("categorize.rs", "ThreadPhase::Backward | ThreadPhase::ZeroGrad =>", "ThreadPhase::Backward =>"),
    "what stands beside backward's thread is outside": ("categorize.rs", "ThreadPhase::Beside if !place.is_python &&", "ThreadPhase::Beside if false &&"),
    "a closure is the optimizer's": ("categorize.rs", "ThreadPhase::Optimizer if !is_in_closure(&self.names, stacks.py) =>", "ThreadPhase::Optimizer =>"),
    "weights are not known by where they are made": ("categorize.rs", "_ if place.makes_weights => Origin::Weights,", ""),
    "conversion makes no weights": ("places.rs", '("nn/modules/module.py", "_apply") => self.makes_weights = true,', ""),
    "names of functions are taken as qualified": ("places.rs", "code.name.rsplit('.').next().unwrap_or_default();", "code.name.as_str();"),
    "optimizer state is what lives in the step alone": ("category.rs", "Self::Optimizer | Self::Forward | Self::Inference | Self::Outside if age.turns == 0", "Self::Forward | Self::Inference | Self::Outside if age.turns == 0"),
    "all of an optimizer's is temporary": ("category.rs", "Self::Optimizer => Category::OptimizerState,", "Self::Optimizer => Category::Temporary,"),
    "what backward gives back is temporary": ("category.rs", "if by_backward => Category::Activation,", "if by_backward => Category::Temporary,"),
    "backward's end is not seen": ("categorize.rs", "ThreadPhase::Backward => true,", "ThreadPhase::Backward => false,"),
    "any thread may work for backward": ("categorize.rs", "ThreadPhase::Beside => !self.categories.is_the_programs(thread),", "ThreadPhase::Beside => true,"),
    "what backward keeps is temporary": ("category.rs", "Self::Backward if age.turns > BATCH => Category::Other,", ""),
    "what a forward makes for itself is a batch": ("category.rs", "if by_backward && age.has_modules && age.is_early =>", "if by_backward && age.has_modules =>"),
    "a batch needs no modules": ("category.rs", "match self.has_modules && self.turns <= BATCH {", "match self.turns <= BATCH {"),
    "a batch may have any age": ("category.rs", "match self.has_modules && self.turns <= BATCH {", "match self.has_modules {"),
    "a batch is kept for a turn more": ("category.rs", "const BATCH: u32 = 8;", "const BATCH: u32 = 9;"),
    "what inference keeps is an activation": ("category.rs", "Self::Inference => Category::Other,", "Self::Inference => Category::Activation,"),
    "what is live of inference is judged by age alone": ("category.rs", "(Self::Inference, Category::Activation) => Category::Activation,", ""),
    "what is live of a forward is kept for backward": ("category.rs", "(Self::Forward, Category::Temporary) => Category::Temporary,", ""),
    "what a block ended as says nothing of the next": ("categorize.rs", "self.categories.note_outcome(base, was);", ""),
    "what a block was told says nothing of the next": ("categorize.rs", "self.categories.note_outcome(base, category);", ""),
    "an end takes back what was told": ("categorize.rs", "if block.is_told {", "if false {"),
    "a role stays with the address": (
        "categorize.rs", "if block.is_told {", "if block.is_told || self.categories.known.places.contains_key(&StackId(event.ptr as u32)) {",
        "let is = self.stacks(block.key)", "self.categories.known.places.insert(StackId(event.ptr as u32), Place::NOWHERE);\n        let is = self.stacks(block.key)",
    ),
    "a block that was told outlives its end": ("level_state.rs", "let Some(block) = self.blocks.remove(&address) else {", "let told = self.blocks.get(&address).copied().filter(|block| block.is_told);\n                let Some(block) = told.or_else(|| self.blocks.remove(&address)) else {"),
    "a failure settles nothing": ("replay.rs", "EventKind::OUT_OF_MEMORY => self.settle_categories(),", ""),
    "what a failure settled is judged again": ("categorize.rs", "self.stand_under(device, address, base, is, true);", "self.stand_under(device, address, base, is, false);"),
    "a block moves without its figures": ("eviction.rs", "give(&mut self.by_stack, Figure::block(block.bytes));", ""),
    "what a block stands for does not move": ("eviction.rs", "give(&mut self.unseen, unseen);", ""),
    "the level's peak stays as it was": ("eviction.rs", "let at = (was_live(self.ticked), ", "let at = (false, "),
    "the device's peak stays as it was": ("eviction.rs", "was_live(device_peak));", "false);"),
    "what came after the peak is taken off it": ("eviction.rs", "peak.is_some_and(|peak| block.seq <= peak)", "peak.is_some()"),
    "allocations are counted where they were taken for": ("high_water.rs", "self.total.allocations -= block.blocks;", ""),
    "blocks of other sizes move": ("eviction.rs", "if !(window.at(block.seq) && window.made(block.seq, block.bytes)) {", "if !window.at(block.seq) {"),
    "a category hides what else is known": ("purpose.rs", "self.0 & ((1 << CATEGORY) - 1)", "self.0 & (WORKSPACE - 1)"),
    "leaving a module ends no turn": ("categories.rs", "of.in_module && !in_module;", "of.in_module && false;"),
    "one thread's module is left by another": ("categories.rs", "let of = self.threads.entry(thread).or_default();", "let of = self.threads.entry(ThreadId(0)).or_default();"),
    "a step's end ends no turn": ("categories.rs", "EventKind::STEP => true,", "EventKind::STEP => false,"),
    "zeroing gradients ends a turn": ("categories.rs", "[Phase::BACKWARD.0, Phase::OPTIMIZER.0]", "[Phase::BACKWARD.0, Phase::OPTIMIZER.0, Phase::ZERO_GRAD.0]"),
    "a forward never ends": ("categories.rs", "self.forward_began &= !ends;", ""),
    "a forward's result is a batch": ("category.rs", "true if !self.outlived_forward =>", "true if true =>"),
    "a result without gradients is an activation": ("category.rs", "true if self.is_no_grad => Category::Other,", ""),
    "what is live outside of modules is no activation": ("category.rs", "(Self::Outside, Category::Activation) if age.turns <= BATCH => Category::Activation,", ""),
    "autograd's thread is the program's once a hook runs on it": ("categories.rs", "of.python && !of.works;", "of.python;"),
    "a batch that another thread makes ahead is the forward's": ("categories.rs", "!self.forward_began || !self.threads", "!self.forward_began || false && !self.threads"),
    "a state forgets when the forward ended": ("categories.rs", "self.marked.put(to);", "0_u32.put(to);"),
    "a state forgets what blocks were": ("categories.rs", "self.all_outcomes().put(to);", "self.outcomes.put(to);"),
    "a state forgets who runs Python": ("categories.rs", "self.threads.put(to);", "FxHashMap::<ThreadId, Thread>::default().put(to);"),
}


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    return faults.Copy("replay", tmp_path_factory.mktemp("faults"))


def test_without_a_fault_they_pass(crate):
    crate.passes()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(crate, fault):
    crate.finds(*FAULTS[fault])
