//! Runs the steps of a capture with the allocator of this process.

use gpumem_capture::{AllocatorCall, Definition, Event, EventKind, Level, PlacementId};
use gpumem_judge::{Ends, Growth};
use gpumem_replay::Figure;
use gpumem_torch_abi::{Method, Stream};
use rustc_hash::FxHashMap;

use crate::allocator::Allocator;
use crate::ballast::Ballast;
use crate::besides::Besides;
use crate::calls;
use crate::checkpoints::{Checkpoints, Ended, Part, State};
use crate::decisions::{self, Decision, Failure, Restored, Step};
use crate::events;
use crate::foreign::Foreign;
use crate::live::Live;
use crate::save::Save;
use crate::steps::{self, Placement, Placements, Steps};
use crate::threads::Threads;
use crate::unknown::Unknown;
use crate::wanted::{Outcome, Wanted};

/// Replays a device of a capture, to the end or to the first failure that the recorded run did not have. The error is
/// the reason why there is no outcome.
pub(crate) fn replay(wanted: &Wanted<'_>) -> Result<Outcome, String> {
    let allocator = Allocator::find()?;
    let ballast = Ballast::new(wanted.own_bytes).ok_or("CUDA's runtime is not loaded")?;
    let save = match &wanted.save {
        None => None,
        Some(_) if !allocator.attach_trace(decisions::traced) => {
            return Err("this PyTorch's allocator cannot be traced, nor a replay saved".into());
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
        besides: Besides::new(Foreign::new(wanted.device, wanted.survey), ballast),
        live: FxHashMap::default(),
        unknown: Unknown::new(wanted.device, wanted.survey, wanted.assumed),
        checkpoints: Checkpoints::default(),
        restored: None,
        recorded_live: 0,
        threads: Threads::default(),
        steps: 0,
        ends: Ends::from(1),
        outcome: Outcome::default(),
        save,
        decisions: Vec::new(),
    };
    events::begin(replay.unknown.holds());
    if replay.save.is_some() {
        decisions::begin();
    }
    let called_before = calls::so_far();
    let read = steps::read(wanted.capture, wanted.device, &mut replay);
    replay.outcome.calls = calls::so_far().since(&called_before);
    decisions::end();
    events::end();
    read?;
    if replay.allocator.refuses() {
        return Err("PyTorch refuses an allocation of the program under these settings".into());
    }
    let grown_a_step = replay.grown_a_step();
    if let Some(save) = replay.save {
        save.finish()?;
    }
    let outcome = Outcome {
        sizes_unknown: replay.unknown.sizes,
        waits_unknown: replay.unknown.waits,
        foreign_peak: replay.besides.most,
        grown_a_step,
        ..replay.outcome
    };
    if outcome.allocations == 0 && outcome.failed_seq == 0 {
        return Err("the capture has no tensors of PyTorch's on this device".into());
    }
    Ok(outcome)
}

struct Replay<'a> {
    wanted: &'a Wanted<'a>,
    allocator: Allocator,
    besides: Besides,
    /// Blocks by their recorded addresses.
    live: FxHashMap<u64, Live>,
    unknown: Unknown,
    checkpoints: Checkpoints<Live>,
    /// Set if the current step is part of a restore.
    restored: Option<Restored>,
    recorded_live: u64,
    threads: Threads,
    /// The number of the last step that ended, as in the capture.
    steps: u64,
    /// Recorded live memory at the ends of steps.
    ends: Ends<()>,
    outcome: Outcome,
    save: Option<Save>,
    decisions: Vec<Decision>,
}

