//! Who keeps memory, in words.

use std::collections::BTreeMap;

use gpumem_replay::attribution::Owner;
use gpumem_replay::units::bytes;

use super::Text;
use super::paths::{common, distinct, enumerated, of_call, of_class, of_native, optimizer};
use crate::facts::Large;
use crate::holders::{Holder, HolderKind, Holders};
use crate::verdict::Kind;

impl Text<'_> {
    /// The one that keeps most.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.holders().next()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        let all = self.facts.all_holders();
        self.verdict.holders.iter().filter_map(|at| all.get(*at))
    }

    /// How the text names a holder. Of a container with blocks in several ways, such as by key, only the container.
    fn name(&self, holder: &Holder) -> String {
        let all = self.facts.all_holders().iter();
        let mut others = all.filter(|other| other.text != holder.text && other.kind == holder.kind);
        let is_part =
            |other: &Holder| (other.name(), &other.place) == (holder.name(), &holder.place);
        let mut text = match holder.text.ends_with(']') {
            true if others.any(is_part) => format!("{}[…]", holder.name()),
            true => holder.text.clone(),
            // Attributes of the same objects that have as much, such as keys and values.
            false => {
                let is_attribute = |of: &Holder| !of.text.contains(['→', '(']);
                let is_like = |of: &&Holder| is_part(of) && of.bytes >= holder.bytes / 2;
                let parts = others.filter(is_like).filter(|_| is_attribute(holder));
                let texts: Vec<&str> = parts.map(|of| &*of.text).chain([&*holder.text]).collect();
                match texts.len() {
                    1 => holder.text.clone(),
                    _ => common(&texts),
                }
            }
        };
        if holder.is_double() {
            text += " (float64)";
        }
        match holder.kind {
            HolderKind::Graph => format!("the graph of {text}"),
            HolderKind::Parameters => format!("the parameters and buffers of {text}"),
            HolderKind::Gradients => format!("the gradients of {text}"),
            _ => text,
        }
    }

    /// `metric.preds[0…213], local of main (train.py:31)`
    pub(super) fn named(&self, holder: &Holder) -> String {
        format!("{}, {}", self.name(holder), holder.place)
    }

    /// What has all of it, if that are models with what belongs to them, and where it is.
    fn models(&self) -> Option<(String, &str)> {
        let all: Vec<&Holder> = self.holders().collect();
        let first = *all.first()?;
        let is_model = first.kind == HolderKind::Parameters && all.len() > 1;
        let texts: Vec<&str> = all.iter().map(|of| &*of.text).collect();
        let name = common(&texts);
        let is_common = texts
            .iter()
            .all(|text| text.starts_with(name.trim_end_matches("[…]")));
        let variables = || {
            let mut names: Vec<&str> = Vec::new();
            for text in &texts {
                let name = text.split(['.', '[']).next().unwrap_or(text);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.join(" and ")
        };
        let name = if is_common { name } else { variables() };
        is_model.then(|| (name, &*first.place))
    }

    /// The variable that has all of it, if it has that in several parts.
    fn variable(&self) -> Option<(&str, &str)> {
        let all: Vec<&Holder> = self.holders().collect();
        let first = *all.first()?;
        let name = first.variable()?;
        let same = |of: &&Holder| of.variable() == Some(name) && of.place == first.place;
        (all.len() > 1 && all.iter().all(same)).then_some((name, &*first.place))
    }

    /// Who keeps it, at the end of a sentence.
    pub(super) fn kept_by(&self) -> String {
        let mut holders: Vec<&Holder> = self.holders().collect();
        // What the forward that runs needs is a small part.
        if holders.iter().any(|of| !of.is_in_forward()) {
            holders.retain(|of| !of.is_in_forward());
        }
        let place = holders.first().map(|holder| &holder.place);
        if let Some((name, place)) = self.models() {
            return format!("; kept by {name}, {place}");
        }
        if let Some(holder) = holders.first().filter(|of| of.kind == HolderKind::Native) {
            return format!("; kept by {}", of_native(holder));
        }
        let graph = holders.first().filter(|of| of.kind == HolderKind::Graph);
        if let Some(container) = graph.and_then(|of| of_call(of)) {
            return format!("; kept by {container}");
        }
        let also = holders.iter().find_map(|holder| holder.also.as_ref());
        let also = also.filter(|also| !also.contains(".forward ("));
        let also = also.map_or_else(String::new, |also| format!("; also by {also}"));
        let is_one_place = holders.iter().all(|holder| Some(&holder.place) == place);
        let kept = match self.part_with(&holders) {
            Some(part) => format!("{} of it kept", bytes(part)),
            None => "kept".into(),
        };
        match (&holders[..], place) {
            ([], _) | (_, None) => String::new(),
            (holders, Some(place)) if is_one_place => {
                let names = distinct(holders.iter().map(|holder| self.name(holder)));
                format!("; {kept} by {}, {place}{also}", names.join(" and "))
            }
            (holders, _) => {
                let names = distinct(holders.iter().map(|of| self.named(of)));
                format!("; {kept} by {}{also}", names.join("; and by "))
            }
        }
    }

    /// What these have, if that is clearly less than all of it.
    fn part_with(&self, holders: &[&Holder]) -> Option<u64> {
        let is_whole = |of: &&Holders| of.cut.is_none() && !of.is_earlier;
        // Their bytes are those of other blocks, too.
        let is_of_live = !matches!(self.verdict.kind, Kind::PrivatePools | Kind::Lengthened);
        self.facts
            .holders
            .as_ref()
            .filter(is_whole)
            .filter(|_| is_of_live)?;
        let is_of = |of: &&Holder| {
            // A line's tensor may have a graph of other lines.
            let is_kind = |one: &Holder| self.verdict.kind != Kind::Largest || one.kind == of.kind;
            let mut named = holders.iter();
            named.any(|one| is_kind(one) && (one.name(), &one.place) == (of.name(), &of.place))
        };
        let all = self.facts.all_holders().iter().filter(is_of);
        let part: u64 = all.map(|of| of.bytes).sum();
        (part < self.verdict.bytes / 10 * 9).then_some(part)
    }

    /// A sentence about the holder alone.
    pub(super) fn held(&self) -> String {
        let Some(holder) = self.holder() else {
            return String::new();
        };
        let sum = format!("{} ({}) in {}", self.size(), self.share(), self.blocks());
        match self.verdict.kind {
            Kind::Exception => format!(
                "an exception keeps what a call that failed before had: {sum}, mostly {}{}",
                self.named(holder),
                self.allocated_by()
            ),
            Kind::Cycle => format!(
                "objects that only refer to each other keep {sum} until the garbage collector runs: mostly {}{}",
                holder.text,
                self.allocated_by()
            ),
            _ if holder.kind == HolderKind::Parameters && self.models().is_none() => format!(
                "{} makes a model while the one before is still live: {sum}, kept by {}, {}",
                self.line(),
                holder.text,
                holder.place
            ),
            _ if holder.is_only_of_optimizer() && self.has_no_model(holder) => format!(
                "parameters whose model is gone, and to which only {}, {} refers, keep {sum}{}, without their optimizer state",
                optimizer(holder),
                holder.place,
                self.allocated_by()
            ),
            _ if holder.is_only_of_optimizer() => format!(
                "parameters that the program has replaced, and to which only {}, {} refers, keep {sum}{}, without their optimizer state",
                optimizer(holder),
                holder.place,
                self.allocated_by()
            ),
            _ if holder.is_value() => {
                let container = of_call(holder).unwrap_or_default();
                format!("{container} keeps {sum}{}", self.allocated_by())
            }
            _ if holder.kind == HolderKind::Native => {
                format!("{}, keep {sum}{}", of_native(holder), self.allocated_by())
            }
            _ if holder.place.contains(" calls of ") => {
                let calls = holder.place.trim_start_matches("local of ");
                let names: Vec<String> = self.holders().map(|of| self.name(of)).collect();
                format!(
                    "{calls} keep {sum} ({}){}",
                    names.join(", "),
                    self.allocated_by()
                )
            }
            _ => {
                let names = distinct(self.holders().map(|of| self.name(of)));
                let is_one_place = self.holders().all(|of| of.place == holder.place);
                let several = (2..=4).contains(&names.len()) && is_one_place;
                let who = match (self.models(), self.variable()) {
                    (Some((name, place)), _) => format!("{name}, {place}"),
                    (None, Some((name, place))) => format!("{name}[…], {place}"),
                    (None, None) if several => format!("{}, {}", enumerated(&names), holder.place),
                    (None, None) => self.named(holder),
                };
                let (of, from) = (self.of_models(), self.allocated_by());
                let keep = match who.contains(" and ") {
                    true => "keep",
                    false => "keeps",
                };
                format!("{who} {keep} {sum}{of}{from}")
            }
        }
    }

    /// What it is, if that are models, or the state of optimizers.
    fn of_models(&self) -> String {
        let any = |test: &dyn Fn(&Holder) -> bool| self.holders().any(test);
        let parts = [
            (self.models().is_some(), "parameters"),
            (any(&|of| of.kind == HolderKind::Gradients), "gradients"),
            (any(&Holder::is_of_optimizer), "optimizer state"),
        ];
        let parts = parts.into_iter().filter(|(is_part, _)| *is_part);
        let parts: Vec<&str> = parts.map(|(_, of)| of).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!(" of {}", enumerated(&parts)),
        }
    }

    /// The line that allocated most of it.
    fn allocated_by(&self) -> String {
        let Some(line) = self.verdict.line.as_ref() else {
            return String::new();
        };
        let is_held = |of: &&Large| {
            let at = self.facts.holder_of(of);
            at.is_some_and(|at| self.verdict.holders.contains(&at))
        };
        let mut lines: BTreeMap<&Owner, u64> = BTreeMap::new();
        for of in self.facts.largest.iter().filter(is_held) {
            if let Some(part) = self.facts.parts.get(of.part) {
                *lines.entry(&part.owner).or_default() += of.bytes;
            }
        }
        let mine = lines.remove(line).unwrap_or(0);
        let (others, most) = (lines.values().sum::<u64>(), lines.values().max());
        let mostly = match mine {
            _ if others <= mine / 9 => "",
            _ if mine == 0 || mine > others => "mostly ",
            _ if Some(&mine) <= most => "a part ",
            _ => "the largest part ",
        };
        format!(", {mostly}from {}", self.at(Some(line)))
    }

    /// That tensors are views, and what it would free if they were not.
    pub(super) fn of_views(&self) -> String {
        let covers = |of: &Holder| of.covers.unwrap_or(of.bytes);
        let all: u64 = self.holders().map(|of| of.bytes).sum();
        match self.holders().map(covers).sum::<u64>() {
            covered if covered < all => format!(
                "; or .clone() them: they are views (slices, parts of .split()), {} of the {} that they keep",
                bytes(covered),
                bytes(all)
            ),
            _ => String::new(),
        }
    }

    /// Whether the line of the verdict, or its function, makes the request, too: the request is for one more.
    fn is_being_made(&self) -> bool {
        let is_kept = |of: &Holder| of.place.starts_with("global ") && of.is_in_attribute();
        if self.holder().is_some_and(is_kept) {
            return false;
        }
        let request = self.facts.request.owner.clone().whole();
        let function = |of: &Owner| {
            of.line()
                .map(|line| (line.file.clone(), line.function.clone()))
        };
        self.verdict.line.as_ref().is_some_and(|line| {
            let is_script = line.function() == "<module>";
            *line == request || !is_script && function(line) == function(&request)
        })
    }

    /// Whether the functions that have this variable do not read it again.
    fn is_unused(&self, variable: &str) -> bool {
        let all = |of: &Holder| of.unused_after().is_some();
        !variable.contains('.') && self.holders().all(all)
    }

    pub(super) fn advice_of_held(&self) -> Option<String> {
        let holder = self.holder()?;
        let name = match holder.kind {
            HolderKind::Native => "it",
            _ => holder.name(),
        };
        Some(match self.verdict.kind {
            Kind::Exception if holder.place.starts_with("exception") => {
                "leave the except block before you try again: the exception is dropped at its end".into()
            }
            Kind::Exception => {
                let exception = holder.text.split(" → ").next().unwrap_or("e");
                let call = match exception.contains('…') {
                    true => format!("traceback.clear_frames(e.__traceback__) for each exception e in {}", holder.name()),
                    false => format!("traceback.clear_frames({exception}.__traceback__)"),
                };
                format!("keep a text of the exception instead of the exception, or call {call}")
            }
            Kind::Cycle if of_class(holder).ends_with("Backward") => {
                "pass these tensors to ctx.save_for_backward() instead of storing them as attributes of ctx".into()
            }
            Kind::Cycle => "break the cycle where the objects are no longer needed, or refer to one of them with weakref; gc.collect() frees them meanwhile".into(),
            _ if holder.is_of_calls() => {
                let names: Vec<&str> = self.holders().map(|of| &*of.text).collect();
                let is_unused = |of: &Holder| of.unused && of.is_variable();
                let them = if names.len() == 1 { "it" } else { "them" };
                let del = match self.holders().all(is_unused) {
                    true => format!("del {} before a call waits: it does not use {them} again; or ", names.join(", ")),
                    false => String::new(),
                };
                format!("{del}let fewer of these calls run at once, or let each of them need less")
            }
            _ if self.holders().all(Holder::is_of_optimizers) => format!(
                "drop the earlier optimizers, or what keeps them in {name}, before the next one is made"
            ),
            _ if self.advice_of_replaced().is_some() => return self.advice_of_replaced(),
            _ if holder.kind == HolderKind::Parameters && self.of_copy().is_some() => return self.of_copy(),
            _ if holder.kind == HolderKind::Parameters && self.models().is_none() => format!(
                "del {name}, or assign None to it, before the next model is made, or move it to the host with .cpu()"
            ),
            _ if self.models().is_some() && !holder.has_range() => {
                let (names, _) = self.models().unwrap_or_default();
                format!("del {names} before the next model is trained, if nothing uses what it has any more, or move the model to the host with .cpu(); gradients and optimizer state are no longer needed")
            }
            _ if self.models().is_some() => "keep only the model in use on the card, and the others, with their gradients and optimizer state, on the host".into(),
            _ if self.advice_of_holder().is_some() => return self.advice_of_holder(),
            _ if holder.kind == HolderKind::Graph && !holder.is_own => {
                "evaluating: use torch.no_grad(); training: call backward() for each of them".into()
            }
            _ if holder.kind == HolderKind::Graph => format!(
                "if {name} need not be trained through, store .detach() in it; else call backward() earlier"
            ),
            _ if self.is_being_made() && self.variable().is_none() => format!(
                "allocate fewer or smaller tensors at {}, or keep those that are not in use on the host with .cpu(){}",
                self.line(), self.of_views()
            ),
            _ => match (self.variable(), holder.frees) {
                (Some((name, _)), _) if self.is_unused(name) => format!(
                    "del {name} earlier: nothing reads it after line {}; or keep its tensors on the host with .cpu()",
                    holder.unused_after().unwrap_or_default()
                ),
                (Some((name, _)), _) => format!(
                    "del {name} when it is no longer needed, or keep its tensors on the host with .cpu()"
                ),
                _ if self.holders().count() > 1 && self.holders().all(Holder::is_in_attribute) => {
                    let names = distinct(self.holders().map(|of| of.name().to_owned()));
                    format!("keep fewer tensors in {0}, or keep those of {0} on the host with .cpu()", enumerated(&names))
                }
                (None, Some(frees)) if frees > 0 => format!(
                    "keep fewer tensors in {name}, or keep them on the host with .cpu(): emptying it frees {}{}",
                    bytes(frees), self.of_views()
                ),
                _ => format!("keep fewer tensors in {name}, or keep them on the host with .cpu(){}", self.of_views()),
            },
        })
    }
}
