//! What the name and the place of a holder show about it.

use gpumem_replay::Figure;

use super::{Holder, HolderKind};

impl Holder {
    /// Bytes and blocks.
    pub(crate) fn figure(&self) -> Figure {
        Figure {
            bytes: self.bytes,
            blocks: self.blocks,
        }
    }

    /// Whether its elements are of type float64.
    pub fn is_double(&self) -> bool {
        self.double > 0 && self.double >= self.bytes / 10 * 9
    }

    /// The object that has the blocks: `metric.preds` for `metric.preds[0…213]`.
    pub fn name(&self) -> &str {
        if let Some((list, _)) = self.list_in_state() {
            return list;
        }
        let (_, whole) = self.cache_and_object();
        let whole = whole.strip_suffix(".result()").unwrap_or(whole);
        let first = |test: &dyn Fn(&str) -> bool| {
            let mut starts = whole.match_indices('[').map(|(at, _)| at);
            starts.find(|at| {
                let rest = whole.get(at + 1..).unwrap_or_default();
                rest.split_once(']').is_some_and(|(index, _)| test(index))
            })
        };
        // The outermost container that has several of them, the outermost list, or the innermost container.
        let range = first(&|index| index.contains('…'));
        let list = || first(&|index| index.bytes().all(|c| c.is_ascii_digit()));
        let last = || whole.strip_suffix(']').and_then(|text| text.rfind('['));
        match range.or_else(list).or_else(last) {
            Some(end) if end > 0 => whole.get(..end).unwrap_or(whole),
            _ => whole,
        }
    }

    /// The variable whose elements have the blocks: `state` for `state['optimizer'][0…3]`. Also an attribute, if they are
    /// its elements, or in dictionaries and lists there: `self.state` for `self.state['model']['weight']`.
    pub fn variable(&self) -> Option<&str> {
        let (name, rest) = self.text.split_at(self.text.find('[')?);
        let is_elements = || {
            rest.split(']')
                .all(|of| of.is_empty() || of.starts_with('['))
        };
        let is_name = !name.is_empty() && !name.contains(['→', ' ', '(']);
        (is_name && (!name.contains('.') || is_elements())).then_some(name)
    }

    /// What `functools` keeps, and the object without that: `6 results` and `features()` of `cache of features(), 6 results`.
    fn cache_and_object(&self) -> (Option<&str>, &str) {
        let kept = |of: &str| {
            of == "cached property" || of.ends_with(" result") || of.ends_with(" results")
        };
        match self.text.rsplit_once(", ") {
            Some((object, of)) if kept(of) => {
                (Some(of), object.strip_prefix("cache of ").unwrap_or(object))
            }
            _ => (None, &self.text),
        }
    }

    /// The function whose `functools.lru_cache` keeps it. A list that one of the results has is not the cache's.
    pub fn cached_by(&self) -> Option<&str> {
        let (kept, object) = self.cache_and_object();
        let (function, rest) = object.split_once("()")?;
        (kept.is_some() && !rest.contains('…')).then_some(function)
    }

    /// The attribute that a `functools.cached_property` keeps.
    pub fn cached_property(&self) -> Option<&str> {
        let object = self.text.strip_suffix(", cached property")?;
        object.rsplit('.').next()
    }

    /// The line of its place, after which its functions do not read its variable again.
    pub(crate) fn unused_after(&self) -> Option<&str> {
        let (_, line) = self.place.strip_suffix(')')?.rsplit_once(':')?;
        self.unused.then_some(line)
    }

    /// Whether it is a container that has several of the blocks.
    pub fn is_container(&self) -> bool {
        self.blocks > 1 && (self.text.contains('[') || self.cached_by().is_some())
    }

    /// Whether it is an element of a container, or the results of a cache.
    pub(crate) fn is_element(&self) -> bool {
        self.text.ends_with(']') || self.text.ends_with(" results")
    }

    /// Whether it is an attribute, or an element of one.
    pub(crate) fn is_in_attribute(&self) -> bool {
        let object = self.text.split('[').next();
        object.is_some_and(|object| object.contains('.'))
    }

    /// Whether several elements of a container have the blocks.
    pub fn has_range(&self) -> bool {
        self.text.contains('…')
    }

    /// Whether it is a variable itself, not an element or an attribute.
    pub fn is_variable(&self) -> bool {
        !self.text.contains(['[', '.', '→', '('])
    }

