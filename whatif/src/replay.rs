//! Takes the steps of a capture with the allocator of this process.

use std::ffi::c_char;
use std::path::Path;

use gpumem_capture::{
    AllocatorCall, Definition, DeviceOrdinal, Event, EventKind, Level, PlacementId,
};
use gpumem_torch_abi::{Method, Stream};
use rustc_hash::FxHashMap;

use crate::allocator::Allocator;
use crate::ballast::Ballast;
use crate::decisions::{self, Decision};
use crate::events;
use crate::foreign::Foreign;
use crate::late::Late;
use crate::save::{self, Failure, Save};
use crate::steps::{self, Placement, Placements, Steps};
use crate::survey::Survey;
use crate::threads::Threads;

/// What is to be replayed, and how.
pub(crate) struct Wanted<'a> {
    pub(crate) capture: &'a Path,
    pub(crate) device: DeviceOrdinal,
    pub(crate) survey: &'a Survey,
    /// Streams by their handles in the recorded process: the handles here, and PyTorch's numbers.
    pub(crate) streams: FxHashMap<u64, (u64, u64)>,
    /// What this process has on the card beside the pool.
    pub(crate) own_bytes: u64,
    pub(crate) set: Option<extern "C" fn(*const c_char) -> i64>,
    pub(crate) progress: Option<extern "C" fn(f64)>,
    /// The replay is written as a capture.
    pub(crate) save: Option<save::Wanted>,
}

/// What came of it. The allocator itself has the figures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Allocations that were made, as in the recorded run.
    pub allocations: u64,
    /// Those of which the capture does not say what was asked for: the block's size was taken.
    pub sizes_unknown: u64,
    /// Those of which it does not say from which stream or pool they came.
    pub placements_unknown: u64,
    /// Failures of the recorded run.
    pub recorded_failures: u64,
    /// Those of them that did not come here.
    pub saved: u64,
    /// The first event that could not be repeated for want of memory; 0: none.
    pub failed_seq: u64,
    /// Bytes that it asked for.
    pub failed_bytes: u64,
    /// 1: what failed is not PyTorch's.
    pub failed_foreign: u64,
    /// When that was in the recorded run, in nanoseconds.
    pub failed_time: u64,
    /// Training steps that had ended by then.
    pub failed_step: u64,
    /// The first event after which the replay is not what the run would have been: a call that could not be repeated; 0: none.
    pub exact_until: u64,
    /// The greatest figures of the recorded run: bytes of blocks, and what the pool held.
    pub recorded_allocated: u64,
    /// See `recorded_allocated`.
    pub recorded_reserved: u64,
    /// The most that was on the card beside the pool.
    pub foreign_peak: u64,
    /// How often the program set the share of the card that it may hold.
    pub fractions: u64,
    /// The last event that was replayed.
    pub last_seq: u64,
    /// Uses of blocks on streams of which the capture does not say PyTorch's number: others stood for them.
    pub stand_ins: u64,
}

/// Why there is no outcome.
pub(crate) type Error = String;

/// Replays a device of a capture, to the end or to the first failure that is not the recorded run's.
pub(crate) fn replay(wanted: &Wanted<'_>) -> Result<Outcome, Error> {
    let allocator = Allocator::find()?;
    let ballast = Ballast::new(wanted.own_bytes).ok_or("CUDA's runtime is not loaded")?;
    let save = match &wanted.save {
        None => None,
        Some(_) if !allocator.attach_trace(decisions::traced) => {
            return Err(
                "this PyTorch's allocator cannot be traced: its replay cannot be saved".into(),
            );
        }
        Some(to) => Some(Save::create(
            wanted.capture,
            wanted.device,
            wanted.survey,
            to,
        )?),
    };
    let mut replay = Replay {
        wanted,
        allocator,
        ballast,
        foreign: Foreign::new(wanted.device, wanted.survey),
        foreign_was: 0,
        live: FxHashMap::default(),
        late: Late::default(),
        recorded_live: 0,
        threads: Threads::default(),
        steps: 0,
        outcome: Outcome::default(),
        save,
        decisions: Vec::new(),
    };
    events::begin(wanted.survey.has_releases);
    if replay.save.is_some() {
        decisions::begin();
    }
    let read = steps::read(wanted.capture, wanted.device, &mut replay);
    decisions::end();
    events::end();
    read?;
    if replay.allocator.refuses() {
        return Err("PyTorch refuses an allocation of the program under these settings".into());
    }
    if let Some(save) = replay.save {
        save.finish()?;
    }
    let outcome = replay.outcome;
    if outcome.allocations == 0 && outcome.failed_seq == 0 {
        return Err("the capture has no tensors of PyTorch's on this device".into());
    }
    Ok(outcome)
}

