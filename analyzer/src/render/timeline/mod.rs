//! Memory over time as a picture and as text.

mod chart;
mod colours;
mod columns;
mod lanes;
mod layout;
mod legend;
mod marks;
mod panel;
mod phases;
mod scale;
mod svg;
mod text;

pub(super) use layout::cut;
pub(super) use scale::{tick_text, time_ticks};
pub use svg::timeline_svg;
pub use text::timeline_text;

use gpumem_capture::Nanos;

use super::{bytes, count, moment};
use crate::account::many;
use crate::views::{DeviceTimeline, Timeline, TimelinePoint, when};

/// A device in headings.
fn title(device: &DeviceTimeline) -> String {
    let name = device.name.as_deref().filter(|name| !name.is_empty());
    match (device.device, name) {
        (None, _) => "Without a device".into(),
        (Some(ordinal), None) => format!("GPU {ordinal}"),
        (Some(ordinal), Some(name)) => format!("GPU {ordinal}   {name}"),
    }
}

/// The peak of the device and its time.
fn peak_line(device: &DeviceTimeline, peak: &TimelinePoint) -> String {
    let at = moment(peak.seq, Nanos(peak.time_ns));
    let when = when(&device.peak_when);
    format!("peak {at}{when}: {}", bytes(peak.sum()))
}

/// The stretches of time that are drawn narrow.
fn folds_line(timeline: &Timeline) -> Option<String> {
    let folds = timeline.folds.iter();
    let lengths: Vec<String> = folds
        .map(|[from, to]| scale::length_text(to - from))
        .collect();
    let said = "folded at ≈, where no event occurred";
    (!lengths.is_empty()).then(|| format!("{said}: {}", lengths.join(", ")))
}

/// Retries: allocations that succeeded only after the driver had refused them.
fn retries_line(timeline: &Timeline, device: &DeviceTimeline) -> Option<String> {
    let of = timeline
        .retries
        .iter()
        .find(|of| of.device == device.device)?;
    let many = many(of.count, "retry", "retries");
    Some(format!(
        "{many} by PyTorch's allocator, which then succeeded"
    ))
}

/// The failures of one device.
fn failures_line(timeline: &Timeline, device: &DeviceTimeline) -> Option<String> {
    let failures = timeline.failures.iter();
    let of: Vec<_> = failures
        .filter(|failure| failure.device == device.device)
        .collect();
    let first = of.first()?;
    let many = many(of.len() as u64, "allocation failed", "allocations failed");
    let left = timeline.failure_count > timeline.failures.len() as u64;
    let more = match left {
        true => format!(" (of the first {})", count(timeline.failures.len() as u64)),
        false => String::new(),
    };
    let at = moment(first.seq, Nanos(first.time_ns));
    let asked = bytes(first.bytes);
    Some(format!(
        "{many}: out of memory{more}, the first at {at}: {asked}"
    ))
}