impl Replay<'_> {
    fn grown_a_step(&self) -> u64 {
        let growth = Growth::of(&self.ends.sum(&[()]));
        match growth.is_growth {
            true => growth.per_round.unsigned_abs(),
            false => 0,
        }
    }

    /// Holds the memory that is outside the pool; false if it does not fit.
    fn hold_foreign(&mut self, seq: u64, event: &Event) -> bool {
        let Err(bytes) = self.besides.hold() else {
            return true;
        };
        self.outcome.failed_foreign = 1;
        self.end(seq, event, bytes)
    }

    /// Ends the replay, because there is no memory for these bytes. 0: a pool cannot be restored.
    fn end(&mut self, seq: u64, event: &Event, bytes: u64) -> bool {
        self.outcome.fail(seq, bytes, event.time, self.steps);
        false
    }

    fn placement(&mut self, event: &Event, placements: &Placements) -> Placement {
        if event.placement == PlacementId::UNKNOWN {
            self.outcome.placements_unknown += 1;
            return Placement::default();
        }
        placements.of(event.placement)
    }

    /// Allocates a block for an event.
    fn ask(&mut self, bytes: u64, event: &Event, placements: &Placements) -> Option<Live> {
        let placement = self.placement(event, placements);
        let (stream, _) = self.wanted.here(placement.stream);
        let pool = placement.pool;
        let mut live = Live {
            block: 0,
            stream,
            pool,
            bytes: event.bytes,
        };
        events::in_capture(self.threads.are_captured(event.thread, live.is_of_pool()));
        let alloc = || self.allocator.alloc(bytes, stream, pool);
        let active = self.threads.active(event.thread);
        // Releases without active pools use the pool like any other.
        let with = active.and_then(|active| self.allocator.with_active(active, alloc));
        live.block = with.unwrap_or_else(alloc)?;
        Some(live)
    }

    fn allocate(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        if !self.hold_foreign(seq, event) {
            return false;
        }
        let requested = self.unknown.request(event);
        let Some(block) = self.ask(requested, event, placements) else {
            return self.end(seq, event, requested);
        };
        self.outcome.allocations += 1;
        self.count(event);
        if let Some(stale) = self.live.insert(event.ptr, block) {
            // Its free was not recorded.
            self.allocator.free(stale.block);
        }
        self.is_worth_it(seq)
    }

    /// Whether the pool is still small enough to continue the replay.
    fn is_worth_it(&mut self, seq: u64) -> bool {
        let most = self.wanted.most_reserved;
        let is = most == 0 || decisions::most_reserved() <= most;
        self.outcome.stopped_seq = if is { 0 } else { seq };
        is
    }

    /// Repeats a failure of the recorded run.
    fn fail(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        if !self.hold_foreign(seq, event) {
            return false;
        }
        self.outcome.recorded_failures += 1;
        self.unknown.synchronized();
        if let Some(saved) = self.ask(event.bytes, event, placements) {
            self.outcome.saved += 1;
            self.allocator.free(saved.block);
        }
        true
    }

    /// Marks a block as used on a stream; returns whether that succeeded.
    fn use_on(&mut self, ptr: u64, on: Placement) -> bool {
        let Some(&Live { block, stream, .. }) = self.live.get(&ptr) else {
            return true; // PyTorch ignores uses of another allocator's blocks, too
        };
        if on.stream != 0 && on.stream_id.is_none() {
            self.outcome.stand_ins += 1;
        }
        let (on, id) = self.wanted.here(on.stream);
        // A use on the block's own stream does not count.
        if on != stream {
            self.unknown.used(ptr, on);
        }
        self.allocator
            .record_stream(block, Stream { device: 1, id })
    }

    /// Repeats a call of the allocator; returns whether that succeeded.
    fn call(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        let placement = placements.of(event.placement);
        let pool = placement.pool;
        let allocator = &self.allocator;
        match AllocatorCall(event.aux) {
            call if self.unknown.hides(call) => true,
            AllocatorCall::RELEASED => {
                self.unknown.released(event.ptr);
                true // the allocator finds that out with its events
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
            // As in a rerun, they override the settings under test.
            AllocatorCall::SETTINGS => match self.wanted.survey.settings.get(&seq) {
                Some(text) => {
                    self.unknown.set(&text.to_string_lossy());
                    self.wanted.set.is_some_and(|set| set(text.as_ptr()) == 0)
                }
                None => true, // settings from the environment
            },
            AllocatorCall::STATE => self.take_state(event, pool),
            AllocatorCall::CHECKPOINT => self.checkpoints.begin(event.thread, event.ptr),
            AllocatorCall::CHECKPOINT_END => {
                let has_failed = event.bytes != 0;
                match self.checkpoints.end(event.thread, event.ptr, has_failed) {
                    Ended::Empty(state) => self.restore(seq, event, state),
                    ended => ended != Ended::Otherwise,
                }
            }
            _ => false,
        }
    }
}

