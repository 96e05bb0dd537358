//! Memory over time as JSON.

use crate::frames::Frame;
use gpumem_analyzer::ranks::{Course, Parts};
use gpumem_capture::DeviceOrdinal;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct OnDevice<'a> {
    device: u8,
    /// The start of the first bucket, in nanoseconds of the run. It may be before the run's start.
    start: i64,
    /// The width of a bucket in nanoseconds.
    width: u64,
    /// The highest memory in each bucket: tensors, PyTorch's allocator, the process.
    greatest: &'a [Parts],
}

/// The memory over time of all devices. `started_wall_ns`: the start of the run, since 1970.
pub(super) fn courses(frame: &Frame, started_wall_ns: u64) -> Vec<OnDevice<'_>> {
    let of =
        |(device, course): &'_ (DeviceOrdinal, Course)| (device.0, start(course, started_wall_ns));
    let starts = frame.course.iter().map(of);
    let courses = starts.zip(&frame.course);
    courses
        .map(|((device, start), (_, course))| OnDevice {
            device,
            start,
            width: 1 << course.shift,
            greatest: &course.greatest,
        })
        .collect()
}

fn start(course: &Course, started_wall_ns: u64) -> i64 {
    ((course.first << course.shift) as i64).wrapping_sub(started_wall_ns as i64)
}
