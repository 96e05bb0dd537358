//! What to do where a program needs more than the card has: activations, one line, numbers of double precision.

use gpumem_replay::Category;
use gpumem_replay::attribution::{Owner, caller_of, is_in_checkpoint};
use gpumem_replay::units::bytes;

use super::Text;
use super::paths::optimizer;
use crate::facts::{COPY, Large, sums};
use crate::holders::{Holder, HolderKind};
use crate::kept::Kept;
use crate::rules::{GREW, LEFT, NOTABLE, notable};
use crate::verdict::Kind;

/// Where torch.autograd.functional.jacobian() is.
const FUNCTIONAL: &str = "/torch/autograd/functional.py";
/// Where torch.load() is.
const LOAD: &str = "/torch/serialization.py";

impl Text<'_> {
    /// Whether the verdict is that the program needs more than the card has.
    fn is_of_need(&self) -> bool {
        use Kind::{Activations, Alike, LargeRequest, Largest, Model, OptimizerState};
        let kind = self.verdict.kind;
        matches!(
            kind,
            Activations | Alike | Largest | LargeRequest | Model | OptimizerState
        )
    }

    /// What to do first where much of the memory is numbers of double precision, such as NumPy's.
    pub(super) fn in_float32(&self) -> Option<String> {
        let own = || self.facts.all_holders().iter().filter(|of| of.is_own);
        let is_object =
            |of: &&Holder| matches!(of.kind, HolderKind::Object | HolderKind::Parameters);
        let mut all = own().filter(is_object).filter(|of| of.is_double());
        let most = all.next()?;
        let next = all.find(|of| of.bytes >= most.bytes / 2 && of.name() != most.name());
        let names = match next {
            Some(next) => format!("{} and {} are", most.name(), next.name()),
            None => format!("{} is", most.name()),
        };
        // Also what graphs have.
        let double = own().fold(0, |sum: u64, of| sum.saturating_add(of.double));
        let counts = notable(double, self.facts.live, NOTABLE);
        let advice = self.of_kind().filter(|_| counts && self.is_of_need())?;
        // Autocast leaves such numbers as they are.
        let is_computed = |of: &Holder| {
            of.is_double() && matches!(of.kind, HolderKind::Graph | HolderKind::Parameters)
        };
        let advice = match own().any(is_computed) {
            true => advice.replace(" or torch.autocast", ""),
            false => advice,
        };
        Some(format!(
            "{names} float64: .float() needs half, also in what is computed from it, if that is precise enough; or {advice}"
        ))
    }

    /// An object, such as a checkpoint that was read, with as much as the parameters of a model, without which the request
    /// may have fitted. What the program computes, such as the mean of earlier weights, is no input.
    pub(super) fn copy_of_weights(&self) -> Option<&Holder> {
        let all = || self.facts.all_holders().iter().filter(|of| of.is_own);
        let is_copy = |of: &&Holder| {
            let mut models = all().filter(|of| of.kind == HolderKind::Parameters);
            let is_object = of.kind == HolderKind::Object && of.text.contains(['\'', '…']);
            let may = is_object && of.is_element() && !of.is_of_optimizer();
            may && of.frees != Some(0)
                && self.is_input(of)
                && models.any(|model| model.figure() == of.figure())
                && of.bytes >= crate::rules::missing(self.facts)
        };
        let is_notable = |of: &&Holder| notable(of.bytes, self.facts.live, GREW);
        let may = self.is_of_need() && self.holder().is_none();
        all().find(is_copy).filter(is_notable).filter(|_| may)
    }

    /// Whether the large blocks of a holder are inputs.
    fn is_input(&self, holder: &Holder) -> bool {
        let all = self.facts.all_holders();
        let is_its = |of: &&Large| {
            let at = self.facts.holder_of(of);
            at.is_some_and(|at| all.get(at) == Some(holder))
        };
        let part = |of: &Large| self.facts.parts.get(of.part).map(|part| part.category);
        let mut blocks = self.facts.largest.iter().filter(is_its).peekable();
        blocks.peek().is_some() && blocks.all(|of| part(of) == Some(Category::Input))
    }

    /// Whether several threads each keep a model that one line made.
    pub(super) fn is_of_threads(&self) -> bool {
        let all = self.facts.all_holders().iter();
        let models = all.filter(|of| of.is_own && of.kind == HolderKind::Parameters);
        let models: Vec<&Holder> = models.collect();
        let has_several = models.len() > 1 || models.iter().any(|of| of.text.contains("[…]"));
        // Each thread still makes its model.
        let is_request =
            self.verdict.line.as_ref() == Some(&self.facts.request.owner.clone().whole());
        self.facts.request.threads > 1 && (has_several || models.is_empty() && is_request)
    }

    /// That gradients of the model's parameters are about to be made.
    pub(super) fn first_gradients(&self) -> &'static str {
        let gradients = self.facts.of_category(Category::Gradient).bytes;
        let are_few = !notable(gradients, self.verdict.bytes, NOTABLE);
        match self.facts.request.in_backward && self.facts.steps == 0 && are_few {
            true => {
                "; in this first backward, each one that is trained gets a gradient of its size"
            }
            false => "",
        }
    }

    /// Whether what earlier rounds hold are models of as many threads.
    pub(super) fn are_of_threads(&self, kept: &Kept) -> bool {
        let threads = u64::from(self.facts.request.threads);
        threads > 1 && 2 * threads >= kept.of
    }

    /// The line that calls torch.autograd.functional for the request, if the verdict is about what it computes.
    pub(super) fn functional(&self) -> Option<String> {
        let line = self.facts.request.owner.clone().whole();
        let is_mine = self.verdict.line.as_ref() == Some(&line);
        self.caller(FUNCTIONAL).filter(|_| is_mine)
    }

    /// The line that calls copy.deepcopy() for the request, if no container has models: it may be the copies that grow.
    pub(super) fn copies_at(&self) -> Option<String> {
        let mut all = self.facts.all_holders().iter();
        let is_element =
            |of: &Holder| of.is_own && of.kind == HolderKind::Parameters && of.is_element();
        self.caller(COPY).filter(|_| !all.any(is_element))
    }

    /// The line that calls into a file, if that makes the request.
    fn caller(&self, file: &str) -> Option<String> {
        let line = caller_of(self.names, self.facts.request.stacks.py, file)?;
        Some(self.at(Some(&Owner::Line(line, None))))
    }

    /// That the request's line copies a model, and what it has so far.
    pub(super) fn copied(&self) -> String {
        let line = self.facts.request.owner.clone().whole();
        let parts = self.facts.parts.iter().filter(|of| of.owner == line);
        let sum = bytes(parts.map(|of| of.figure.bytes).sum());
        let text = |line| format!("; {line} calls copy.deepcopy(), whose copy has {sum} so far");
        self.copies_at().map_or_else(String::new, text)
    }

    /// Whether what earlier rounds did not have is mostly for a backward.
    pub(super) fn are_new_activations(&self) -> bool {
        let lines = self.facts.new.iter().flat_map(|new| &new.lines);
        let mut categories = lines.map(|(_, category, _)| *category);
        categories.next() == Some(Category::Activation)
    }

    /// A model that has gradients and no optimizer state, after a step: all of the state has as much as the parameters of a
    /// smaller one. No optimizer with state trains it.
    fn untrained(&self) -> Option<&Holder> {
        let own = || self.facts.all_holders().iter().filter(|of| of.is_own);
        let states = || own().filter(|of| of.is_of_optimizer());
        let (most, all) = states().fold((0, 0), |(most, all): (u64, u64), of| {
            (most.max(of.bytes), all.saturating_add(of.bytes))
        });
        let models = || own().filter(|of| of.kind == HolderKind::Parameters);
        let untrained = models().max_by_key(|of| of.bytes)?;
        let mut others = models().filter(|of| *of != untrained);
        let is_trained = others.any(|of| of.bytes.abs_diff(most) <= most / 20);
        let mut gradients = own().filter(|of| of.kind == HolderKind::Gradients);
        let has_gradients = gradients.any(|of| {
            let is_its = (&of.text, &of.place) == (&untrained.text, &untrained.place);
            is_its && of.bytes >= untrained.bytes / 2
        });
        let is_one = is_trained && has_gradients && untrained.bytes > all + all / 20;
        (self.facts.steps > 0 && most > 0 && is_one).then_some(untrained)
    }

    pub(super) fn advice_of_activations(&self) -> String {
        if let Some(of) = self.untrained() {
            return format!(
                "if {0}, which has gradients and no optimizer state, is not trained, call {0}.requires_grad_(False), and use torch.no_grad() for its forward if no gradient goes through it; else use a smaller batch, or torch.utils.checkpoint or torch.autocast",
                of.text
            );
        }
        let mut all = self.facts.all_holders().iter();
        if is_in_checkpoint(self.names, self.facts.request.stacks.py)
            || all.any(Holder::is_of_checkpoint)
        {
            "use a smaller batch, if they grow with it, or checkpoint smaller parts of the model: of each, all tensors are live while it runs"
        } else if self.facts.request.is_without_backward {
            "evaluating, or a model that is not trained: use torch.no_grad(); training: use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast"
        } else if !self.largest_step().is_empty() {
            "limit the size of the largest batch, or its longest sequence; else use a smaller batch, or torch.utils.checkpoint or torch.autocast"
        } else if self.has_other_models() {
            "use torch.no_grad() for the forward of a model that is not trained; else use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast"
        } else {
            "use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast"
        }
        .into()
    }

    pub(super) fn advice_of_largest(&self) -> String {
        let line = self.line();
        let request = &self.facts.request;
        if self.holder().is_some() {
            return self.advice_of_kept();
        }
        if let Some(line) = self.functional() {
            return format!(
                "call torch.autograd.functional at {line} for fewer rows at a time, or for fewer of the outputs"
            );
        }
        if self.is_read() {
            return format!(
                "del what torch.load() reads at {line} when it is no longer needed, or read it on the host: torch.load(…, map_location=\"cpu\")"
            );
        }
        if self.is_of_set_up() {
            return format!(
                "keep on the host what {line} allocates, and move to the card only what is used at a time; or allocate less there"
            );
        }
        if request.in_forward && !self.largest_step().is_empty() {
            return format!(
                "limit the size of the largest batch, or its longest sequence; else use a smaller batch, compute it in parts at {line}, or free it earlier"
            );
        }
        if request.in_forward {
            return format!(
                "use a smaller batch, if it grows with it, compute it in parts at {line}, or free it earlier"
            );
        }
        // What one call works with.
        match self.verdict.line.as_ref() == Some(&request.owner.clone().whole()) {
            true => self.advice_of_large_request(),
            false => format!("allocate less at {line}, or free it earlier"),
        }
    }

    /// That the verdict's line has most, or that others have as much.
    pub(super) fn holds(&self) -> &'static str {
        let parts = self.facts.parts.iter();
        let lines = sums(parts.map(|part| (&part.owner, part.figure)));
        let mut most = lines.iter().take(2).map(|(_, of)| of.bytes);
        match most.next() == most.next() {
            true => "holds as much as any line",
            false => "holds most",
        }
    }

    /// The large blocks of the verdict's line.
    fn mine(&self) -> impl Iterator<Item = &Large> {
        let part = |of: &Large| self.facts.parts.get(of.part);
        let is_mine =
            move |of: &&Large| part(of).map(|part| &part.owner) == self.verdict.line.as_ref();
        self.facts.largest.iter().filter(is_mine)
    }

    /// Whether torch.load() made them.
    fn is_read(&self) -> bool {
        let is_read = |of: &Large| caller_of(self.names, of.stack, LOAD).is_some();
        self.mine().next().is_some() && self.mine().all(is_read)
    }

    /// Memory that a variable or an attribute has: whether the program still needs it is not known.
    fn advice_of_kept(&self) -> String {
        let line = self.line();
        let name = self.holder().map_or("it", Holder::name);
        // A checkpoint that was read, with its optimizer's state.
        let models = || {
            let all = self.facts.all_holders().iter();
            all.filter(|of| of.is_own && of.kind == HolderKind::Parameters)
        };
        let is_read = |of: &&Holder| {
            let is_as_large = models().any(|model| model.figure() == of.figure());
            of.text.contains('\'') && is_as_large && self.is_input(of)
        };
        if let Some(of) = self.holder().filter(is_read) {
            let name = of.variable().unwrap_or(of.name());
            return format!(
                "del {name} when it is no longer needed, or read it on the host: torch.load(…, map_location=\"cpu\")"
            );
        }
        // The line that requests may work with a variable of its function.
        let drop = match self.holder().is_some_and(Holder::is_variable) {
            true if self.holder().is_some_and(|of| self.facts.is_of_request(of)) => String::new(),
            true => match self.holder().and_then(Holder::unused_after) {
                Some(line) => format!(", or del {name} before: nothing reads it after line {line}"),
                None => format!(", or del {name} before, if nothing uses it any more"),
            },
            false => format!(", or keep {name} on the host with .cpu()"),
        };
        let lacks = match crate::rules::missing(self.facts) {
            0 => String::new(),
            missing => format!("; the request lacks {}", bytes(missing)),
        };
        format!("allocate less at {line}{drop}{lacks}")
    }

    /// The object of the program that has most of what is live, if that is half of it.
    pub(super) fn most(&self) -> Option<&Holder> {
        let is_one = |of: &&Holder| {
            let is_object = matches!(of.kind, HolderKind::Object | HolderKind::Parameters);
            of.is_own && is_object && !of.is_of_calls()
        };
        let all = self.facts.all_holders().iter().filter(is_one);
        let most = all.max_by_key(|of| of.bytes)?;
        notable(most.bytes, self.facts.live, 50).then_some(most)
    }

    /// That object, after what is live.
    pub(super) fn mostly(&self) -> String {
        let named = |of| format!(", mostly {}", self.named(of));
        self.most().map_or_else(String::new, named)
    }

    /// Whether the verdict's line allocated its large blocks before the last parameter of a model was made: no batch.
    fn is_of_set_up(&self) -> bool {
        let newest = self.mine().map(|of| of.seq).max();
        let parameters = self.facts.largest_of(Category::Parameter);
        newest.is_some() && newest < parameters.map(|of| of.seq).max()
    }

    /// The largest models, if the program has several that are not in one container, with their sizes.
    pub(super) fn several_models(&self) -> String {
        const MOST: usize = 4;
        let all = self.facts.all_holders().iter();
        let is_model = |of: &&Holder| of.is_own && of.kind == HolderKind::Parameters;
        let is_large = |of: &&Holder| notable(of.bytes, self.verdict.bytes, LEFT);
        let models: Vec<&Holder> = all.filter(is_model).filter(is_large).collect();
        if self.holder().is_some() {
            return String::new();
        }
        let threads = self.facts.request.threads;
        if self.is_of_threads() {
            return format!("; {threads} threads made models there, and most of these are live");
        }
        if models.len() < 2 {
            return String::new();
        }
        let names = models.iter().take(MOST);
        let names = names.map(|of| format!("{} ({})", of.text, bytes(of.bytes)));
        format!("; of {}", names.collect::<Vec<_>>().join(", "))
    }

    /// Whether the program has models of several sizes, such as a teacher and its student. One of the same size may be a copy.
    fn has_other_models(&self) -> bool {
        // After a step, a forward that had no backward is known.
        if self.facts.steps > 0 {
            return false;
        }
        let all = self.facts.all_holders().iter();
        let is_model = |of: &&Holder| of.is_own && of.kind == HolderKind::Parameters;
        let mut sizes: Vec<u64> = all.filter(is_model).map(|of| of.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.len() > 1
    }

    /// Whether an optimizer has state only for parameters that only it has, and another one trains what there is.
    pub(super) fn has_no_model(&self, parameters: &Holder) -> bool {
        let is_its =
            |of: &&Holder| (optimizer(of), &of.place) == (optimizer(parameters), &parameters.place);
        let all = self.facts.all_holders().iter();
        let all = all.filter(|of| of.is_of_optimizer() && !of.is_only_of_optimizer());
        let (its, others): (Vec<&Holder>, Vec<&Holder>) = all.partition(is_its);
        let is_whole = its.iter().all(|of| of.blocks <= parameters.blocks);
        !its.is_empty() && is_whole && !others.is_empty()
    }

    /// The list whose tensors together are as large as the request, and their number.
    pub(super) fn joined(&self) -> Option<(&str, u64)> {
        let request = self.facts.request.bytes;
        let is_list = |of: &&Holder| of.kind == HolderKind::Object && of.is_own && of.blocks > 1;
        let mut lists = self.facts.all_holders().iter().filter(is_list);
        let list = lists.find(|of| of.bytes.abs_diff(request) <= request / 64)?;
        let is_line = !self.facts.request.in_forward && !self.facts.request.in_backward;
        (is_line && list.has_range()).then_some((list.name(), list.blocks))
    }
}
