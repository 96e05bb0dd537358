//! What earlier rounds hold, in words.

use gpumem_replay::attribution::Owner;
use gpumem_replay::units::{bytes, count, many};
use gpumem_replay::{Category, Figure};

use super::Text;
use super::paths::enumerated;
use crate::facts::Longer;
use crate::holders::{Holder, HolderKind};
use crate::kept::{Kept, KeptLine};
use crate::verdict::Kind;

impl Text<'_> {
    /// What earlier rounds hold.
    pub(super) fn rounds(&self) -> String {
        let Some(kept) = self.kept() else {
            return String::new();
        };
        let of = match self.verdict.kind == Kind::EarlierModels && self.are_of_threads(kept) {
            true => format!("{} threads", self.facts.request.threads),
            false => of_rounds(kept),
        };
        let sum = format!("{} ({})", self.size(), self.share());
        let from = self.lines_of(kept);
        let (what, by) = match self.verdict.kind {
            Kind::KeptTensors if crate::rules::is_without_object(self.facts, kept) => {
                ("tensors of", "; no Python object has them".into())
            }
            Kind::KeptTensors => ("tensors of", self.shared() + &self.kept_by()),
            Kind::EarlierModels => ("models of", self.kept_by()),
            Kind::PreviousRound => ("memory of", self.kept_by() + &self.longest()),
            Kind::Waiting => ("the graphs of", self.kept_by()),
            Kind::KeptGraphs => ("autograd graphs of", self.probable_holder(kept)),
            _ => ("tensors of", self.probable_holder(kept)),
        };
        let without = kept.of - kept.with_backward.min(kept.of);
        let is = match self.verdict.kind {
            Kind::Waiting if without < kept.of => {
                &format!("are still live, {without} of them without a backward")
            }
            Kind::KeptTensors | Kind::KeptGraphs | Kind::EarlierModels => "are still live",
            Kind::Waiting if self.is_of_buffers(kept) => "are still live",
            Kind::PreviousRound => "is still live",
            Kind::Waiting => "wait for a backward",
            _ => "are still live, and no backward has used them",
        };
        if let Some(module) = self.grown_module() {
            let parts = parts_of_models(kept);
            return format!(
                "{}, {}, grows by sub-modules, and those of {of} are still live: {sum}{parts}, {from}",
                module.text, module.place
            );
        }
        let each = match self.verdict.kind {
            Kind::EarlierModels => parts_of_models(kept),
            Kind::PreviousRound => String::new(),
            Kind::Waiting if without < kept.of => String::new(),
            _ if kept.is_line => String::new(),
            _ => format!(", {} a round", bytes(kept.figure.bytes / kept.of.max(1))),
        };
        format!("{what} {of} {is}: {sum}{each}, {from}{by}")
    }

    /// That a forward never requested so much before.
    pub(super) fn longest(&self) -> String {
        let request = &self.facts.request;
        let before = request.largest_before.unwrap_or(request.bytes);
        match request.in_forward && before < request.bytes / 10 * 9 {
            true => {
                let size = bytes(request.bytes);
                format!("; {size} is requested{}", self.largest_before())
            }
            false => String::new(),
        }
    }

    /// What becomes larger each time.
    pub(super) fn lengthened(&self) -> String {
        let all = self.facts.longer.iter();
        let line_of = |of: &&Longer| Some(&of.owner) == self.verdict.line.as_ref();
        let Some(longer) = all.filter(line_of).min_by_key(|of| of.is_computed) else {
            return String::new();
        };
        let others = crate::rules::together(self.facts, longer);
        let lines = || [longer].into_iter().chain(others.iter().copied());
        let own: Figure = match crate::rules::is_of_graph(self.facts, longer) {
            false => lines().map(|of| of.figure).sum(),
            true => Figure {
                bytes: self.verdict.bytes,
                blocks: self.verdict.blocks,
            },
        };
        let labels = lines().map(|of| of.owner.label(self.names));
        let (labels, verb) = match others.len() {
            0 => (self.line(), "allocates"),
            1 => (labels.collect::<Vec<_>>().join(" and "), "allocate"),
            _ => (self.listed(labels), "allocate"),
        };
        let share = format!("({})", self.share());
        let (share, computed) = match own.bytes < self.verdict.bytes {
            false => (format!(" {share}"), String::new()),
            true => (
                String::new(),
                format!("; with what is computed from it {} {share}", self.size()),
            ),
        };
        format!(
            "what {labels} {verb} becomes larger each time: {}{share} in {} now, at least {} more in each of the last {}{computed}{}",
            bytes(own.bytes),
            many(own.blocks, "block", "blocks"),
            bytes(longer.rise.0),
            many(longer.rises, "time", "times"),
            self.kept_by()
        )
    }

    /// The lines with most of what is kept, and the loop.
    fn lines_of(&self, kept: &Kept) -> String {
        let large = |line: &&KeptLine| line.figure.bytes >= kept.figure.bytes / 4;
        let lines: Vec<&KeptLine> = kept.lines.iter().filter(large).collect();
        let label = |owner: &Owner| owner.label(self.names);
        let from =
            match &lines[..] {
                [only] if only.figure.bytes == kept.figure.bytes => {
                    format!("from {}", label(&only.owner))
                }
                [only] => format!("mostly from {}", label(&only.owner)),
                [] => "from many lines".into(),
                lines => self.listed(lines.iter().map(|line| {
                    format!("{} from {}", bytes(line.figure.bytes), label(&line.owner))
                })),
            };
        if kept.is_line {
            return from;
        }
        let begins = kept
            .begins
            .iter()
            .map(|line| format!("rounds begin at {}", label(line)));
        let made = kept.made_at.iter().filter(|line| {
            let is_said = lines.iter().any(|of| of.owner == **line);
            kept.is_graph && !is_said && kept.begins.as_ref() != Some(line)
        });
        let made = made.map(|line| format!("forward called at {}", label(line)));
        let places: Vec<String> = begins.chain(made).collect();
        match places.is_empty() {
            true => from,
            false => format!("{from} ({})", places.join(", ")),
        }
    }

    /// The one module that has what is live of all rounds' models.
    pub(super) fn grown_module(&self) -> Option<&Holder> {
        let is_of_rounds = self.verdict.kind == Kind::EarlierModels && self.kept()?.of > 1;
        let is_module = |of: &&Holder| of.kind == HolderKind::Parameters;
        let module = self.holders().find(is_module).filter(|_| is_of_rounds)?;
        let is_it = |of: &Holder| {
            let is_module = matches!(of.kind, HolderKind::Parameters | HolderKind::Gradients);
            is_module && (&of.text, &of.place) == (&module.text, &module.place)
        };
        // One optimizer has its state.
        let is_state = |of: &Holder| of.is_of_optimizer() && !of.is_of_optimizers();
        let is_module = is_it(module) && !module.text.contains('[');
        (is_module && self.holders().all(|of| is_it(of) || is_state(of))).then_some(module)
    }

    fn shared(&self) -> String {
        match self.facts.shared {
            0 => String::new(),
            shared => format!(
                "; the program shared memory with other processes {}, and what they have not released stays allocated",
                many(shared, "time", "times")
            ),
        }
    }

    /// The walk's, or the line whose tensor comes last.
    fn probable_holder(&self, kept: &Kept) -> String {
        match &kept.last {
            _ if self.holder().is_some() => self.kept_by(),
            Some(line) if !line.in_forward => {
                format!(
                    "; probably kept by the tensor of {}",
                    line.owner.label(self.names)
                )
            }
            Some(_) | None => String::new(),
        }
    }
}

/// What is live of models.
fn parts_of_models(kept: &Kept) -> String {
    let parts = [
        (Category::Parameter, "parameters"),
        (Category::Gradient, "gradients"),
        (Category::OptimizerState, "optimizer state"),
    ];
    let live = parts.iter().filter(|(of, _)| kept.categories.contains(of));
    let names: Vec<&str> = live.map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" of {}", enumerated(&names)),
    }
}

/// The rounds of which memory is live.
fn of_rounds(kept: &Kept) -> String {
    let before = kept.rounds - 1;
    let what = ("earlier round", "earlier rounds");
    match kept.of {
        _ if kept.is_line => many(
            kept.figure.blocks,
            "earlier allocation",
            "earlier allocations",
        ),
        1 if !kept.is_growth && !kept.of_models => "the round before".into(),
        of if of >= before => many(of, what.0, what.1),
        of => {
            let all = many(before, what.0, what.1);
            match kept.each {
                Some(1) => format!("the newest {} of {all}", count(of)),
                Some(each) => format!("{} of {all} (one in {})", count(of), count(each)),
                None => format!("{} of {all}", count(of)),
            }
        }
    }
}
