//! The sentences of verdicts: what is true, and what to do about it.

mod advice;
mod free;
mod held;
mod keepers;
mod needs;
mod paths;
mod products;
mod rounds;

use gpumem_replay::names::Names;
use gpumem_replay::units::{bytes, many, percent};
use gpumem_replay::{Category, attribution::Owner};

use crate::facts::Facts;
use crate::kept::Kept;
use crate::rules::{NOTABLE, makes_state, notable};
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

    /// The line, and where most of its memory comes from, if it is the one with most of the live memory.
    fn line_and_split(&self) -> String {
        let line = self.line();
        let most = self.facts.most.as_ref();
        let Some(most) = most.filter(|of| Some(&of.owner) == self.verdict.line.as_ref()) else {
            return line;
        };
        let split = &most.split;
        let called = match split.are_callers {
            true => "called from ",
            false => "in ",
        };
        let lines = split.lines.iter().map(|(line, figure)| {
            let label = Owner::Line(line.clone(), None).label(self.names);
            (format!("{called}{label}"), *figure)
        });
        let modules = split.modules.iter();
        let modules = modules.map(|(name, figure)| (format!("in module {name}"), *figure));
        let largest = [lines.collect::<Vec<_>>(), modules.collect()];
        let largest = largest.into_iter().filter_map(|of| of.into_iter().next());
        let texts: Vec<String> = largest
            .filter(|(_, figure)| notable(figure.bytes, most.figure.bytes, NOTABLE))
            .filter(|(_, figure)| figure.bytes <= self.verdict.bytes)
            .map(|(place, figure)| format!("{} {place}", bytes(figure.bytes)))
            .collect();
        match texts.is_empty() {
            true => line,
            false => format!("{line} (of it {})", texts.join(", ")),
        }
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
        let allocations = |count| many(count, "allocation", "allocations");
        match self.verdict.kind {
            Kind::TooLarge => {
                let card = match facts.card.is_limit {
                    true => "the limit (GPUMEM_LIMIT)",
                    false => "the card",
                };
                format!(
                    "the request alone is larger than {card}: {request} of {}{}",
                    self.total(),
                    self.largest_before()
                )
            }
            Kind::OtherProcesses => {
                let what = match facts.request.has_no_size {
                    true => "a context or kernel code had no room",
                    false => "the request had no room",
                };
                match facts.card.reading.and_then(|of| of.others) {
                    Some(_) => format!(
                        "{what}: other processes hold {size} of {} on this GPU, this process {}",
                        self.total(),
                        bytes(facts.card.mine)
                    ),
                    None => format!(
                        "{what}, and this process has only {} of {} on this GPU: other processes have the rest",
                        bytes(facts.card.mine),
                        self.total()
                    ),
                }
            }
            Kind::NotMemory => {
                format!("the card is not full: {size} is free, but the driver refused the request")
            }
            Kind::OwnLimit => format!(
                "PyTorch's own memory limit (set_per_process_memory_fraction): {} is reserved, {size} is free on the card, and the driver received no request",
                bytes(facts.reserved)
            ),
            Kind::OtherLibrary => self.other_library(),
            Kind::Exception | Kind::Cycle | Kind::Held => self.held(),
            Kind::KeptGraphs
            | Kind::NoBackward
            | Kind::Waiting
            | Kind::KeptTensors
            | Kind::PreviousRound
            | Kind::EarlierModels => self.rounds(),
            Kind::Lengthened => self.lengthened(),
            Kind::OtherStreams | Kind::PrivatePools | Kind::Fragmentation => self.unusable(),
            Kind::Cached => format!(
                "{size} is reserved but unallocated in PyTorch's cache{}; this request needs memory outside of the cache",
                self.needed_again()
            ),
            Kind::LargeRequest if self.verdict.blocks == 1 => {
                let larger = facts.larger.as_ref();
                let (count, before) = larger.map_or((1, 0), |of| (of.allocations, of.before));
                format!(
                    "{line} allocated {size}; the largest of its {} before was {}",
                    allocations(count - 1),
                    bytes(before)
                )
            }
            Kind::LargeRequest if facts.request.allocations_before == 0 && !self.is_gradient() => {
                let live = match facts.live {
                    0 => "while nothing else is live".into(),
                    live if facts.request.bytes > live => {
                        format!("more than all that is live ({})", bytes(live))
                    }
                    live => format!("beside {} that are live{}", bytes(live), self.mostly()),
                };
                format!("{line} requests {request} at once, {live}")
            }
            Kind::LargeRequest if self.is_gradient() => {
                format!("{line} requests {request} for the gradient of a parameter of that size")
            }
            Kind::LargeRequest => format!("{line} requests {request}{}", self.largest_before()),
            Kind::New => self.of_new_lines(),
            Kind::Alike => {
                let lines = facts.alike.iter().flat_map(|alike| &alike.lines);
                let lines =
                    lines.map(|(owner, of)| format!("{} ({})", self.at(Some(owner)), of.blocks));
                format!(
                    "{} of {request} or half of that, the size of this request, hold {size} ({}): {}",
                    many(self.verdict.blocks, "tensor", "tensors"),
                    self.share(),
                    self.listed(lines)
                )
            }
            Kind::Copies => {
                let lines = facts
                    .copies
                    .iter()
                    .map(|of| format!("{} {}", bytes(of.figure.bytes), of.owner.label(self.names)));
                format!(
                    "lines hold the same amount outside of any forward, probably copies of one another: {}{}",
                    self.listed(lines),
                    self.kept_by()
                )
            }
            Kind::OptimizerState
                if facts.steps > 0 && makes_state(facts)
                    || !notable(self.verdict.bytes, facts.live, NOTABLE) =>
            {
                let of = |category| facts.of_category(category).bytes;
                // Those that are trained have gradients.
                let gradients = of(Category::Gradient);
                let (whose, parameters) = match of(Category::Parameter) {
                    all if gradients > 0 && gradients < all / 10 * 9 => {
                        ("the parameters with a gradient", gradients)
                    }
                    all => ("the parameters", all),
                };
                format!(
                    "the first step of the optimizer makes its state, {size} so far, mostly from {line}: Adam's is twice {whose}, which are {}",
                    bytes(parameters)
                )
            }
            Kind::OptimizerState => {
                format!(
                    "optimizer state: {size} ({}), mostly from {}",
                    self.share(),
                    self.line_and_split()
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
                "tensors that forwards keep for a backward: {size} ({}) in {}, mostly from {}{}{}",
                self.share(),
                self.blocks(),
                self.line_and_split(),
                self.kept_by(),
                self.largest_step()
            ),
            Kind::Model => format!(
                "parameters and buffers: {size} ({}), mostly from {}{}{}",
                self.share(),
                self.line_and_split(),
                self.kept_by(),
                self.several_models() + &self.copied() + self.first_gradients()
            ),
            Kind::Largest => {
                let line = match self.functional() {
                    Some(line) => format!(
                        "what {line} computes with torch.autograd.functional through {}",
                        self.line()
                    ),
                    None => self.line_and_split(),
                };
                let holds = self.holds();
                format!(
                    "{line} {holds}: {size} ({}) in {}{}{}",
                    self.share(),
                    self.blocks(),
                    self.kept_by(),
                    self.largest_step()
                )
            }
            Kind::Host => "the system refused more pinned memory".into(),
            Kind::Unknown => match self.of_contexts() {
                Some(taken) => format!(
                    "contexts and kernel code take {} of {}, and no tensor is live",
                    bytes(taken),
                    self.total()
                ),
                None => UNKNOWN.into(),
            },
        }
    }

    /// The largest block that the request's line got before, if it got several.
    fn largest_before(&self) -> String {
        let request = &self.facts.request;
        let Some(before) = request
            .largest_before
            .filter(|_| request.allocations_before > 0)
        else {
            return String::new();
        };
        match request.allocations_before {
            1 => format!("; the one before was {}", bytes(before)),
            all => format!(
                "; the largest of its {} before was {}",
                many(all, "allocation", "allocations"),
                bytes(before)
            ),
        }
    }

    /// What contexts and kernel code take, if that is most of the card and no block is live.
    pub(crate) fn of_contexts(&self) -> Option<u64> {
        let card = &self.facts.card;
        let is_most = card.mine >= card.total? / 2;
        (self.facts.live == 0 && self.facts.outside.is_empty() && is_most).then_some(card.mine)
    }

    /// Whether a backward makes the request for the gradient of a parameter: it is as large as one.
    fn is_gradient(&self) -> bool {
        let (request, facts) = (&self.facts.request, self.facts);
        let is_same = |bytes: u64| bytes.abs_diff(request.bytes) <= request.bytes / 64;
        let mut all = facts.largest_of(Category::Parameter);
        request.in_backward && all.any(|of| is_same(of.bytes))
    }

    /// The step that runs, if it needs much more than any before: a longer or larger batch.
    fn largest_step(&self) -> String {
        /// The least steps before it, and how much more it needs, in per cent of their peak.
        const STEPS: u64 = 4;
        const MORE: u64 = 120;
        let peaks = &self.facts.peaks;
        let with_request = self.facts.tensors.saturating_add(self.facts.request.bytes);
        let now = peaks.now.max(with_request);
        match peaks.steps >= STEPS && notable(now, peaks.before, MORE) {
            true => format!(
                "; this step needs at least {} of tensors, and none of the {} before needed more than {}",
                bytes(now),
                many(peaks.steps, "step", "steps"),
                bytes(peaks.before)
            ),
            false => String::new(),
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
}