    /// Whether it is a variable, or one element of one, such as a recurrent state: a round passes it to the next one.
    pub fn is_state(&self) -> bool {
        let (name, index) = self.text.split_once('[').unwrap_or((&self.text, "]"));
        let is_one = !index.contains(['…', '[', '.', '→', '(']) && index.ends_with(']');
        is_one && !name.contains(['.', '→', '('])
    }

    /// The number of elements of a variable's list: 3 of `state[0…2][1]`.
    pub fn elements(&self) -> Option<u64> {
        let (name, rest) = self.text.split_once("[0…")?;
        let (last, rest) = rest.split_once(']')?;
        let is_plain = |text: &str| !text.contains(['.', '→', '(', '…']);
        let last: u64 = last.parse().ok()?;
        (is_plain(name) && !name.contains('[') && is_plain(rest)).then(|| last.saturating_add(1))
    }

    /// Whether it is a variable of several calls of one function that have not returned: work that goes on.
    pub fn is_of_calls(&self) -> bool {
        self.place.starts_with("local of ") && self.place.contains(" calls of ")
            || self.text.contains("] → coroutine ")
    }

    /// Whether it is the graph of gradients, which `backward(create_graph=True)` makes.
    pub fn is_of_gradients(&self) -> bool {
        self.kind == HolderKind::Graph && self.text.starts_with("gradients of ")
    }

    /// Whether it is the state of an optimizer, whose keys are tensors.
    pub fn is_of_optimizer(&self) -> bool {
        self.kind == HolderKind::Object && self.text.contains(".state[…]")
    }

    /// A list in the state of an optimizer that has several tensors of each parameter, and what follows it: `opt.state[…]['old']`
    /// of `opt.state[…]['old'][0…51]`.
    fn list_in_state(&self) -> Option<(&str, &str)> {
        let state = self
            .text
            .find(".state[")
            .filter(|_| self.is_of_optimizer())?;
        let list = self
            .text
            .rfind("[0…")
            .filter(|list| *list > state + ".state".len())?;
        self.text.split_at_checked(list)
    }

    /// Whether it is in such a list.
    pub(crate) fn is_in_list_in_state(&self) -> bool {
        self.list_in_state().is_some()
    }

    /// Whether a container of models or optimizers has it.
    pub(crate) fn has_range_of_models(&self) -> bool {
        let before = self.text.split(".state[").next();
        before.is_some_and(|text| text.contains('…'))
    }

    /// Whether it is parameters that an optimizer has as keys of its state, or their gradients: an object of the program that
    /// has them would be named.
    pub fn is_only_of_optimizer(&self) -> bool {
        let text = self.text.strip_suffix(".grad").unwrap_or(&self.text);
        // Of several optimizers, each has those of its model.
        text.strip_suffix(".state[…]")
            .is_some_and(|of| !of.contains('['))
    }

    /// Whether it is the state of the optimizers that a container has.
    pub fn is_of_optimizers(&self) -> bool {
        self.is_of_optimizer() && self.has_range_of_models()
    }

    /// Whether it is a list to which only a running call refers, such as a comprehension.
    pub fn is_being_built(&self) -> bool {
        let is_value = self.is_value() || self.text.starts_with("list[");
        self.kind == HolderKind::Native && is_value && self.is_container()
    }

    /// Whether it is an attribute of an object that is being made.
    pub(crate) fn is_of_new_object(&self) -> bool {
        let is_local = self.place.starts_with("local of ") && self.text.starts_with("self.");
        is_local && self.place.contains(".__init__ (")
    }

    /// Whether it is what torch.utils.checkpoint computes again for a backward that runs.
    pub(crate) fn is_of_checkpoint(&self) -> bool {
        self.kind == HolderKind::Native && self.text.contains("_checkpoint_hook")
    }

    /// Whether it is a value with which a running call of a Python function works.
    pub fn is_value(&self) -> bool {
        let place = self.place.strip_prefix("native code or ");
        self.kind == HolderKind::Native && place.is_some_and(|place| place.ends_with(')'))
    }

    /// Whether it is a variable of a forward that runs.
    pub fn is_in_forward(&self) -> bool {
        is_in_forward(&self.place)
    }
}

/// Whether a place is in a forward.
pub(crate) fn is_in_forward(place: &str) -> bool {
    let function = place.rsplit("local of ").next().unwrap_or_default();
    let function = function.rsplit(" calls of ").next().unwrap_or_default();
    let name = function.split(' ').next().unwrap_or_default();
    place.starts_with("local of ") && name.rsplit('.').next() == Some("forward")
}
