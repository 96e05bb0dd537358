//! What pictures of a job need of a capture.

use gpumem_capture::{EventKind, Record};

use super::course::{Buckets, Course, CourseWatch};
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
    /// Of a capture that was begun then. `columns`: how many buckets of time are kept, at least two; `None`: no picture is
    /// asked for.
    pub fn new(started_unix_ns: u64, columns: Option<usize>) -> Self {
        let buckets = |most: usize| Buckets {
            unit_ns: 1,
            narrowest: 16,
            most: most.max(2),
        };
        Self {
            started_unix_ns,
            course: columns.map(|most| CourseWatch::new(started_unix_ns, buckets(most))),
            step_ends: StepEnds::default(),
        }
    }

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        if let Record::Event(_, event) = record
            && event.kind == EventKind::STEP
        {
            let at = self.started_unix_ns.saturating_add(event.time.0);
            self.step_ends.end_step(replay.spans.steps, at);
        }
        if let Some(course) = &mut self.course {
            course.observe(replay, record);
        }
    }

    /// What was seen of a device, until the process's end.
    pub fn finish(self, device: Option<u8>, end_unix_ns: u64) -> Drawn {
        let courses = self.course.map(|course| course.finish(end_unix_ns));
        let of = courses.and_then(|mut all| all.find(|(of, _)| Some(of.0) == device));
        Drawn {
            course: of.map(|(_, course)| course).unwrap_or_default(),
            step_ends: self.step_ends,
        }
    }
}
