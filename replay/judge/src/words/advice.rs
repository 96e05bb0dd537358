//! What to do about a verdict.

use gpumem_replay::Category;

use super::Text;
use crate::holders::{Holder, HolderKind, is_in_forward};
use crate::kept::{Kept, KeptLine};
use crate::rules::is_of_later_model;
use crate::verdict::Kind;

/// From how many streams on with free memory each may be new.
const STREAMS: u64 = 4;

impl Text<'_> {
    pub(super) fn advice(&self) -> Option<String> {
        let advice = self.in_float32().or(self.of_kind());
        let advice = self.or_settings(advice)?;
        let advice = match self.copy_of_weights() {
            Some(copy) => format!("{}; or {advice}", without_copy(copy)),
            None => advice,
        };
        Some(match self.fits_without_others() {
            true => format!(
                "{advice}; or end the other processes, which nvidia-smi lists, or use another GPU"
            ),
            false => advice,
        })
    }

    pub(super) fn of_kind(&self) -> Option<String> {
        let line = self.line();
        let text = match self.verdict.kind {
            Kind::TooLarge if self.facts.request.allocations_before > 0 => self.advice_of_large_request(),
            Kind::TooLarge => self.advice_of_product().unwrap_or_else(|| "check the requested size, compute it in parts, or use a larger card".into()),
            Kind::OtherProcesses if self.facts.request.has_no_size => "end them or use another GPU; nvidia-smi lists them. Each process needs a context: let workers of a DataLoader return CPU tensors".into(),
            Kind::OtherProcesses => "end them, or let workers of this job use less, or use another GPU; nvidia-smi lists them".into(),
            Kind::NotMemory => "check the limits of the process: address space (ulimit -v), handles".into(),
            Kind::OwnLimit => "raise torch.cuda.set_per_process_memory_fraction, or request less".into(),
            Kind::OtherLibrary => format!("free memory at {line}, or allocate less there"),
            Kind::Exception | Kind::Cycle | Kind::Held => return self.advice_of_held(),
            Kind::KeptGraphs
            | Kind::NoBackward
            | Kind::Waiting
            | Kind::KeptTensors
            | Kind::PreviousRound
            | Kind::EarlierModels => return self.advice_of_rounds(),
            Kind::Lengthened => {
                let is_request = self.verdict.line.as_ref() == Some(&self.facts.request.owner.clone().whole());
                let line = self.verdict.line.as_ref();
                let longer = || self.facts.longer.iter().filter(|of| Some(&of.owner) == line);
                if longer().all(|of| of.is_computed) && self.holder().is_none() {
                    return Some("limit what it is computed from, which grows, or the size of a batch".into());
                }
                let is_joined = longer().any(|of| of.may_be_next(self.facts.request.bytes));
                match (is_request && is_joined, self.holders().next()) {
                    // What a forward works with.
                    (true, Some(of)) if of.is_in_forward() && of.is_variable() => "limit its length, or the size of a batch".into(),
                    (true, _) => "limit its length or size; if torch.cat makes it, keep the pieces on the host: torch.cat needs the old and the new tensor at once".into(),
                    (false, Some(of)) if !of.is_variable() || of.kind == HolderKind::Parameters => "limit its length, or keep parts of it on the host".into(),
                    (false, _) => "limit its length, or the size of a batch".into(),
                }
            }
            Kind::OtherStreams if self.facts.cache.as_ref().is_some_and(|of| of.streams >= STREAMS) => "use the same few streams for all of the work: each stream needs separate memory, and a block returns only to its own stream".into(),
            Kind::OtherStreams => "allocate on the stream that uses the memory: a block returns only to its own stream".into(),
            Kind::PrivatePools => "drop the CUDA graphs that are no longer replayed, or let them share a pool, and capture the largest first".into(),
            Kind::Fragmentation => self.advice_of_fragmentation(),
            Kind::Cached => return self.advice_of_cached(),
            Kind::LargeRequest => self.advice_of_large_request(),
            Kind::New if self.are_new_activations() => "evaluating, or a model that is not trained: use torch.no_grad(); training: use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast".into(),
            Kind::New => return None,
            Kind::Alike => "use a smaller batch, if they grow with it, compute it in parts, for example with .split() over the rows, change a tensor in place where no graph needs it, or free these tensors earlier".into(),
            Kind::Copies => self.advice_of_copies(),
            Kind::OptimizerState => {
                let request = self.facts.request.bytes.saturating_mul(2);
                let foreach = match self.facts.foreach >= crate::rules::missing(self.facts).saturating_add(request) {
                    true => "pass foreach=False to the optimizer, whose step then needs temporary memory for one tensor at a time; or ",
                    false => "",
                };
                let less = match is_of_later_model(self.facts) {
                    true => "use a smaller model",
                    false => "train fewer parameters",
                };
                format!("{foreach}use an optimizer with less state (SGD, 8-bit Adam), shard the state (ZeRO, FSDP), or {less}")
            }
            Kind::Workspaces => "set CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 or :16:8 for smaller ones, at some cost in speed".into(),
            Kind::Activations => self.advice_of_activations(),
            Kind::Model if self.copies_at().is_some() => "make the copy on the host, for example of the model's state_dict() with .cpu(), or change the model in place; or use a smaller data type (bfloat16 for float32, 8 or 4 bits)".into(),
            Kind::Model if self.holder().is_some() => {
                if let Some(advice) = self.advice_of_holder() {
                    return Some(advice);
                }
                let name = self.holder_name();
                format!("keep fewer of the models in {name} on the card: move the others to the host with .cpu(), or use a smaller data type")
            }
            Kind::Model if self.is_of_threads() => format!("{OF_THREADS}; or use a smaller data type (bfloat16 for float32, 8 or 4 bits)"),
            Kind::Model if !self.several_models().is_empty() => "keep models that are not in use on the host, or use a smaller data type (bfloat16 for float32, 8 or 4 bits), or shard them (FSDP)".into(),
            Kind::Model if !self.first_gradients().is_empty() => "train fewer parameters: those with .requires_grad_(False) get no gradient and no optimizer state; or use a smaller data type (bfloat16 for float32, 8 or 4 bits), or shard the model (FSDP)".into(),
            Kind::Model => "use a smaller data type (bfloat16 for float32, 8 or 4 bits), or shard the model (FSDP)".into(),
            Kind::Largest => self.advice_of_largest(),
            Kind::Host => "pin less (pin_memory=False), or raise ulimit -l".into(),
            Kind::Unknown if self.of_contexts().is_some() => "use a GPU with more memory, or a larger limit".into(),
            Kind::Unknown => "run it again with GPUMEM_STACKS=mixed".into(),
        };
        Some(text)
    }

    /// Whether a variable has it, or only one element of one.
    fn has_one_state(&self) -> bool {
        let is_variable = self.holder().is_some_and(Holder::is_variable);
        is_variable || self.holders().count() == 1 && self.holders().all(Holder::is_state)
    }

    /// The same, or an attribute.
    fn is_passed_on(&self) -> bool {
        let is_attribute = |of: &Holder| !of.text.contains(['[', '→', '(']);
        self.has_one_state() || self.holder().is_some_and(is_attribute)
    }

    /// Whether a list has it that is shorter than there were rounds, such as the states of layers.
    fn has_states(&self, kept: &Kept) -> bool {
        let is_short = |of: &Holder| of.elements().is_some_and(|of| 2 * of <= kept.of);
        self.holders().count() == 1 && self.holders().all(is_short)
    }

    /// Whether a short list has the graphs, such as the buffers of an optimizer, and gradients have graphs, too.
    pub(super) fn is_of_buffers(&self, kept: &Kept) -> bool {
        let last = self
            .holder()
            .and_then(|of| of.text.split_once('…')?.1.split_once(']'));
        let last: Option<u64> = last.and_then(|(last, _)| last.parse().ok());
        let is_short = last.is_some_and(|last| 2 * last < kept.of);
        kept.is_of_second_order
            && is_short
            && self.facts.all_holders().iter().any(Holder::is_of_gradients)
    }

    /// Whether the tensor whose graph it is has more than one value: it is no sum of losses.
    fn is_of_several_values(&self) -> bool {
        let all = self.facts.all_holders().iter();
        let mut objects = all.filter(|of| of.kind == HolderKind::Object && of.bytes > VALUE);
        self.holder().is_some_and(|of| {
            objects.any(|object| (&object.text, &object.place) == (&of.text, &of.place))
        })
    }

    /// What to do about the copy of the round before, while copy.deepcopy() makes the next one.
    pub(super) fn of_copy(&self) -> Option<String> {
        let holder = self.holder().filter(|_| self.facts.request.in_copy)?;
        let name = holder.text.split(['.', '[']).next()?;
        let is_name = !name.contains([' ', '(', '→']);
        is_name.then(|| format!("del {name} before copy.deepcopy() makes the next one, or make the copy on the host, for example of a state_dict() with .cpu()"))
    }

    /// Another container that has the same graphs.
    fn also(&self) -> String {
        let also = self.holder().and_then(|of| of.also.as_ref());
        let also = also.and_then(|of| of.split_once(", "));
        // What a forward works with ends with it.
        let also = also.filter(|(_, place)| !is_in_forward(place));
        also.map_or_else(String::new, |(name, _)| format!(" and in {name}"))
    }

    /// How tensors get to the host. One with a graph keeps its memory on the card, too.
    fn to_host(&self, kept: &Kept) -> &'static str {
        let mut holders = self.facts.all_holders().iter();
        let has_graph = holders.any(|of| of.kind == HolderKind::Graph);
        let has_model = self.facts.of_category(Category::Parameter).bytes > 0;
        let may_have = self.facts.trains || has_model || has_graph;
        let is_module = self
            .holder()
            .is_some_and(|of| of.kind == HolderKind::Parameters);
        match kept.is_no_grad || is_module || !may_have {
            true => ".cpu()",
            false => ".detach().cpu()",
        }
    }

    fn holder_name(&self) -> &str {
        self.holder().map_or("it", Holder::name)
    }

    fn advice_of_rounds(&self) -> Option<String> {
        if let Some(advice) = self.advice_of_holder() {
            return Some(advice);
        }
        let kept = self.kept()?;
        if let Some(advice) = self
            .of_copy()
            .filter(|_| self.verdict.kind == Kind::PreviousRound)
        {
            return Some(advice);
        }
        let (name, also) = (self.holder_name(), self.also());
        let is = |test: &dyn Fn(&Holder) -> bool| self.holder().is_some_and(test);
        let is_graph = is(&|of| of.kind == HolderKind::Graph);
        let most = kept.last.as_ref().or(kept.lines.first())?;
        let line = most.owner.label(self.names);
        let is_retained = kept.was_used && !kept.was_consumed;
        let value = value_of(kept);
        let text = match self.verdict.kind {
            Kind::KeptGraphs if is(&Holder::is_of_gradients) => "backward(create_graph=True) makes gradients with graphs: use torch.autograd.grad(…, create_graph=True) in its place, or set .grad to None in each round".into(),
            Kind::KeptGraphs if kept.of > 1 && kept.is_of_second_order && is(&Holder::is_state) => "if backward(create_graph=True) makes them, set .grad to None in each round, or use torch.autograd.grad(…, create_graph=True); .detach() what a round passes to the next one".into(),
            // A variable has one value: its graph goes through the rounds.
            Kind::KeptGraphs if kept.of > 1 && (self.has_one_state() || self.has_states(kept)) => {
                let retained = match is_retained {
                    true => "; backward() then needs no retain_graph=True",
                    false => "",
                };
                format!("one graph goes through the rounds: .detach() what a round passes to the next one, such as a state, or .item() it, such as a sum{retained}")
            }
            Kind::KeptGraphs if 2 * kept.with_backward <= kept.of && self.holder().is_some() => format!("drop the tensors in {name}{also} after the backward that uses them, or let a graph span fewer rounds"),
            // Each backward may use, and retain, the graphs of all rounds.
            Kind::KeptGraphs if is_retained && is(&Holder::has_range) => format!("store {value} of the tensors in {name}{also} that no backward uses again; drop the others there after the backward that uses them"),
            Kind::KeptGraphs if self.holder().is_some() => format!("store {value} of the tensor in {name}{also}, not the tensor with its graph"),
            // A model's own line computes it.
            Kind::KeptGraphs if most.in_forward => format!("where a result of a round is kept, such as a loss, store {value} of it, not the tensor with its graph"),
            Kind::KeptGraphs => format!("{line}: store {value} of the tensor, not the tensor with its graph"),
            Kind::Waiting if self.is_of_buffers(kept) => format!("backward(create_graph=True) makes gradients with graphs, which {name} keeps: update it under torch.no_grad(), or with .grad.detach()"),
            Kind::Waiting => {
                // Rounds with a backward did not need those before them.
                let detach = match is(&Holder::is_container) && !kept.was_consumed && kept.with_backward > 0 {
                    true => format!("store .detach() in {name}, if no backward needs it; else "),
                    false => String::new(),
                };
                format!("{detach}make the graph span fewer rounds, checkpoint it, or call backward() in each round if its loss does not need the others")
            }
            Kind::NoBackward if self.is_passed_on() && self.is_of_several_values() => "evaluating: use torch.no_grad(); training: one graph goes through the rounds: let it span fewer of them, with .detach() of what a round passes to the next one, use a smaller batch, or torch.utils.checkpoint for each round".into(),
            Kind::NoBackward => {
                let containers = self.holders().filter(|of| of.is_container()).map(Holder::name);
                let keep = match is(&|of| of.is_container() && of.is_own) {
                    true => format!("store .detach() in {}{also}", containers.collect::<Vec<_>>().join(" and in ")),
                    false => "keep .detach() of the results".into(),
                };
                format!("evaluating: use torch.no_grad(), or {keep}; training: let a graph span fewer rounds, checkpoint it, or call backward() in each round if its loss does not need the others")
            }
            Kind::EarlierModels if self.advice_of_replaced().is_some() => return self.advice_of_replaced(),
            Kind::EarlierModels if self.are_of_threads(kept) => OF_THREADS.into(),
            Kind::EarlierModels if self.grown_module().is_some() => format!(
                "let each round add less to {}, or move the sub-modules that no forward uses to the host with .cpu()",
                self.grown_module().map_or("it", Holder::name)
            ),
            Kind::EarlierModels if is(&Holder::is_of_optimizers) => format!("drop the earlier optimizers, or what keeps them in {name}: they have the parameters and gradients of their models"),
            Kind::EarlierModels if self.facts.steps == 0 => "drop the earlier model before the next one is made, or keep it on the host".into(),
            Kind::EarlierModels => "drop the earlier model and its optimizer before the next one is made, or keep it on the host".into(),
            // The model itself is in use.
            Kind::PreviousRound if is(&|of| of.kind == HolderKind::Parameters) => format!("let {name} keep less from round to round, such as in a buffer, or keep that on the host with .cpu()"),
            // A variable may pass the graph on, too.
            Kind::PreviousRound if kept.with_backward == 0 && is_graph && !is(&Holder::is_variable) => format!("evaluating: use torch.no_grad(); training: use a smaller batch, if it grows with it, or torch.utils.checkpoint; or store {value} in {name}, if no backward needs it"),
            Kind::PreviousRound if self.holder().is_some_and(|holder| !holder.is_variable()) => {
                let graph = match is_graph {
                    true => format!("{value} of the tensor"),
                    false => "it on the host with .cpu()".into(),
                };
                format!("store {graph} in {name}, or drop it at the end of a round")
            }
            Kind::PreviousRound if is_retained && is_graph => format!("if backward() has retain_graph=True, leave it out; else store {value} in {name}, or end a round with del {name}: a tensor with a graph keeps all that its forward made"),
            // A round without a backward, in a program that has others: a validation.
            Kind::PreviousRound if self.facts.trains && is_evaluation(kept) && kept.with_backward > 0 && self.holder().is_some() => format!("evaluating: use torch.no_grad(), or a smaller batch; training: store {value} of the tensor in {name}"),
            Kind::PreviousRound if self.facts.trains && is_evaluation(kept) => "evaluating: use torch.no_grad(), or a smaller batch; training: call backward() in each round".into(),
            Kind::PreviousRound if kept.with_backward == 0 && is_graph => "evaluating: use torch.no_grad(); training: use a smaller batch, if it grows with it, or torch.utils.checkpoint".into(),
            Kind::PreviousRound if is_graph => format!("store {value} in {name}, or end a round with del {name}: a tensor with a graph keeps all that its forward made"),
            Kind::PreviousRound if self.holder().is_some() => format!("end a round with del {name}; a tensor with a graph keeps all that its forward made"),
            Kind::PreviousRound => format!("end a round with del of the names that hold it ({line}); a tensor with a graph keeps all that its forward made"),
            _ if crate::rules::is_without_object(self.facts, kept) && !kept.is_of_second_order => {
                let autocast = match most.in_forward {
                    true => "; the cache of torch.autocast() does until its block ends: enter it in each round, or pass cache_enabled=False",
                    false => "",
                };
                format!("find what keeps them: a NumPy array of objects, native code, or memory that is allocated without a tensor (caching_allocator_alloc()){autocast}")
            }
            _ if crate::rules::is_without_object(self.facts, kept) => "drop what refers to itself in autograd: use torch.autograd.grad(…, create_graph=True) in place of backward(create_graph=True), or set .grad to None after its last use".into(),
            _ if self.facts.shared > 0 => "drop the references here, and in the processes that received the tensors".into(),
            _ if self.advice_of_replaced().is_some() => return self.advice_of_replaced(),
            _ if is(&Holder::is_of_optimizers) => format!("drop the earlier optimizers, or what keeps them in {name}"),
            // It has a fixed length, and what uses it needs it on the card.
            _ if kept.is_window && kept.is_growth => "let what keeps them have fewer of them, such as a smaller maxlen, or keep them on the host with .cpu() until they are used".into(),
            _ => {
                let view = self.of_views();
                format!("drop the references to them, or move them to the host with {}{view}", self.to_host(kept))
            }
        };
        Some(
            match self.verdict.kind == Kind::PreviousRound && !self.longest().is_empty() {
                true => text + "; and limit the size of a batch, or its longest sequence",
                false => text,
            },
        )
    }

    pub(super) fn advice_of_large_request(&self) -> String {
        match self.advice_of_product() {
            _ if self.is_gradient() => "a smaller batch does not change it: for an embedding pass sparse=True, with SGD, Adagrad or SparseAdam (Adam and AdamW refuse such gradients); else use a smaller data type, or train fewer parameters".into(),
            _ if self.joined().is_some() => {
                let (name, blocks) = self.joined().unwrap_or_default();
                format!("torch.cat() or torch.stack() of the {blocks} tensors in {name} needs them and the result at once: move each to the host with .cpu() before, or write them into one tensor that is made first")
            }
            Some(advice) => advice,
            None if self.facts.request.in_forward => "limit the size of a batch, or its longest sequence, or compute it in parts".into(),
            None => {
                // Without it, the request would have fitted.
                let is_enough = |of: &&Holder| of.bytes >= crate::rules::missing(self.facts);
                let host = self.most().filter(|of| of.kind == HolderKind::Object && of.is_in_attribute());
                let host = host.filter(is_enough);
                let host = host.map_or_else(String::new, |of| format!("; or keep {} on the host with .cpu()", of.name()));
                let runs = |of: &Holder| !of.place.contains("suspended ") && !of.is_of_calls();
                let unused = |of: &&Holder| of.is_variable() && of.unused && runs(of) && is_enough(of);
                if let Some(of) = self.most().filter(unused) {
                    let call = of.place.trim_start_matches("local of ");
                    return format!("del {} before the call in {call}, after which nothing reads it; or request less at once", of.text);
                }
                // Without a model, there is no batch.
                let (check, batch) = match self.facts.of_category(Category::Parameter).bytes {
                    0 => ("check the shape of the result, or ", ", if the operator can"),
                    _ => ("", " or batch"),
                };
                format!("request less at once: {check}compute it in parts, or use a smaller data type{batch}{host}")
            }
        }
    }

    fn advice_of_copies(&self) -> String {
        let container = |of: &&Holder| of.kind == HolderKind::Object && !of.is_variable();
        let advice = self.holder().filter(container).map(without_copy);
        advice.unwrap_or_else(|| "free the copies that are no longer needed".into())
    }
}

/// What to do about a copy of weights, such as a checkpoint.
fn without_copy(holder: &Holder) -> String {
    let name = holder.name();
    format!(
        "del {name} when it is no longer needed, or keep it on the host: torch.load(…, map_location=\"cpu\"), .cpu()"
    )
}

/// What to do about a model for each thread.
const OF_THREADS: &str =
    "let these threads share a model, if theirs are the same, or let fewer of them have one";

/// The smallest block, which a single value has.
const VALUE: u64 = 512;

/// What to store in place of a tensor with a graph: of a single value also the number.
fn value_of(kept: &Kept) -> &'static str {
    let each = |of: &KeptLine| of.figure.bytes.checked_div(of.figure.blocks);
    match kept.last.as_ref().and_then(each) {
        Some(bytes) if bytes <= VALUE => ".item() or .detach()",
        _ => ".detach()",
    }
}

/// Whether no backward used what rounds with gradients on made: none ran in them, or none through these forwards.
fn is_evaluation(kept: &Kept) -> bool {
    let was_used = kept.was_used || kept.was_consumed;
    !kept.is_no_grad && (kept.with_backward == 0 || (kept.is_graph && !was_used))
}
