//! What to do about objects whose kind says what keeps them: caches, futures, queues, optimizers.

use super::Text;
use super::paths::{enumerated, optimizer};
use crate::holders::{Holder, HolderKind};

impl Text<'_> {
    /// What to do about an object whose kind says what keeps it.
    pub(super) fn advice_of_holder(&self) -> Option<String> {
        let holder = self.holder()?;
        let (name, is_graph) = (holder.name(), holder.kind == HolderKind::Graph);
        if let Some(function) = holder.cached_by() {
            return Some(match is_graph {
                true => format!(
                    "return .detach() of the tensor from {function}(): its cache keeps each result, with its graph"
                ),
                false => format!(
                    "call {function}.cache_clear() when its results are no longer needed, or give its lru_cache a smaller maxsize"
                ),
            });
        }
        if is_graph {
            return None;
        }
        if holder.cached_property().is_some() {
            let is_like = |of: &&Holder| {
                let is_same = (of.kind, of.name(), &of.place) == (holder.kind, name, &holder.place);
                is_same && of.bytes >= holder.bytes / 2
            };
            let like = self.facts.all_holders().iter().filter(is_like);
            let names = like.filter_map(|of| Some(format!(".{}", of.cached_property()?)));
            return Some(format!(
                "del {} when no longer needed, or make it a property: a cached_property keeps its value as long as its object",
                enumerated(&names.collect::<Vec<_>>())
            ));
        }
        if holder.text.ends_with(".result()") {
            return Some(format!(
                "drop each future from {name} once its result is used, or return the result on the host with .cpu()"
            ));
        }
        // A tensor in an attribute with that name is no queue.
        let queue = Some(name)
            .filter(|_| holder.is_element())?
            .strip_suffix("._queue")
            .or_else(|| name.strip_suffix(".queue"))?;
        // A method of the program's own class, which is no queue.Queue.
        if queue == "self" && !holder.place.contains("Queue.") {
            return Some(format!(
                "let {name} have fewer tensors, or put them on the host with .cpu()"
            ));
        }
        Some(format!(
            "let {name} have fewer: if {queue} is a queue.Queue or an asyncio.Queue, give it a maxsize, so that what fills it waits; or put the tensors on the host with .cpu()"
        ))
    }

    /// What to do about parameters that were replaced, and that an optimizer keeps.
    pub(super) fn advice_of_replaced(&self) -> Option<String> {
        let first = self.holder().filter(|of| of.is_of_optimizer())?;
        let is_same = |of: &&Holder| (of.name(), &of.place) == (first.name(), &first.place);
        let mut all = self.facts.all_holders().iter().filter(is_same);
        let holder = all.find(|of| of.is_only_of_optimizer())?;
        if self.has_no_model(holder) {
            return Some(format!("del {} with its model", optimizer(holder)));
        }
        Some(format!(
            "make a new optimizer when a parameter is replaced, or delete the old one from {0}.state and {0}.param_groups",
            optimizer(holder)
        ))
    }
}
