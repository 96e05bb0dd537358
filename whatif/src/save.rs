//! Writes a replay as a capture: all records of the recorded capture, in order and with their times. Only the events of
//! PyTorch's pool on the replayed device are replaced, by the decisions of the allocator here.

use std::path::{Path, PathBuf};

use gpumem_capture::{
    AllocatorCall, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos,
    OfflineError, OfflineWriter, Origin, PlacementId, Seq,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decisions::{Action, Decision, Failure, Restored, Step};
use crate::facts::{Facts, Numbers};
use crate::growth::Growth;
use crate::places::Places;
use crate::pool::PoolEvents;
use crate::segments::{Segments, relocated};
use crate::survey::Survey;
use crate::symbols::Symbols;

/// Slots of the ring: as many as the largest definition needs.
const RING_SLOTS: u32 = 1 << 17;

/// The request to save a replay.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// A file that does not exist.
    pub(crate) path: PathBuf,
    /// The bytes of the replay's card.
    pub(crate) card: u64,
    /// Facts of the process by their keys, which describe the replay.
    pub(crate) facts: Vec<(String, String)>,
}

/// The capture of a replay, under construction.
pub(crate) struct Save {
    path: PathBuf,
    device: DeviceOrdinal,
    out: OfflineWriter,
    facts: Facts,
    numbers: Numbers,
    pool: PoolEvents,
    segments: Segments,
    /// Events by which the program set options at run time.
    settings: FxHashSet<u64>,
    /// Live blocks: their addresses in the replay, by recorded addresses.
    blocks: FxHashMap<u64, u64>,
    places: Places,
    /// The physical memory of the recorded pool.
    recorded_physical: u64,
    /// PyTorch's newest figure of its reserved bytes.
    reserved: u64,
    /// What else took memory of the card since the allocator's newest request.
    growth: Growth,
    last: Nanos,
    has_failed: bool,
    symbols: Symbols,
    error: Option<OfflineError>,
}

impl Save {
    /// Creates a capture of a replay of `capture`.
    pub(crate) fn create(
        capture: &Path,
        device: DeviceOrdinal,
        survey: &Survey,
        wanted: &Wanted,
    ) -> Result<Self, String> {
        let pool = PoolEvents::of(capture, device)?;
        let mut nonce = pool.nonce;
        for byte in wanted.facts.iter().flat_map(|(_, value)| value.bytes()) {
            nonce = nonce.rotate_left(5).wrapping_mul(0x517c_c1b7_2722_0a95) ^ u64::from(byte);
        }
        let origin = Origin {
            started_wall_ns: pool.started_wall_ns,
            nonce,
        };
        let out = OfflineWriter::create(&wanted.path, origin, RING_SLOTS);
        let mut save = Self {
            path: wanted.path.clone(),
            device,
            out: out.map_err(|error| error.to_string())?,
            facts: Facts::new(device, wanted.card),
            numbers: Numbers::default(),
            segments: Segments::new(device, &pool),
            pool,
            settings: survey.settings.keys().copied().collect(),
            blocks: FxHashMap::default(),
            places: Places::default(),
            recorded_physical: 0,
            reserved: 0,
            growth: Growth::default(),
            last: Nanos(0),
            has_failed: false,
            symbols: Symbols::default(),
            error: None,
        };
        for (key, value) in &wanted.facts {
            let (key, value) = (key.clone(), value.clone());
            save.write_definition(&Definition::Process { key, value });
        }
        Ok(save)
    }

    /// Takes in a definition of the recorded capture.
    pub(crate) fn define(&mut self, definition: &Definition) {
        self.places.define(self.device, definition);
        if self.symbols.take(definition) {
            return;
        }
        if let Some(definition) = self.facts.of_replay(definition, &self.numbers) {
            self.write_definition(&definition);
        }
    }

