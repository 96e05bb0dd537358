//! The data of a capture for pictures of a job.

use gpumem_capture::{EventKind, Record};

use super::course::{Buckets, Course, CourseWatch};
use super::step_ends::StepEnds;
use crate::replay::Replay;

/// The data of a rank for pictures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Its memory over time; empty if no picture was requested.
    pub course: Course,
    /// The ends of its steps.
    pub step_ends: StepEnds,
}

/// Observes the records of a capture after the replay.
#[derive(Debug)]
pub struct DrawnWatch {
    started_unix_ns: u64,
    course: Option<CourseWatch>,
    step_ends: StepEnds,
}

impl DrawnWatch {
    /// For a capture that was opened at this time. `columns` is the number of buckets of time to keep, at least two;
    /// `None` if no picture was requested.
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

    /// Observes a record after the replay has.
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

    /// The data of a device, up to the process's end.
    pub fn finish(self, device: Option<u8>, end_unix_ns: u64) -> Drawn {
        let courses = self.course.map(|course| course.finish(end_unix_ns));
        let of = courses.and_then(|mut all| all.find(|(of, _)| Some(of.0) == device));
        Drawn {
            course: of.map(|(_, course)| course).unwrap_or_default(),
            step_ends: self.step_ends,
        }
    }
}
