//! Memory over time, and its peaks by step.

use gpumem_dataset::{Key, SeriesPoint, Step};

use super::cells::int;
use crate::ranks::{Buckets, CourseWatch, StepWatch, Steps};
use crate::replay::Replay;

/// Microseconds, like all times of a dataset. The number of rows of each level is small.
pub(super) const STRETCHES: Buckets = Buckets {
    unit_ns: 1000,
    narrowest: 0,
    most: 64,
};

/// The parts of a course, by their names in the table.
const LEVELS: [&str; 3] = ["tensor", "reserved", "process"];

/// The course of each level with any memory, of all devices, up to `end_unix_ns`.
pub(super) fn rows(capture: Key, watch: CourseWatch, end_unix_ns: u64) -> Vec<SeriesPoint> {
    let mut rows = Vec::new();
    for (device, course) in watch.finish(end_unix_ns) {
        for (part, level) in LEVELS.into_iter().enumerate() {
            let bytes = || course.greatest.iter().map(move |parts| parts[part]);
            if bytes().all(|bytes| bytes == 0) {
                continue;
            }
            let points = (course.first..).zip(bytes());
            rows.extend(points.map(|(at, bytes)| SeriesPoint {
                capture,
                device: device.0.into(),
                level: level.into(),
                time: int(at << course.shift),
                width_us: 1 << course.shift,
                bytes: int(bytes),
            }));
        }
    }
    rows
}

/// The peak of tensors in each step, of all devices; of a bounded capture, from the first complete step in its
/// records.
pub(super) fn steps(capture: Key, replay: &Replay, mut watch: StepWatch) -> Vec<Step> {
    let devices = replay.devices.keys();
    devices
        .flat_map(|device| step_rows(capture, device.0.into(), &watch.of(*device)))
        .collect()
}

fn step_rows(capture: Key, device: i64, of: &Steps) -> Vec<Step> {
    let points = (0..).zip(&of.greatest);
    points
        .map(|(at, bytes): (u64, &u64)| {
            let first = of.from + at * of.width;
            Step {
                capture,
                device,
                first_step: int(first + 1),
                steps: int(of.width.min(of.ended - first)),
                bytes: int(*bytes),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_from_the_first_that_is_known() {
        let of = Steps {
            width: 4,
            from: 12,
            greatest: vec![7, 9],
            ended: 18,
        };
        let rows = step_rows(Key(1), 0, &of);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.first_step, row.steps, row.bytes))
            .collect();
        assert_eq!(told, [(13, 4, 7), (17, 2, 9)]);
        // The rows have all that the steps have.
        assert_eq!(Steps::of_points(vec![(17, 2, 9), (13, 4, 7)]), of);
        assert_eq!(Steps::of_points(Vec::new()), Steps::default());
    }
}
