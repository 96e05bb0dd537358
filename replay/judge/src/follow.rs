//! Follows the records of a capture up to a failure, and a little beyond.

use gpumem_capture::{
    Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Phase, PlacementId, Record, Seq,
};
use gpumem_replay::{Block, Effect, KeyId, OutOfMemory, Reading, Replay, SpanContext};

use crate::cache::{Cache, Placement, Placements};
use crate::facts::Facts;
use crate::history::History;
use crate::holders::Holders;
use crate::path::Path;
use crate::rounds::Rounds;

/// The peaks of live tensors of the steps of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepPeaks {
    /// The steps that ended.
    pub steps: u64,
    /// The largest peak of these, in bytes. The time before the first step counts with it.
    pub before: u64,
    /// The peak of the step that runs.
    pub now: u64,
    /// The peak of the forwards, in bytes.
    pub forwards: u64,
    /// The first allocation after the first of these.
    pub(crate) first: Option<Seq>,
}

impl StepPeaks {
    fn reach(&mut self, seq: Seq, steps: u64, live: u64, in_forward: bool) {
        if steps != self.steps {
            self.first = self.first.or(Some(seq));
            self.before = self.before.max(self.now);
            (self.steps, self.now) = (steps, 0);
        }
        self.now = self.now.max(live);
        if in_forward {
            self.forwards = self.forwards.max(live);
        }
    }
}

/// Follows a capture to judge one of its failures.
pub struct Follow {
    pub(crate) failure: OutOfMemory,
    /// Whether that is all of it.
    is_known: bool,
    /// The level whose lines count.
    pub(crate) level: Level,
    pub(crate) keys: Vec<History>,
    pub(crate) rounds: Rounds,
    pub(crate) placements: Placements,
    /// How many backwards began, without those that make a separate graph, such as `autograd.grad(create_graph=True)`.
    pub(crate) backwards: u64,
    /// Whether the newest one counts.
    is_counted: bool,
    pub(crate) refused: Option<u64>,
    pub(crate) peaks: StepPeaks,
    facts: Option<Facts>,
    /// Whether nothing was loaded or allocated since the failure.
    is_at_failure: bool,
}

impl Follow {
    /// Follows up to the failure that will have this number, of which no more than this is known.
    pub fn at(seq: Seq, event: Event, level: Level) -> Self {
        let failure = OutOfMemory {
            seq,
            event,
            span_context: SpanContext::default(),
            refusals: 0,
            is_told: false,
        };
        Self {
            is_known: false,
            ..Self::new(failure, level)
        }
    }

    /// Follows up to `failure`, from the capture's first record on. `level` is the level whose lines count.
    pub fn new(failure: OutOfMemory, level: Level) -> Self {
        Self {
            failure,
            is_known: true,
            level,
            keys: Vec::new(),
            rounds: Rounds::default(),
            placements: Placements::default(),
            backwards: 0,
            is_counted: false,
            refused: None,
            peaks: StepPeaks::default(),
            facts: None,
            is_at_failure: true,
        }
    }

    /// The facts of the failure; `None` before its record.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// The failure.
    pub fn failure(&self) -> OutOfMemory {
        self.failure
    }

    /// The level whose lines count.
    pub fn level(&self) -> Level {
        self.level
    }

    fn device(&self) -> DeviceOrdinal {
        self.failure.event.device
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let (seq, event) = match record {
            Record::Event(seq, event) => (seq, event),
            Record::Definition(_, definition) => return self.define(replay, definition),
            Record::State(..) => return,
        };
        if seq > self.failure.seq {
            return self.after(replay, event);
        }
        match event.kind {
            EventKind::PHASE_BEGIN if event.aux == Phase::BACKWARD.0 => {
                self.backwards += 1;
                self.is_counted = true;
            }
            EventKind::OUT_OF_MEMORY => self.failed(replay, seq, event),
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL
                if (event.device, event.level) == (self.device(), self.level) =>
            {
                self.block(replay, seq, event, effect);
            }
            _ => {}
        }
    }

    fn define(&mut self, replay: &Replay, definition: &Definition) {
        if let (Some(facts), Definition::Process { .. }) = (&mut self.facts, definition) {
            facts.holders = Holders::at_or_before(&replay.names, self.failure.seq, &facts.largest);
            let calls = ["cudaIpcGetMemHandle", "cuIpcGetMemHandle"];
            let calls = calls.map(|name| replay.names.calls_of(name).unwrap_or(0));
            facts.shared = calls.into_iter().max().unwrap_or(0);
        }
        if let Definition::Placement {
            id,
            device,
            stream,
            pool,
            ..
        } = definition
        {
            let (stream, pool) = (*stream, *pool);
            self.placements
                .define(*device, *id, Placement { stream, pool });
        }
    }

