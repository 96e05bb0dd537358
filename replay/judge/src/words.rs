//! The sentences of verdicts: what is true, and what to do about it.

use gpumem_replay::names::Names;
use gpumem_replay::units::{bytes, count, many, percent};
use gpumem_replay::{Category, attribution::Owner};

use crate::facts::Facts;
use crate::kept::{Kept, KeptLine};
use crate::verdict::{Kind, Verdict};

/// What is true if nothing is known.
pub const UNKNOWN: &str = "not known: the capture does not show what held the memory";

/// How many lines a sentence names.
const LINES: usize = 3;

/// What is true.
pub fn what(names: &Names, facts: &Facts, verdict: &Verdict) -> String {
    let text = Text {
        names,
        facts,
        verdict,
    };
    text.what() + &text.besides()
}

/// What to do about it; `None` if nothing is known to help.
pub fn advice(names: &Names, facts: &Facts, verdict: &Verdict) -> Option<String> {
    Text {
        names,
        facts,
        verdict,
    }
    .advice()
}

struct Text<'a> {
    names: &'a Names,
    facts: &'a Facts,
    verdict: &'a Verdict,
}

impl Text<'_> {
    fn at(&self, owner: Option<&Owner>) -> String {
        owner.map_or_else(|| "(no line)".into(), |owner| owner.label(self.names))
    }

    fn line(&self) -> String {
        self.at(self.verdict.line.as_ref())
    }

    fn size(&self) -> String {
        bytes(self.verdict.bytes)
    }

    fn blocks(&self) -> String {
        many(self.verdict.blocks, "block", "blocks")
    }

    fn share(&self) -> String {
        format!(
            "{} of live memory",
            percent(self.verdict.bytes, self.facts.live)
        )
    }

    fn kept(&self) -> Option<&Kept> {
        self.verdict.of_loop.and_then(|at| self.facts.kept.get(at))
    }

    fn total(&self) -> String {
        self.facts
            .card
            .total
            .map_or("an unknown size".into(), bytes)
    }

    fn what(&self) -> String {
        let (facts, size, line) = (self.facts, self.size(), self.line());
        let request = bytes(facts.request.bytes);
        match self.verdict.kind {
            Kind::TooLarge => {
                let card = match facts.card.is_limit {
                    true => "the limit (GPUMEM_LIMIT)",
                    false => "the card",
                };
                format!(
                    "the request alone is larger than {card}: {request} of {}",
                    self.total()
                )
            }
            Kind::OtherProcesses => {
                let what = match facts.request.has_no_size {
                    true => "a context or kernel code had no room",
                    false => "the request had no room",
                };
                format!(
                    "{what}: other processes hold {size} of {} on this GPU, this process {}",
                    self.total(),
                    bytes(facts.card.mine)
                )
            }
            Kind::NotMemory => {
                format!("the card is not full: {size} is free, but the driver refused the request")
            }
            Kind::OwnLimit => format!(
                "the framework's own memory limit: {size} is free on the card, and the driver received no request"
            ),
            Kind::OtherLibrary => self.other_library(),
            Kind::KeptGraphs
            | Kind::NoBackward
            | Kind::Waiting
            | Kind::KeptTensors
            | Kind::PreviousRound
            | Kind::EarlierModels => self.rounds(),
            Kind::Lengthened => {
                let longer = facts.longer.as_ref();
                let (times, least) = longer.map_or((0, 0), |of| (of.rises, of.rise.0));
                format!(
                    "what {line} allocates becomes larger each time: {size} ({}) in {} now, at least {} more in each of the last {}",
                    self.share(),
                    self.blocks(),
                    bytes(least),
                    many(times, "time", "times")
                )
            }
            Kind::OtherStreams | Kind::PrivatePools | Kind::Fragmentation => self.unusable(),
            Kind::Cached => format!(
                "{size} is reserved but unallocated in PyTorch's cache; this request needs memory outside of the cache"
            ),
            Kind::LargeRequest if facts.request.allocations_before == 0 => format!(
                "{line} requests {request} at once, more than all that is live ({})",
                bytes(facts.live)
            ),
            Kind::LargeRequest => format!(
                "{line} requests {request}; the largest of its {} before was {}",
                many(
                    facts.request.allocations_before,
                    "allocation",
                    "allocations"
                ),
                bytes(facts.request.largest_before.unwrap_or(0))
            ),
            Kind::New => self.of_new_lines(),
            Kind::Alike => {
                let lines = facts.alike.iter().flat_map(|alike| &alike.lines);
                let lines = lines.map(|(owner, figure)| (owner, figure.blocks));
                format!(
                    "{} of {request} or half of that, the size of this request, hold {size} ({}): {}",
                    many(self.verdict.blocks, "tensor", "tensors"),
                    self.share(),
                    self.listed(
                        lines.map(|(owner, blocks)| format!(
                            "{} ({blocks})",
                            owner.label(self.names)
                        ))
                    )
                )
            }
            Kind::Copies => {
                let lines = facts.copies.iter().map(|(owner, figure)| {
                    format!("{} {}", bytes(figure.bytes), owner.label(self.names))
                });
                format!(
                    "lines hold the same amount outside of any forward, probably copies of one another: {}",
                    self.listed(lines)
                )
            }
            Kind::OptimizerState => {
                format!(
                    "optimizer state: {size} ({}), mostly from {line}",
                    self.share()
                )
            }
            Kind::Workspaces if facts.request.is_workspace => {
                format!(
                    "{line} requests a workspace of {request} for cuBLAS; there is one for each handle and stream"
                )
            }
            Kind::Workspaces => format!(
                "cuBLAS workspaces, one for each handle and stream: {size} ({}) in {}",
                self.share(),
                self.blocks()
            ),
            Kind::Activations => format!(
                "tensors that forwards keep for a backward: {size} ({}) in {}, mostly from {line}",
                self.share(),
                self.blocks()
            ),
            Kind::Model => format!(
                "parameters and buffers: {size} ({}), mostly from {line}",
                self.share()
            ),
            Kind::Largest => {
                format!(
                    "{line} holds most: {size} ({}) in {}",
                    self.share(),
                    self.blocks()
                )
            }
            Kind::Host => "the system refused more pinned memory".into(),
            Kind::Unknown => UNKNOWN.into(),
        }
    }

    fn listed(&self, texts: impl Iterator<Item = String>) -> String {
        let mut texts: Vec<String> = texts.collect();
        let rest = texts.len().saturating_sub(LINES);
        texts.truncate(LINES);
        let more = match rest {
            0 => String::new(),
            rest => format!(" and {}", many(rest as u64, "other line", "other lines")),
        };
        texts.join(", ") + &more
    }

    fn other_library(&self) -> String {
        let most = self.facts.outside.first();
        let by = most.and_then(|of| of.library.as_ref());
        let by = by.map_or(String::new(), |library| format!(" ({library})"));
        format!(
            "memory outside of PyTorch: {} of this process's {}, mostly from {}{by}; tensors hold {}",
            self.size(),
            bytes(self.facts.card.mine),
            self.line(),
            bytes(self.facts.tensors)
        )
    }

    /// What earlier rounds hold.
    fn rounds(&self) -> String {
        let Some(kept) = self.kept() else {
            return String::new();
        };
        let of = of_rounds(kept);
        let sum = format!("{} ({})", self.size(), self.share());
        let each = format!("{} a round", bytes(kept.per_round));
        let from = self.lines_of(kept);
        let held = format!("{sum}, {each}, {from}");
        match self.verdict.kind {
            Kind::KeptTensors => format!("tensors of {of} are still live: {held}{}", self.shared()),
            Kind::EarlierModels => {
                format!(
                    "models of {of} are still live: {sum} of parameters and their state, {from}"
                )
            }
            Kind::PreviousRound => format!("memory of {of} is still live: {sum}, {from}"),
            Kind::Waiting => format!("the graphs of {of} wait for a backward: {held}"),
            Kind::KeptGraphs => format!(
                "autograd graphs of {of} are still live: {held}{}",
                self.holder(kept)
            ),
            _ => format!(
                "tensors of {of} are still live, and no backward has used them: {held}{}",
                self.holder(kept)
            ),
        }
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
            .map(|line| format!("loop at {}", label(line)));
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

    fn shared(&self) -> String {
        match self.facts.shared {
            0 => String::new(),
            shared => format!(
                "; the program shared memory with other processes {}, and what they have not released stays allocated",
                many(shared, "time", "times")
            ),
        }
    }

    fn holder(&self, kept: &Kept) -> String {
        match &kept.last {
            Some(line) if !line.in_forward => {
                format!(
                    "; probably kept by the tensor of {}",
                    line.owner.label(self.names)
                )
            }
            Some(_) | None => String::new(),
        }
    }

    fn unusable(&self) -> String {
        let Some(cache) = &self.facts.cache else {
            return String::new();
        };
        let on_card = bytes(self.facts.card.free().unwrap_or(0));
        let request = bytes(self.facts.request.bytes);
        match self.verdict.kind {
            Kind::Fragmentation => {
                let of = cache.usable;
                format!(
                    "fragmentation: {} is free in PyTorch's cache in {}, the largest {}, and {on_card} on the card; {request} in one block was requested",
                    bytes(of.bytes),
                    many(of.blocks, "block", "blocks"),
                    bytes(of.largest)
                )
            }
            Kind::OtherStreams => format!(
                "free memory in PyTorch's cache belongs to other streams: {} in {}; this request's stream has {} there, and {on_card} is free on the card",
                bytes(cache.other_streams.bytes),
                many(cache.other_streams.blocks, "block", "blocks"),
                bytes(cache.usable.bytes)
            ),
            _ => format!(
                "free memory in PyTorch's cache belongs to private pools, such as those of CUDA graphs: {}; this request's pool has {} there, and {on_card} is free on the card",
                bytes(cache.other_pools.bytes),
                bytes(cache.usable.bytes)
            ),
        }
    }

    fn of_new_lines(&self) -> String {
        let Some(new) = &self.facts.new else {
            return String::new();
        };
        let lines = new.lines.iter().map(|(owner, category, figure)| {
            let category = match category {
                Category::None => String::new(),
                category => format!(" {}", category.name()),
            };
            format!(
                "{}{category} {}",
                bytes(figure.bytes),
                owner.label(self.names)
            )
        });
        format!(
            "{} ({}) is from allocations that the {} before did not make: {}",
            self.size(),
            self.share(),
            many(new.round - 2, "round", "rounds"),
            self.listed(lines)
        )
    }

    /// Free memory that would be enough for the request, if it is not what the verdict is about.
    fn besides(&self) -> String {
        let said = matches!(
            self.verdict.kind,
            Kind::Fragmentation
                | Kind::OtherStreams
                | Kind::PrivatePools
                | Kind::NotMemory
                | Kind::OwnLimit
                | Kind::Cached
                | Kind::TooLarge
                | Kind::OtherProcesses
                | Kind::Host
        ) || self.kept().is_some();
        let Some(usable) = crate::rules::usable(self.facts) else {
            return String::new();
        };
        let largest = self
            .facts
            .cache
            .as_ref()
            .map_or(0, |cache| cache.usable.largest);
        if said || usable < self.facts.needed() || largest >= self.facts.request.bytes {
            return String::new();
        }
        format!("; {} more are free, but not as one block", bytes(usable))
    }

    fn advice(&self) -> Option<String> {
        let line = self.line();
        let text = match self.verdict.kind {
            Kind::TooLarge => "check the requested size, or use a larger card".to_owned(),
            Kind::OtherProcesses => "end them or use another GPU; nvidia-smi lists them".into(),
            Kind::NotMemory => "check the limits of the process: address space (ulimit -v), handles".into(),
            Kind::OwnLimit => "raise torch.cuda.set_per_process_memory_fraction, or request less".into(),
            Kind::OtherLibrary => format!("free memory at {line}, or allocate less there"),
            Kind::KeptGraphs
            | Kind::NoBackward
            | Kind::Waiting
            | Kind::KeptTensors
            | Kind::PreviousRound
            | Kind::EarlierModels => return self.advice_of_rounds(),
            Kind::Lengthened => {
                "limit its length, or keep the pieces on the host; torch.cat needs the old and the new tensor at once".into()
            }
            Kind::OtherStreams => {
                "allocate on the stream that uses the memory: a block returns only to its own stream".into()
            }
            Kind::PrivatePools => "drop the CUDA graphs that are no longer replayed, or let them share a pool".into(),
            Kind::Fragmentation => self.advice_of_fragmentation(),
            Kind::Cached => {
                "call torch.cuda.empty_cache() before it, or leave room with torch.cuda.set_per_process_memory_fraction(0.9)".into()
            }
            Kind::LargeRequest => "limit the size of a batch, or compute it in parts".into(),
            Kind::New => return None,
            Kind::Alike => "compute it in parts, for example with .split() over the rows, or free these tensors earlier".into(),
            Kind::Copies => "free the copies that are no longer needed".into(),
            Kind::OptimizerState => {
                "use an optimizer with less state (SGD, 8-bit Adam), shard the state (ZeRO, FSDP), or train fewer parameters".into()
            }
            Kind::Workspaces => {
                "set CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 or :16:8 for smaller ones, at some cost in speed".into()
            }
            Kind::Activations => {
                "use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast".into()
            }
            Kind::Model => "use a smaller data type (bfloat16, 8 bits), or shard the model (FSDP)".into(),
            Kind::Largest => format!("allocate less at {line}, or free it earlier"),
            Kind::Host => "pin less (pin_memory=False), or raise ulimit -l".into(),
            Kind::Unknown => "run it again with GPUMEM_STACKS=mixed".into(),
        };
        Some(text)
    }

    fn advice_of_rounds(&self) -> Option<String> {
        let kept = self.kept()?;
        let most = kept.last.as_ref().or(kept.lines.first())?;
        let line = most.owner.label(self.names);
        let text = match self.verdict.kind {
            Kind::KeptGraphs => {
                format!("{line}: store .item() or .detach() of the tensor, not the tensor with its graph")
            }
            Kind::Waiting => {
                "make the graph span fewer rounds, checkpoint it, or call backward() in each round if its loss does not need the others".into()
            }
            Kind::NoBackward => {
                "evaluating: use torch.no_grad(), or keep .detach() of the results; training: call backward() in each round, or let a graph span fewer rounds".into()
            }
            Kind::EarlierModels => {
                "drop the earlier model and its optimizer before the next one is made, or keep it on the host".into()
            }
            Kind::PreviousRound => format!(
                "end a round with del of the names that hold it ({line}); a tensor with a graph keeps all that its forward made"
            ),
            _ if self.facts.shared > 0 => {
                "drop the references here, and in the processes that received the tensors".into()
            }
            _ => {
                let view = match kept.lines.first().is_some_and(|line| line.in_forward) {
                    true => "; a view (a slice, a part of .split()) keeps its whole tensor: .clone() it",
                    false => "",
                };
                let graph = match kept.is_no_grad {
                    true => "",
                    false => ", store .detach() of tensors that have a graph",
                };
                format!("drop the references to them{graph}, or move them to the host with .cpu(){view}")
            }
        };
        Some(text)
    }

    fn advice_of_fragmentation(&self) -> String {
        let settings = self.facts.settings.as_deref().unwrap_or_default();
        match settings.contains("expandable_segments:True") {
            true => "allocate fewer different sizes, the largest first".into(),
            false => "not tried: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may let free blocks merge; gpumem whatif replays this run with it".into(),
        }
    }
}

/// The rounds of which memory is live.
fn of_rounds(kept: &Kept) -> String {
    let before = kept.rounds - 1;
    let what = match kept.is_line {
        true => ("earlier allocation", "earlier allocations"),
        false => ("earlier round", "earlier rounds"),
    };
    match kept.of {
        1 if !kept.is_growth && !kept.of_models => "the round before".into(),
        of if of >= before => many(of, what.0, what.1),
        of => format!("{} of {}", count(of), many(before, what.0, what.1)),
    }
}
