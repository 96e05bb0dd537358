//! What pictures of a job need of a capture.

use gpumem_capture::{DeviceOrdinal, EventKind, Record};

use super::course::{Course, CourseWatch};
use super::step_ends::StepEnds;
use crate::replay::Replay;

/// What pictures need of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// What it held over time; empty where no picture was asked for.
    pub course: Course,
    /// When its steps ended.
    pub step_ends: StepEnds,
}

/// Follows the records of a capture beside the replay.
#[derive(Debug)]
pub struct DrawnWatch {
    started_unix_ns: u64,
    course: Option<CourseWatch>,
    step_ends: StepEnds,
}

impl DrawnWatch {
    /// Of a capture that was begun then. `columns`: how many buckets of time are kept; `None`: no picture is asked for.
    pub fn new(started_unix_ns: u64, columns: Option<usize>) -> Self {
        Self {
            started_unix_ns,
            course: columns.map(|most| CourseWatch::new(started_unix_ns, most)),
            step_ends: StepEnds::default(),
        }
    }

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        match record {
            Record::Event(_, event) if event.kind == EventKind::STEP => {
                let at = self.started_unix_ns.saturating_add(event.time.0);
                self.step_ends.end_step(replay.spans.steps, at);
            }
            Record::Event(_, event) => {
                if let Some(course) = &mut self.course {
                    course.observe(replay, event.device, event.time.0);
                }
            }
            Record::State(..) => {
                if let Some(course) = &mut self.course {
                    for device in replay.devices.keys() {
                        course.observe(replay, *device, replay.last.0);
                    }
                }
            }
            Record::Definition(..) => {}
        }
    }

    /// What was seen of a device, until the process's end.
    pub fn finish(self, device: Option<u8>, end_unix_ns: u64) -> Drawn {
        let course = match (self.course, device) {
            (Some(course), Some(device)) => course.finish(DeviceOrdinal(device), end_unix_ns),
            _ => Course::default(),
        };
        Drawn {
            course,
            step_ends: self.step_ends,
        }
    }
}