    fn block(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        match effect {
            Effect::Live(block) if event.kind == EventKind::ALLOC => {
                // A backward has gradients on only if its own work is to be differentiated.
                if self.is_counted
                    && event.level == Level::TENSOR
                    && !event.flags.contains(EventFlags::NO_GRAD)
                    && replay.is_in_backward(event.thread)
                {
                    (self.backwards, self.is_counted) = (self.backwards.saturating_sub(1), false);
                }
                let thread = (event.thread, event.py_stack);
                self.rounds
                    .reach(&replay.names, thread, (seq, self.backwards));
                let history = self.history(block);
                history.came(seq, requested(event));
                history.threads |= 1 << (event.thread.0 % u64::BITS);
                if event.level == Level::TENSOR {
                    let now = replay.devices.get(&event.device).map(|of| of.now.tensor);
                    let path = self.rounds.known_path(event.py_stack);
                    let in_forward = path.is_some_and(Path::in_forward);
                    let live = now.unwrap_or(0);
                    self.peaks.reach(seq, replay.spans.steps, live, in_forward);
                    self.placements
                        .came(event.device, event.ptr, event.placement);
                }
            }
            Effect::Gone(block) => {
                let by_backward = replay.is_in_backward(event.thread);
                let history = self.history(block);
                history.freed += 1;
                history.by_backward += u64::from(by_backward);
            }
            Effect::Live(_) | Effect::None => {}
        }
    }

    fn history(&mut self, block: Block) -> &mut History {
        let at = block.key.0 as usize;
        if self.keys.len() <= at {
            self.keys.resize(at + 1, History::default());
        }
        &mut self.keys[at]
    }

    /// The stacks that had blocks, with what these did.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (KeyId, &History)> {
        let all = (0..).map(KeyId).zip(&self.keys);
        all.filter(|(_, of)| of.allocations > 0)
    }

    /// What the blocks of a stack did, of all categories.
    pub(crate) fn history_of(&self, replay: &Replay, key: KeyId) -> History {
        let base = replay.key_of_all_categories(key);
        self.keys.get(base.0 as usize).copied().unwrap_or_default()
    }

    fn failed(&mut self, replay: &Replay, seq: Seq, event: &Event) {
        if event.device != self.device() {
            return;
        }
        if seq == self.failure.seq {
            let all = replay.failures.all();
            if let Some((_, failure)) = all.iter().find(|(_, of)| of.seq == seq && !self.is_known) {
                self.failure = *failure;
            }
            let mut facts = Facts::now(replay, self);
            facts.holders = Holders::at_or_before(&replay.names, seq, &facts.largest);
            self.facts = Some(facts);
            return;
        }
        if event.level == Level::DRIVER {
            self.refused = Some(event.bytes);
        }
    }

    fn after(&mut self, replay: &Replay, event: &Event) {
        let (failed, device) = (self.failure.event, self.device());
        let Some(facts) = &mut self.facts else {
            return;
        };
        facts.went_on = facts.went_on || replay.goes_on(&failed, event);
        if facts.card.reading.is_none() {
            let readings = replay.devices.get(&device);
            facts.card.reading = readings.and_then(|of| of.readings.last);
        }
        if self.is_at_failure {
            self.is_at_failure = taken_before(&mut facts.card.mine, device, event);
        }
    }
}

/// What was requested of a block: it may be larger.
fn requested(event: &Event) -> u64 {
    match event.slack {
        Event::SLACK_UNKNOWN => event.bytes,
        slack if event.level == Level::TENSOR => event.bytes.saturating_sub(u64::from(slack)),
        _ => event.bytes,
    }
}

/// The memory of loaded kernels is measured at the first reading after they were loaded, possibly only after the
/// failure. It is attributed to the time before the failure unless something else was loaded, unloaded or allocated
/// since. Returns whether that is still so.
fn taken_before(mine: &mut u64, device: DeviceOrdinal, event: &Event) -> bool {
    match event.kind {
        EventKind::RESIZE if event.device == device => {
            let taken = event.bytes.saturating_sub(event.aux);
            *mine = mine.saturating_add(taken);
            taken > 0
        }
        EventKind::ALLOC | EventKind::MODULE_LOAD | EventKind::CONTEXT => {
            event.level == Level::TENSOR
        }
        _ => true,
    }
}

/// The card at a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Card {
    /// Its memory, or the limit that was set for the process.
    pub total: Option<u64>,
    /// Whether `total` is such a limit.
    pub is_limit: bool,
    /// The memory of this process.
    pub mine: u64,
    /// The newest reading before the failure, or the first after it.
    pub reading: Option<Reading>,
}

impl Card {
    /// The memory of other processes, as of the reading; 0 if it is not known.
    pub fn others(&self) -> u64 {
        self.reading.and_then(|of| of.others).unwrap_or(0)
    }

    /// What no process holds: exact for this process, as of the reading for others. CUDA's size of the card is without
    /// what the driver reserves. NVML may know of less. `None` if the size is not known.
    pub fn free(&self) -> Option<u64> {
        let taken = self.mine.saturating_add(self.others());
        let free = self.total?.saturating_sub(taken);
        let reading = self.reading.filter(|_| !self.is_limit);
        let read = reading.and_then(|of| {
            let card = of.card?;
            // A saved replay has CUDA's size there.
            let reserved = card.reserved.unwrap_or(0);
            let total = card.total.max(self.total?.saturating_add(reserved));
            let then = total.saturating_sub(card.used);
            Some(then.saturating_add(of.physical).saturating_sub(self.mine))
        });
        Some(read.map_or(free, |read| read.min(free)))
    }
}

/// The free memory of the pool when a request with this placement fails; `None` if its segments are not known.
pub(crate) fn cache_now(
    replay: &Replay,
    placements: &Placements,
    device: DeviceOrdinal,
    request: PlacementId,
) -> Option<Cache> {
    let cache = Cache::now(replay, placements, device, request);
    (cache.reserved > 0).then_some(cache)
}
