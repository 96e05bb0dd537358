//! The shown point in time.

use gpumem_analyzer::ranks::Course;
use gpumem_capture::{DeviceOrdinal, Level, Nanos, Seq};

use crate::frames::{Failure, Frame, Then};

/// A past point in time that the user selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) then: Then,
    /// Its time in the chart.
    pub(super) time: Nanos,
    /// What it is, if it is more than a time.
    pub(super) what: Option<String>,
}

impl Spot {
    pub(super) fn at(time: Nanos) -> Self {
        Self {
            then: Then::Time(time),
            time,
            what: None,
        }
    }

    pub(super) fn event(seq: Seq, time: Nanos) -> Self {
        Self {
            then: Then::Event(seq),
            time,
            what: None,
        }
    }

    /// The highest peak so far of a level, on this device or on any.
    pub(super) fn peak(frame: &Frame, device: Option<DeviceOrdinal>, level: Level) -> Option<Self> {
        let takes = |only| device.is_none_or(|of| of == only);
        let peaks = frame.peaks.iter();
        let of = peaks.filter(|of| of.level == level && takes(of.device));
        // Of two equal ones the first.
        let of = of.rev().max_by_key(|of| of.bytes)?;
        let on = match of.device {
            DeviceOrdinal::NONE => String::new(),
            device => format!(" of GPU {}", device.0),
        };
        Some(Self {
            then: Then::Event(of.seq),
            time: of.time,
            what: Some(format!("the peak{on}")),
        })
    }

    pub(super) fn failure(of: &Failure) -> Self {
        Self {
            then: Then::Event(of.seq),
            time: of.time,
            what: Some(format!("failure {}", of.number)),
        }
    }

    /// Its event, if it is at one.
    pub(super) fn seq(&self) -> Option<Seq> {
        match self.then {
            Then::Event(seq) => Some(seq),
            Then::Time(_) => None,
        }
    }
}

/// The failure after or before a point in time; from the newest frame on, the first or the last
/// one.
pub(super) fn next_failure<'a>(
    frame: &'a Frame,
    from: Option<&Spot>,
    is_forth: bool,
) -> Option<&'a Failure> {
    let mut oldest_first = frame.failures.iter().rev();
    let Some(from) = from else {
        return match is_forth {
            true => oldest_first.next(),
            false => frame.failures.first(),
        };
    };
    let order = |of: &Failure| match from.seq() {
        Some(seq) => of.seq.cmp(&seq),
        None => of.time.cmp(&from.time),
    };
    match is_forth {
        true => oldest_first.find(|of| order(of).is_gt()),
        false => frame.failures.iter().find(|of| order(of).is_lt()),
    }
}

/// Maps times to the columns of a device's chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeAxis {
    /// The start of the first column, in ns since 1970.
    from: u64,
    /// When the capture was opened.
    started: u64,
    /// The width of a column in ns.
    pub(super) width_ns: u64,
    columns: usize,
}

impl TimeAxis {
    /// `each`: buckets per column.
    pub(super) fn of(course: &Course, started_wall_ns: u64, each: usize, columns: usize) -> Self {
        Self {
            from: course.first << course.shift,
            started: started_wall_ns,
            width_ns: (each as u64) << course.shift,
            columns,
        }
    }

    /// The column of a time.
    pub(super) fn column(&self, time: Nanos) -> Option<usize> {
        let at = self.started.saturating_add(time.0).checked_sub(self.from)?;
        let column = (at / self.width_ns.max(1)) as usize;
        (column < self.columns).then_some(column)
    }

    /// The end of a column.
    pub(super) fn end_of(&self, column: usize) -> Option<Nanos> {
        let behind = self.from + (column as u64 + 1) * self.width_ns;
        let time = behind.saturating_sub(1).checked_sub(self.started)?;
        (column < self.columns).then_some(Nanos(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_times_up_to_its_end() {
        let course = Course {
            shift: 4,
            first: 100,
            greatest: vec![[0; 3]; 6],
        };
        let axis = TimeAxis::of(&course, 1590, 2, 3);
        assert_eq!(axis.column(Nanos(9)), None, "before the first event");
        let columns = [10, 41, 42, 74, 105, 106].map(|time| axis.column(Nanos(time)));
        let expected = [Some(0), Some(0), Some(1), Some(2), Some(2), None];
        assert_eq!(columns, expected);
        for column in 0..3 {
            let end = axis.end_of(column).expect("it is there");
            assert_eq!(axis.column(end), Some(column));
            assert_ne!(axis.column(Nanos(end.0 + 1)), Some(column));
        }
        assert_eq!(axis.end_of(3), None);
    }
}