impl Wanted<'_> {
    /// A stream's handle in this process, and PyTorch's number of it.
    fn here(&self, recorded: u64) -> (u64, u64) {
        self.streams.get(&recorded).copied().unwrap_or((0, 0))
    }
}

/// A block that is held.
#[derive(Clone, Copy)]
struct Live {
    /// Its address here.
    block: u64,
    /// The stream that it is of, by its handle here.
    stream: u64,
    is_of_pool: bool,
}

struct Replay<'a> {
    wanted: &'a Wanted<'a>,
    allocator: Allocator,
    ballast: Ballast,
    foreign: Foreign,
    foreign_was: u64,
    /// Blocks by their recorded addresses.
    live: FxHashMap<u64, Live>,
    late: Late,
    recorded_live: u64,
    threads: Threads,
    /// Training steps that have ended.
    steps: u64,
    outcome: Outcome,
    save: Option<Save>,
    decisions: Vec<Decision>,
}

impl Replay<'_> {
    /// Takes up what else is on the card; false: there is no room for it.
    fn hold_foreign(&mut self, seq: u64, event: &Event) -> bool {
        let bytes = self.foreign.bytes();
        if bytes == self.foreign_was {
            return true;
        }
        let before = core::mem::replace(&mut self.foreign_was, bytes);
        self.outcome.foreign_peak = self.outcome.foreign_peak.max(bytes);
        if self.ballast.set(bytes) {
            return true;
        }
        self.outcome.failed_foreign = 1;
        self.end(seq, event, bytes.saturating_sub(before))
    }

    /// The replay ends here: there is no memory for these bytes.
    fn end(&mut self, seq: u64, event: &Event, bytes: u64) -> bool {
        let outcome = &mut self.outcome;
        (outcome.failed_seq, outcome.failed_bytes) = (seq, bytes);
        (outcome.failed_time, outcome.failed_step) = (event.time.0, self.steps);
        false
    }

    fn placement(&mut self, event: &Event, placements: &Placements) -> Placement {
        if event.placement == PlacementId::UNKNOWN {
            self.outcome.placements_unknown += 1;
            return Placement::default();
        }
        placements.of(event.placement)
    }

    /// Asks for a block where the event had one.
    fn ask(&mut self, bytes: u64, event: &Event, placements: &Placements) -> Option<Live> {
        let placement = self.placement(event, placements);
        let (stream, _) = self.wanted.here(placement.stream);
        let pool = placement.pool;
        let is_of_pool = pool != (0, 0);
        events::in_capture(self.threads.are_captured(event.thread, is_of_pool));
        let alloc = || self.allocator.alloc(bytes, stream, pool);
        let active = self.threads.active(event.thread);
        // Where there is no such thing, the pool is used as others are.
        let with = active.and_then(|active| self.allocator.with_active(active, alloc));
        let block = with.unwrap_or_else(alloc)?;
        Some(Live {
            block,
            stream,
            is_of_pool,
        })
    }

    fn allocate(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        if !self.hold_foreign(seq, event) {
            return false;
        }
        let requested = match event.slack {
            Event::SLACK_UNKNOWN => {
                self.outcome.sizes_unknown += 1;
                event.bytes
            }
            slack => event.bytes.saturating_sub(slack.into()),
        };
        let Some(block) = self.ask(requested, event, placements) else {
            return self.end(seq, event, requested);
        };
        self.outcome.allocations += 1;
        self.recorded_live += event.bytes;
        let outcome = &mut self.outcome;
        outcome.recorded_allocated = outcome.recorded_allocated.max(self.recorded_live);
        outcome.recorded_reserved = outcome.recorded_reserved.max(event.aux);
        if let Some(stale) = self.live.insert(event.ptr, block) {
            // Its release went unseen.
            self.allocator.free(stale.block);
        }
        true
    }

    /// A failure of the recorded run is tried again.
    fn fail(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        if !self.hold_foreign(seq, event) {
            return false;
        }
        self.outcome.recorded_failures += 1;
        if let Some(saved) = self.ask(event.bytes, event, placements) {
            self.outcome.saved += 1;
            self.allocator.free(saved.block);
        }
        true
    }

    /// A block is used on a stream; whether that could be repeated.
    fn use_on(&mut self, ptr: u64, on: Placement) -> bool {
        // Of another allocator's block PyTorch takes no notice either.
        let Some(&Live { block, stream, .. }) = self.live.get(&ptr) else {
            return true;
        };
        if on.stream != 0 && on.stream_id.is_none() {
            self.outcome.stand_ins += 1;
        }
        let (on, id) = self.wanted.here(on.stream);
        // A use on its own stream is none.
        if on != stream {
            self.late.used(ptr, on);
        }
        self.allocator
            .record_stream(block, Stream { device: 1, id })
    }

    /// Repeats a call of the allocator; whether that could be done.
    fn call(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        let placement = placements.of(event.placement);
        let pool = placement.pool;
        let allocator = &self.allocator;
        match AllocatorCall(event.aux) {
            AllocatorCall::RELEASED => {
                if let Some(waiting) = self.late.released(event.ptr) {
                    for stream in waiting.streams {
                        events::through(stream, waiting.freed);
                    }
                }
                true // the allocator finds that out by its events
            }
            AllocatorCall::RECORD_STREAM => self.use_on(event.ptr, placement),
            AllocatorCall::EMPTY_CACHE => allocator.empty_cache(pool),
            AllocatorCall::FRACTION => {
                self.outcome.fractions += 1;
                allocator.set_fraction(f64::from_bits(event.bytes))
            }
            AllocatorCall::POOL_BEGIN => {
                if event.bytes == 1 {
                    self.threads.begin_active(event.thread, pool);
                }
                let stream = self.wanted.here(placement.stream).0;
                self.allocator.begin_pool(pool, stream)
            }
            AllocatorCall::POOL_END => {
                self.threads.end_active(event.thread, pool);
                let stream = self.wanted.here(placement.stream).0;
                self.allocator.end_pool(pool, stream)
            }
            AllocatorCall::POOL_RELEASE => allocator.of_pool(Method::ReleasePool, pool, 0),
            AllocatorCall::POOL_RETAIN => allocator.retain_pool(pool),
            AllocatorCall::CAPTURE_BEGIN => {
                self.threads.begin_capture(event.thread);
                allocator.of_pool(Method::MarkCaptureBegin, (0, 0), 0)
            }
            AllocatorCall::CAPTURE_END => {
                self.threads.end_capture();
                allocator.of_pool(Method::MarkCaptureEnd, (0, 0), 0)
            }
            AllocatorCall::USE_ON_OOM => allocator.of_pool(Method::SetUseOnOom, pool, event.bytes),
            AllocatorCall::NO_SPLIT => allocator.of_pool(Method::SetNoSplit, pool, 0),
            // As in a rerun they overrule what is asked about.
            AllocatorCall::SETTINGS => match self.wanted.survey.settings.get(&seq) {
                Some(text) => self.wanted.set.is_some_and(|set| set(text.as_ptr()) == 0),
                None => true, // what the environment said
            },
            _ => false,
        }
    }
}