    /// Takes in an event of the recorded capture. Steps of the replay come again in `step`.
    pub(crate) fn event(&mut self, seq: u64, event: &Event) {
        if self.is_step(event) {
            return;
        }
        let here = event.device == self.device;
        if self.pool.contains(seq) {
            if event.level == Level::PHYSICAL {
                let physical = &mut self.recorded_physical;
                match event.kind {
                    EventKind::ALLOC => *physical += event.bytes,
                    _ => *physical = physical.saturating_sub(event.bytes),
                }
            }
            return;
        }
        let more = self
            .segments
            .physical
            .wrapping_sub(self.recorded_physical)
            .cast_signed();
        let event = match event.kind {
            EventKind::SAMPLE if here => Event {
                bytes: event.bytes.saturating_add_signed(more),
                ptr: event.ptr.saturating_add_signed(more),
                ..*event
            },
            EventKind::CARD if here => Event {
                bytes: event.bytes.saturating_add_signed(more),
                ptr: self.facts.card,
                ..*event
            },
            EventKind::CANCEL => Event {
                aux: self.numbers.free(event),
                ..*event
            },
            _ => *event,
        };
        if here {
            self.growth.see(&event);
        }
        if let Some(now) = self.write(&event, None) {
            self.numbers.wrote(seq, &event, now);
        }
    }

    /// Whether the results of the replay are written instead of the event.
    fn is_step(&self, event: &Event) -> bool {
        let replayed = matches!(
            event.kind,
            EventKind::ALLOC
                | EventKind::FREE
                | EventKind::OUT_OF_MEMORY
                | EventKind::ROLE
                | EventKind::ALLOCATOR
        );
        let is_call = event.kind == EventKind::ALLOCATOR && event.device == DeviceOrdinal::NONE;
        event.level == Level::TENSOR && replayed && (event.device == self.device || is_call)
    }

    /// Takes in a replayed event, and the allocator's decisions for it. A failure is the last one.
    pub(crate) fn step(&mut self, seq: u64, event: &Event, step: &Step<'_>) {
        if !self.is_step(event) {
            return;
        }
        let Step {
            decisions, failure, ..
        } = *step;
        if let Some(restored) = &step.restored {
            self.restored(event, decisions, restored);
            self.has_failed = failure.is_some();
            return;
        }
        match event.kind {
            EventKind::ALLOCATOR => self.call(seq, event),
            EventKind::ROLE => {
                if let Some(&ptr) = self.blocks.get(&event.ptr) {
                    self.write(&Event { ptr, ..*event }, None);
                }
            }
            EventKind::FREE if event.flags.contains(EventFlags::UNKNOWN_POINTER) => {
                let aux = self.reserved;
                self.write(&Event { aux, ..*event }, None);
            }
            EventKind::FREE => drop(self.blocks.remove(&event.ptr)),
            _ => {}
        }
        let by = Event {
            device: self.device,
            flags: EventFlags(event.flags.0 & !EventFlags::MISMATCH.0),
            ..*event
        };
        for decision in decisions {
            self.decided(decision, &by);
        }
        let is_request = matches!(event.kind, EventKind::ALLOC | EventKind::OUT_OF_MEMORY);
        if is_request && failure.is_none() {
            self.growth.clear();
        }
        if let Some(failure) = failure {
            self.has_failed = true;
            let is_written = decisions.iter().any(|of| of.action == Action::OutOfMemory);
            if !is_written {
                self.fail(failure, &by);
            }
        }
    }

    /// Takes in a part of a restore of a pool, and the allocator's decisions; all of them come with the first part.
    fn restored(&mut self, event: &Event, decisions: &[Decision], restored: &Restored) {
        for ptr in &restored.gone {
            self.blocks.remove(ptr);
        }
        let back = restored.back.iter();
        self.blocks
            .extend(back.map(|&(ptr, here)| (ptr, relocated(here))));
        for decision in decisions {
            let by = Event {
                kind: EventKind::ALLOCATOR,
                bytes: decision.bytes,
                flags: EventFlags(event.flags.0 & EventFlags::NO_GRAD.0),
                placement: match decision.action {
                    Action::Alloc => self.places.of(decision.from),
                    _ => PlacementId::DEFAULT,
                },
                ..*event
            };
            self.decided(decision, &by);
        }
        if event.kind == EventKind::ALLOCATOR {
            self.write(event, None);
        }
    }