impl Steps for Replay<'_> {
    fn define(&mut self, definition: &Definition) {
        self.besides.foreign.define(definition);
        self.unknown.define(definition);
        if let Some(save) = &mut self.save {
            save.define(definition);
        }
    }

    fn event(&mut self, seq: u64, event: &Event) {
        if event.kind == EventKind::STEP {
            self.steps = event.aux;
            let live = Figure {
                bytes: self.recorded_live,
                blocks: self.live.len() as u64,
            };
            self.ends.end(event.aux, || [((), live)]);
        }
        self.unknown.see(event);
        if let Some(save) = &mut self.save {
            save.event(seq, event);
        }
        if event.level != Level::TENSOR || event.kind == EventKind::SAMPLE {
            self.besides.foreign.see(seq, event);
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
            let step = Step {
                decisions: &self.decisions,
                failure,
                restored: self.restored.take(),
            };
            save.step(seq, event, &step);
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
    /// Counts the figures of the recorded run.
    fn count(&mut self, event: &Event) {
        match event.kind {
            EventKind::ALLOC => {
                self.recorded_live += event.bytes;
                self.outcome.had(self.recorded_live, event.aux);
            }
            _ => self.recorded_live = self.recorded_live.saturating_sub(event.bytes),
        }
    }

    /// Saves the state of a pool; returns whether that succeeded.
    fn take_state(&mut self, event: &Event, pool: (u64, u64)) -> bool {
        events::in_capture(self.threads.are_captured(event.thread, false));
        let live = self.live.iter().filter(|(_, live)| live.pool == pool);
        let state = self.allocator.state(pool).map(|shared| State {
            pool,
            shared,
            live: live.map(|(&ptr, &live)| (ptr, live)).collect(),
        });
        self.checkpoints.taken(event.ptr, state)
    }

    /// Takes an event that is part of a restore; the first one restores the pool. `None` if the event is not part of a
    /// restore; false if the restore failed, as it would in a rerun.
    fn part_of_restore(&mut self, seq: u64, event: &Event) -> Option<bool> {
        let state = match self.checkpoints.part(event) {
            Part::Nothing => return None,
            Part::First(state) => Some(state),
            Part::Another => None,
        };
        self.count(event);
        self.restored = Some(Restored::default());
        match state.is_none_or(|state| self.restore(seq, event, state)) {
            true => Some(true),
            false => Some(self.end(seq, event, 0)),
        }
    }

    /// Restores a pool to a state; returns whether that succeeded.
    fn restore(&mut self, seq: u64, event: &Event, state: u64) -> bool {
        events::in_capture(self.threads.are_captured(event.thread, false));
        let Some(State { pool, shared, live }) = self.checkpoints.state(state) else {
            return false;
        };
        let mut is_done = false;
        events::freeing(seq, || is_done = self.allocator.restore(shared));
        let restored = self.restored.insert(Restored::default());
        if is_done {
            for (ptr, gone) in self.live.extract_if(|_, live| live.pool == *pool) {
                self.unknown.freed(seq, ptr, gone.bytes);
                restored.gone.push(ptr);
            }
            self.live.extend(live.iter().copied());
            restored.back = live.iter().map(|(ptr, live)| (*ptr, live.block)).collect();
        }
        is_done
    }

    /// Takes a step; returns false after the last one.
    fn take(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool {
        self.outcome.last_seq = seq;
        if let Some(goes_on) = self.part_of_restore(seq, event) {
            return goes_on;
        }
        match event.kind {
            EventKind::ALLOC => self.allocate(seq, event, placements),
            EventKind::FREE => {
                self.count(event);
                if let Some(live) = self.live.remove(&event.ptr) {
                    self.unknown.freed(seq, event.ptr, event.bytes);
                    events::in_capture(self.threads.are_captured(event.thread, live.is_of_pool()));
                    events::freeing(seq, || self.allocator.free(live.block));
                }
                true
            }
            EventKind::OUT_OF_MEMORY => self.fail(seq, event, placements),
            EventKind::ALLOCATOR => {
                if !self.call(seq, event, placements) {
                    self.outcome.doubt(seq);
                }
                true
            }
            _ => true,
        }
    }
}