impl Steps for Replay<'_> {
    fn define(&mut self, definition: &Definition) {
        self.foreign.define(definition);
        if let Some(save) = &mut self.save {
            save.define(definition);
        }
    }

    fn event(&mut self, seq: u64, event: &Event) {
        if event.kind == EventKind::STEP {
            self.steps = event.aux;
        }
        if let Some(save) = &mut self.save {
            save.event(seq, event);
        }
        if event.level != Level::TENSOR || event.kind == EventKind::SAMPLE {
            self.foreign.see(seq, event);
        }
    }

    fn step(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        let goes_on = self.take(seq, event, placements);
        if let Some(save) = &mut self.save {
            decisions::take(&mut self.decisions);
            let failure = (!goes_on).then_some(Failure {
                bytes: self.outcome.failed_bytes,
                is_foreign: self.outcome.failed_foreign != 0,
            });
            save.step(seq, event, &self.decisions, failure);
        }
        goes_on
    }

    fn progress(&mut self, of: f64) {
        if let Some(progress) = self.wanted.progress {
            progress(of);
        }
    }
}

impl Replay<'_> {
    /// Takes a step; false: it was the last.
    fn take(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        self.outcome.last_seq = seq;
        match event.kind {
            EventKind::ALLOC => self.allocate(seq, event, placements),
            EventKind::FREE => {
                self.recorded_live = self.recorded_live.saturating_sub(event.bytes);
                if let Some(live) = self.live.remove(&event.ptr) {
                    self.late.freed(event.ptr, seq);
                    events::in_capture(self.threads.are_captured(event.thread, live.is_of_pool));
                    events::freeing(seq, || self.allocator.free(live.block));
                }
                true
            }
            EventKind::OUT_OF_MEMORY => self.fail(seq, event, placements),
            EventKind::ALLOCATOR => {
                if !self.call(seq, event, placements) && self.outcome.exact_until == 0 {
                    self.outcome.exact_until = seq;
                }
                true
            }
            _ => true,
        }
    }
}
