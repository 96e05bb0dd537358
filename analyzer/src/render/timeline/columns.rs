//! Maps a device's buckets to the columns of a picture.

use crate::views::{DeviceTimeline, TimeAxis, TimelinePoint};

/// Maps time to columns.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub axis: TimeAxis,
    pub columns: usize,
}

impl Span {
    /// The column of a time.
    pub fn column(&self, time: u64) -> usize {
        let column = self.axis.share(time) * self.columns as f64;
        (column as usize).min(self.columns.saturating_sub(1))
    }

    /// The duration of a column; never 0.
    pub fn width(&self) -> u64 {
        (self.axis.unfolded() / self.columns.max(1) as u64).max(1)
    }

    /// The first and last column of each fold.
    pub fn folds(&self) -> impl Iterator<Item = (usize, usize)> {
        let folds = self.axis.folds().iter();
        folds.map(|[from, to]| {
            // Only complete columns, not those that it shares.
            let from = (self.axis.share(*from) * self.columns as f64).ceil() as usize;
            let to = (self.axis.share(*to) * self.columns as f64) as usize;
            let from = from.min(self.columns.saturating_sub(1));
            (from, to.saturating_sub(1).max(from))
        })
    }
}

/// The order of points by size: see [`crate::replay::Levels::rank`].
fn rank(point: &TimelinePoint, level: bool) -> (u64, u64, u64) {
    if level {
        return (point.sum(), 0, 0);
    }
    let physical = point.physical_bytes.unwrap_or(0);
    (point.tensor_bytes, point.driver_bytes, physical)
}

/// The greatest point of each column. Columns without events repeat the point before. `level`: whether the bands are
/// one level.
pub(super) fn columns<'a>(
    device: &'a DeviceTimeline,
    span: &Span,
    level: bool,
) -> Vec<Option<&'a TimelinePoint>> {
    let mut out: Vec<Option<&'a TimelinePoint>> = vec![None; span.columns];
    let mut before: Option<(usize, &'a TimelinePoint)> = None;
    for bucket in &device.buckets {
        for point in [&bucket.most, &bucket.last] {
            let column = span.column(point.time_ns);
            if let Some((from, carried)) = before {
                for empty in out.iter_mut().take(column + 1).skip(from + 1) {
                    empty.get_or_insert(carried);
                }
            }
            let here = &mut out[column];
            if here.is_none_or(|had| rank(point, level) > rank(had, level)) {
                *here = Some(point);
            }
            before = Some((column, point));
        }
    }
    if let Some((from, carried)) = before {
        for empty in out.iter_mut().skip(from + 1) {
            empty.get_or_insert(carried);
        }
    }
    out
}

/// Pinned host memory by column.
pub(super) fn host(device: &DeviceTimeline, span: &Span) -> Vec<u64> {
    let (mut out, mut next, mut now) = (vec![0; span.columns], 0, 0);
    for bucket in &device.buckets {
        let peak = bucket.peaks.iter().find(|peak| peak.level == "host");
        let most = peak.map(|peak| (peak.time_ns, peak.bytes));
        for (time, bytes) in most
            .into_iter()
            .chain([(bucket.last.time_ns, bucket.last.host_bytes)])
        {
            let column = span.column(time);
            for empty in out.iter_mut().take(column + 1).skip(next) {
                *empty = now;
            }
            next = next.max(column + 1);
            out[column] = bytes.max(out[column]);
            now = bytes;
        }
    }
    out.iter_mut().skip(next).for_each(|empty| *empty = now);
    out
}
