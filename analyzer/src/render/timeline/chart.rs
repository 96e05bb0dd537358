//! The chart of a device: its content and position.

use super::colours::class;
use super::columns::{Span, columns};
use super::layout::{CHART, LEFT, exact, height};
use crate::views::{BandKind, DeviceTimeline, Timeline, TimelinePoint};

/// Height of the chart.
pub(super) const HEIGHT: usize = 280;

/// The content of one device's chart.
pub(super) struct Chart<'a> {
    pub timeline: &'a Timeline,
    pub device: &'a DeviceTimeline,
    pub span: &'a Span,
    /// Whether the bands are one level.
    pub level: bool,
    pub columns: Vec<Option<&'a TimelinePoint>>,
    /// The greatest bytes of a column.
    pub most: u64,
}

impl<'a> Chart<'a> {
    pub fn new(timeline: &'a Timeline, device: &'a DeviceTimeline, span: &'a Span) -> Self {
        let level = device.bands.iter().any(|band| band.kind == BandKind::Level);
        let columns = columns(device, span, level);
        let sums = columns.iter().flatten().map(|point| point.sum());
        let most = sums.max().unwrap_or(0).max(1);
        Self {
            timeline,
            device,
            span,
            level,
            columns,
            most,
        }
    }

    /// The position of a time.
    pub fn x(&self, time: u64) -> f64 {
        LEFT as f64 + CHART as f64 * self.span.axis.share(time)
    }

    /// The position of bytes.
    pub fn y(&self, bytes: u64, bottom: usize) -> f64 {
        height(bytes, self.most, bottom, HEIGHT)
    }

    /// The classes of the bands.
    pub fn classes(&self) -> Vec<&'static str> {
        let mut libraries = 0;
        let bands = self.device.bands.iter();
        bands
            .map(|band| {
                let class = class(band, libraries);
                libraries += usize::from(band.kind == BandKind::Library);
                class
            })
            .collect()
    }

    /// The bands at a point, the topmost first.
    pub fn said(&self, point: &TimelinePoint) -> Vec<String> {
        let moment = super::moment(point.seq, gpumem_capture::Nanos(point.time_ns));
        let bands = self.device.bands.iter().zip(&point.bytes).rev();
        let bands = bands.filter(|(_, bytes)| **bytes > 0);
        let bands = bands.map(|(band, bytes)| format!("{}: {}", band.name, exact(*bytes)));
        let together =
            (self.device.bands.len() > 1).then(|| format!("together: {}", exact(point.sum())));
        [moment].into_iter().chain(bands).chain(together).collect()
    }
}
