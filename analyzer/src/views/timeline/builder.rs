//! Sees each record, and gives the timeline at the end.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq};

use super::axis::Axis;
use super::bands::Build;
use super::course::{CourseTrack, Slice};
use super::holders::Libraries;
use super::tensors::Ended;
use super::track::Track;
use super::{CourseBucket, Timeline, TimelineFailure, TimelineRetries};
use crate::replay::{Effect, LevelState, Replay};
use crate::views::json::ordinal;

/// Follows a capture. Its memory does not grow with the capture's length.
#[derive(Debug, Default)]
pub struct TimelineBuilder {
    axis: Option<Axis>,
    tracks: BTreeMap<DeviceOrdinal, Track>,
    libraries: Libraries,
    course: CourseTrack,
}

impl TimelineBuilder {
    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        match record {
            Record::Event(seq, event) => self.event(replay, seq, event, effect),
            Record::State(..) => self.restored(replay),
            Record::Definition(..) => {}
        }
    }

    /// A bounded capture begins with a state: all devices stand as it says.
    fn restored(&mut self, replay: &Replay) {
        let axis = self.axis.insert(Axis::from(replay.last));
        for (device, now) in &replay.devices {
            let track = self.tracks.entry(*device).or_default();
            if let Some(row) = replay.levels.get(&(*device, Level::DRIVER)) {
                track.held = self.libraries.live(replay, row);
            }
            track.point(axis.current(), replay.last_seq, replay.last, now.now);
        }
    }

    fn event(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        let axis = self.axis.get_or_insert_with(|| Axis::from(event.time));
        for _ in 0..axis.advance(event.time) {
            self.tracks.values_mut().for_each(Track::merge);
            self.course.merge();
        }
        if matches!(
            event.kind,
            EventKind::STEP | EventKind::PHASE_BEGIN | EventKind::PHASE_END
        ) {
            self.course.mark(replay, seq, event, axis);
            return;
        }
        if matches!(
            event.kind,
            EventKind::RANGE_BEGIN
                | EventKind::RANGE_END
                | EventKind::SCOPE_BEGIN
                | EventKind::SCOPE_END
                | EventKind::MARK
        ) {
            return;
        }
        let Some(device) = replay.devices.get(&event.device) else {
            return;
        };
        let track = self.tracks.entry(event.device).or_default();
        if event.level == Level::DRIVER && effect != Effect::None {
            self.libraries.apply(replay, &mut track.held, effect);
        }
        if event.level == Level::TENSOR
            && let Effect::Gone(block) = effect
        {
            let ended = Ended {
                made: block.seq,
                category: replay.newest_ended,
                bytes: block.bytes,
            };
            track.ended(axis.current(), ended);
        }
        track.point(axis.current(), seq, Nanos(axis.now()), device.now);
        if event.kind == EventKind::SAMPLE
            && let Some(process) = device.readings.last.and_then(|reading| reading.process)
        {
            track.reading(process);
        }
    }

    /// The timeline, after all records: of one level, or of all parts of each device's memory.
    pub fn finish(
        mut self,
        replay: &Replay,
        level: Option<Level>,
        only: Option<DeviceOrdinal>,
    ) -> Timeline {
        let axis = self.axis.unwrap_or_else(|| Axis::from(Nanos(0)));
        let tracks = self.tracks.into_iter();
        let wanted = tracks.filter(|(device, _)| only.is_none_or(|only| only == *device));
        let mut devices = Vec::new();
        for (device, track) in wanted {
            let kept = self.libraries.at_kept_peak(replay, device);
            let buckets = track.finish(live(replay, device));
            let build = Build::new(replay, &self.libraries, axis, device, level);
            devices.extend(build.timeline(buckets, kept));
        }
        let slices = self.course.finish(&axis).into_iter().enumerate();
        let any = |slice: &Slice| *slice != Slice::default();
        let failures = replay.failures.all();
        let failures = failures.into_iter().map(|(_, failure)| TimelineFailure {
            seq: failure.seq.0,
            time_ns: failure.event.time.0,
            device: ordinal(failure.event.device),
            bytes: failure.event.bytes,
        });
        let retries = replay.devices.keys().map(|device| TimelineRetries {
            device: ordinal(*device),
            count: replay.failures.answered_on(*device),
        });
        Timeline {
            retries: retries.filter(|of| of.count > 0).collect(),
            from_ns: axis.start(),
            to_ns: axis.now(),
            bucket_ns: axis.width(),
            trains: replay.spans.trains,
            devices,
            course: slices
                .filter(|(_, slice)| any(slice))
                .map(|(index, slice)| course(&axis, index as u32, slice))
                .collect(),
            failures: failures.collect(),
            failure_count: replay.failures.count(),
        }
    }
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

fn course(axis: &Axis, index: u32, slice: Slice) -> CourseBucket {
    let [backward_ns, optimizer_ns, zero_grad_ns, other_ns] = slice.phases;
    CourseBucket {
        from_ns: axis.begin(index),
        to_ns: axis.begin(index + 1).min(axis.now()),
        backward_ns,
        optimizer_ns,
        zero_grad_ns,
        other_ns,
        step: (slice.steps > 0).then_some(slice.step),
        step_ns: (slice.steps > 0).then_some(slice.step_time),
        steps: slice.steps,
    }
}