    /// Writes a call of the allocator. Settings from the environment of the recorded run do not apply to the replay.
    /// Returns of blocks to their pool are skipped, because the allocator itself decides them.
    fn call(&mut self, seq: u64, event: &Event) {
        let ptr = match AllocatorCall(event.aux) {
            AllocatorCall::SETTINGS if !self.settings.contains(&seq) => return,
            AllocatorCall::RELEASED => return,
            AllocatorCall::RECORD_STREAM => match self.blocks.get(&event.ptr) {
                Some(&ptr) => ptr,
                None => return,
            },
            _ => event.ptr,
        };
        self.write(&Event { ptr, ..*event }, None);
    }

    fn decided(&mut self, decision: &Decision, by: &Event) {
        let &Decision {
            action,
            bytes,
            allocated,
            reserved,
            ..
        } = decision;
        let tensor = Event {
            ptr: relocated(decision.ptr),
            bytes,
            aux: reserved,
            slack: 0,
            ..*by
        };
        let event = match action {
            Action::Alloc => {
                if by.kind == EventKind::ALLOC {
                    self.blocks.insert(by.ptr, tensor.ptr);
                    self.places.see(decision.from, by.placement);
                }
                Event {
                    kind: EventKind::ALLOC,
                    slack: slack(by, bytes),
                    ..tensor
                }
            }
            Action::Free => Event {
                kind: EventKind::FREE,
                ..tensor
            },
            Action::OutOfMemory => Event {
                kind: EventKind::OUT_OF_MEMORY,
                ptr: allocated,
                ..tensor
            },
            Action::Release => Event {
                kind: EventKind::ALLOCATOR,
                bytes: 0,
                aux: AllocatorCall::RELEASED.0,
                flags: EventFlags::NONE,
                ..tensor
            },
            _ => {
                for event in self.segments.decided(decision, by) {
                    self.write(&event, None);
                }
                return;
            }
        };
        let has_figures = action != Action::Release;
        if has_figures {
            self.reserved = reserved;
        }
        let counts = matches!(action, Action::Alloc | Action::Free);
        self.write(&event, counts.then_some(allocated));
    }

    /// Writes a failure that PyTorch did not report.
    fn fail(&mut self, failure: Failure, by: &Event) {
        if failure.is_foreign {
            for event in self.growth.refused(failure.bytes, by) {
                self.write(&event, None);
            }
            return;
        }
        let event = Event {
            kind: EventKind::OUT_OF_MEMORY,
            ptr: 0,
            bytes: failure.bytes,
            aux: self.reserved,
            slack: 0,
            ..*by
        };
        self.write(&event, None);
    }

    fn write_definition(&mut self, definition: &Definition) {
        if self.error.is_none()
            && let Err(error) = self.out.define(definition)
        {
            self.error = Some(error);
        }
    }

    /// Writes an event; `live`: the live bytes after it.
    fn write(&mut self, event: &Event, live: Option<u64>) -> Option<Seq> {
        if self.error.is_some() {
            return None;
        }
        self.last = self.last.max(event.time);
        let written = self.out.event_to(event, live);
        written.map_err(|error| self.error = Some(error)).ok()
    }

    /// Ends the capture.
    pub(crate) fn finish(self) -> Result<(), String> {
        let end = match self.has_failed {
            true => self.last,
            false => self.pool.ended.unwrap_or(self.last).max(self.last),
        };
        let written = self.error.map_or(Ok(()), Err);
        written
            .and_then(|()| self.out.finish(end))
            .map_err(|error| error.to_string())?;
        self.symbols
            .embed(&self.path)
            .map_err(|error| error.to_string())
    }
}

/// The size of a block beyond the request of the recorded event.
fn slack(by: &Event, bytes: u64) -> u32 {
    let asked = match (by.kind, by.slack) {
        (EventKind::ALLOC, Event::SLACK_UNKNOWN) => return Event::SLACK_UNKNOWN,
        (EventKind::ALLOC, slack) => by.bytes.saturating_sub(slack.into()),
        _ => by.bytes,
    };
    u32::try_from(bytes.saturating_sub(asked)).unwrap_or(Event::SLACK_UNKNOWN)
}
