//! Observes each record, and returns the timeline at the end.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq};

use super::Timeline;
use super::axis::{Axis, BUCKETS};
use super::bands::Build;
use super::course::CourseTrack;
use super::folds::Gaps;
use super::holders::Libraries;
use super::lanes::LanesTrack;
use super::outcomes::Outcomes;
use super::stretch::{Moment, Stretch};
use super::tensors::Ended;
use super::track::Track;
use crate::replay::{Effect, LevelState, Replay};

/// Follows a capture. Its memory does not grow with the capture's length.
#[derive(Debug)]
pub struct TimelineBuilder {
    stretch: Stretch,
    /// `None` before the start of the stretch.
    axis: Option<Axis>,
    gaps: Option<Gaps>,
    tracks: BTreeMap<DeviceOrdinal, Track>,
    libraries: Libraries,
    course: CourseTrack,
    lanes: LanesTrack,
    /// Failures and retries at the start of the stretch, and at its end if that is before the run's.
    outcomes: [Option<Outcomes>; 2],
}

impl Default for TimelineBuilder {
    /// For the whole run.
    fn default() -> Self {
        Self::of(Stretch::default())
    }
}

impl TimelineBuilder {
    /// For a part of the run. The capture must still be read to its end, because the categories of tensors are known
    /// only then.
    pub fn of(stretch: Stretch) -> Self {
        let from = stretch.from.map_or(0, |from| from.time.0);
        let to = stretch.to.map_or(u64::MAX, |to| to.time.0);
        Self {
            stretch,
            axis: None,
            gaps: None,
            tracks: BTreeMap::new(),
            libraries: Libraries::default(),
            course: CourseTrack::default(),
            lanes: LanesTrack::within(from, to),
            outcomes: [None, None],
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        match record {
            Record::Event(seq, event) => self.event(replay, seq, event, effect),
            Record::State(..) => self.restored(replay),
            Record::Definition(..) => {}
        }
    }

    /// Applies the state at the start of a bounded capture to all devices.
    fn restored(&mut self, replay: &Replay) {
        self.lanes.begin(replay.last.0);
        for (device, now) in &replay.devices {
            let track = self.tracks.entry(*device).or_default();
            if let Some(row) = replay.levels.get(&(*device, Level::DRIVER)) {
                track.held = self.libraries.live(replay, row);
            }
            track.pass(replay.last_seq, replay.last, now.now);
        }
        if self.stretch.from.is_none() {
            let (seq, time) = (replay.last_seq, replay.last);
            self.begin(replay, Moment { seq, time });
        }
    }

    /// The stretch begins.
    fn begin(&mut self, replay: &Replay, at: Moment) {
        self.axis = Some(Axis::from(at.time));
        self.gaps = Some(Gaps::from(at.time));
        self.course.begin(at.time);
        for track in self.tracks.values_mut() {
            track.begin(at.seq, at.time);
        }
        self.outcomes[0] = Some(Outcomes::of(replay));
    }

    fn event(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        if self.axis.is_none() {
            self.lanes.begin(event.time.0);
            let time = event.time;
            let from = self.stretch.from.unwrap_or(Moment { seq, time });
            if !self.stretch.is_before(seq) {
                self.begin(replay, from);
            }
        }
        if self.stretch.is_after(seq) && self.outcomes[1].is_none() {
            self.outcomes[1] = Some(Outcomes::of(replay));
        }
        if self.stretch.has(seq) {
            self.pass(event.time);
        }
        if is_mark(event.kind) {
            if !self.stretch.is_after(seq) {
                self.course.mark(replay, seq, event);
            }
            self.lanes.mark(replay, event);
            self.happened(seq, event.time);
        } else {
            self.memory(replay, seq, event, effect);
        }
    }

    /// Advances to the time of an event.
    fn pass(&mut self, time: Nanos) {
        self.axis.iter_mut().for_each(|axis| axis.pass(time));
        self.course.advance(time);
    }

    /// An event occurred, so the program was not idle.
    fn happened(&mut self, seq: Seq, time: Nanos) {
        if self.stretch.has(seq) {
            self.gaps.iter_mut().for_each(|gaps| gaps.event(time));
        }
    }

    /// An event that is not a mark.
    fn memory(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        let Some(device) = replay.devices.get(&event.device) else {
            return self.happened(seq, event.time);
        };
        let track = self.tracks.entry(event.device).or_default();
        if event.level == Level::DRIVER && effect != Effect::None {
            self.libraries.apply(replay, &mut track.held, effect);
        }
        let bucket = match self.axis {
            Some(axis) if self.stretch.has(seq) => Some(axis.current()),
            _ => None,
        };
        if event.level == Level::TENSOR
            && let Effect::Gone(block) = effect
        {
            let ended = Ended {
                made: block.seq,
                category: replay.newest_ended,
                bytes: block.bytes,
            };
            track.ended(bucket.unwrap_or(u64::MAX), ended);
        }
        match (bucket, self.axis) {
            (Some(index), Some(axis)) => {
                let levels = device.now;
                let is_peak = track.point(index, seq, Nanos(axis.now()), levels);
                if is_peak && !self.stretch.is_whole() {
                    track.peak_context = Some(replay.span_context());
                }
            }
            _ if self.stretch.is_before(seq) => track.pass(seq, event.time, device.now),
            _ => return,
        }
        let mut idle = false;
        if event.kind == EventKind::SAMPLE
            && let Some(process) = device.readings.last.and_then(|reading| reading.process)
        {
            idle = !track.reading(process);
        }
        self.widen(event.device);
        if !idle {
            self.happened(seq, event.time);
        }
    }

    /// Widens the buckets until the device has no more than the maximum.
    fn widen(&mut self, device: DeviceOrdinal) {
        let too_many = |track: &Track| track.buckets.len() > BUCKETS;
        while self.tracks.get(&device).is_some_and(too_many) {
            self.axis.iter_mut().for_each(Axis::widen);
            self.tracks.values_mut().for_each(Track::merge);
        }
    }

    /// The timeline, after all records: of one level, or of all parts of each device's memory.
    pub fn finish(
        mut self,
        replay: &Replay,
        level: Option<Level>,
        only: Option<DeviceOrdinal>,
    ) -> Timeline {
        if let (None, Some(from)) = (self.axis, self.stretch.from) {
            self.begin(replay, from);
        }
        let mut axis = self.axis.unwrap_or_else(|| Axis::from(Nanos(0)));
        if let Some(to) = self.stretch.to {
            axis.pass(to.time);
        }
        // The stretch may end without an event, or with a reading that changes nothing.
        let gaps = self.gaps.iter_mut();
        gaps.for_each(|gaps| gaps.event(Nanos(axis.now())));
        let tracks = std::mem::take(&mut self.tracks).into_iter();
        let wanted = tracks.filter(|(device, _)| only.is_none_or(|only| only == *device));
        let mut devices = Vec::new();
        for (device, track) in wanted {
            let kept = self.libraries.at_kept_peak(replay, device);
            let context = track.peak_context;
            let buckets = track.finish(live(replay, device));
            let mut build = Build::new(replay, &self.libraries, axis, device, level);
            if !self.stretch.is_whole() {
                build = build.of_stretch(context);
            }
            devices.extend(build.timeline(buckets, kept));
        }
        let to = axis.now();
        let gaps = self.gaps.as_ref();
        let [from, until] = &self.outcomes;
        let until = until.clone().unwrap_or_else(|| Outcomes::of(replay));
        let outcomes = until.since(from.as_ref().filter(|_| self.stretch.from.is_some()));
        let failures = outcomes.failures(replay, self.stretch);
        Timeline {
            retries: outcomes.retries(),
            from_ns: axis.start(),
            to_ns: to,
            from_seq: self.stretch.from.map(|from| from.seq.0),
            to_seq: self.stretch.to.map(|to| to.seq.0),
            bucket_ns: axis.width(),
            folds: gaps.map_or(Vec::new(), |gaps| gaps.folds(to)),
            trains: replay.spans.trains,
            devices,
            course: self.course.finish(to),
            lanes: self.lanes.finish(replay, replay.last.0),
            failure_count: outcomes.failure_count.max(failures.len() as u64),
            failures,
        }
    }
}

/// Whether an event is only a mark.
fn is_mark(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::STEP
            | EventKind::PHASE_BEGIN
            | EventKind::PHASE_END
            | EventKind::RANGE_BEGIN
            | EventKind::RANGE_END
            | EventKind::SCOPE_BEGIN
            | EventKind::SCOPE_END
            | EventKind::MARK
    )
}

/// A device's tensors that are live at the end.
fn live(replay: &Replay, device: DeviceOrdinal) -> impl Iterator<Item = Ended> {
    let row = replay.levels.get(&(device, Level::TENSOR));
    let blocks = row.into_iter().flat_map(LevelState::live_blocks);
    blocks.map(|(_, block)| Ended {
        made: block.seq,
        category: replay.stacks(block.key).purpose.category(),
        bytes: block.bytes,
    })
}
