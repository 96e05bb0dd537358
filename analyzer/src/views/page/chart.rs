//! The page's timeline, with fewer stretches than the timeline if necessary.

use std::cmp::Reverse;

use serde::Serialize;

use super::input::{PageLimits, clip};
use crate::replay::Category;
use crate::views::categories::by_name_if_any;
use crate::views::{BandKind, DeviceTimeline, Lane, LaneSpan, Timeline, TimelinePoint};

/// One band.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageBand {
    /// What it is.
    pub kind: BandKind,
    /// The category, if it is a band of tensors.
    #[serde(serialize_with = "by_name_if_any")]
    pub category: Option<Category>,
    /// Its name.
    pub name: String,
}

/// Points in the order of time. Each is the time and the bytes of each band, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageChart {
    /// The bands.
    pub bands: Vec<PageBand>,
    /// The points of all stretches: the largest and the last of each.
    pub points: Vec<Vec<u64>>,
    /// Pinned host memory: time and bytes.
    pub host: Vec<[u64; 2]>,
    /// NVML's figure of this process: time and bytes.
    pub nvml: Vec<[u64; 2]>,
}

fn rank(point: &TimelinePoint) -> (u64, u64, u64) {
    let physical = point.physical_bytes.unwrap_or(0);
    (point.tensor_bytes, point.driver_bytes, physical)
}

impl PageChart {
    /// From a device.
    pub fn of(device: &DeviceTimeline, limits: PageLimits) -> Self {
        let mut chart = Self::default();
        let bands = device.bands.iter();
        chart.bands = bands
            .map(|band| PageBand {
                kind: band.kind,
                category: band.category,
                name: clip(&band.name, limits.name),
            })
            .collect();
        let together = device.buckets.len().div_ceil(limits.buckets.max(1)).max(1);
        for buckets in device.buckets.chunks(together) {
            let mosts = buckets.iter().map(|bucket| &bucket.most);
            // Of equal ones, the first.
            let most = mosts.rev().max_by_key(|point| rank(point));
            let last = buckets.last().map(|bucket| &bucket.last);
            for point in most.into_iter().chain(last) {
                let row = [point.time_ns]
                    .into_iter()
                    .chain(point.bytes.iter().copied());
                chart.points.push(row.collect());
            }
            let host = buckets
                .iter()
                .flat_map(|bucket| &bucket.peaks)
                .filter(|peak| peak.level == "host")
                .max_by_key(|peak| peak.bytes);
            if let Some(host) = host {
                chart.host.push([host.time_ns, host.bytes]);
            }
            if let Some(last) =
                last.filter(|last| host.is_some_and(|host| last.time_ns >= host.time_ns))
            {
                chart.host.push([last.time_ns, last.host_bytes]);
            }
            let nvml = buckets.iter().rev();
            let nvml = nvml
                .filter_map(|b| Some([b.last.time_ns, b.nvml_process_bytes?]))
                .next();
            chart.nvml.extend(nvml);
        }
        chart.points.dedup();
        chart
    }
}

/// Spans of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageLane {
    /// The kind.
    pub name: &'static str,
    /// From, to, label; by start.
    pub spans: Vec<(u64, u64, String)>,
    /// How many narrower ones are left out.
    pub left_out: u64,
}

impl PageLane {
    /// The lanes of a timeline.
    pub fn all(timeline: &Timeline, limits: PageLimits) -> Vec<Self> {
        let lanes = timeline.lanes.iter();
        lanes.map(|lane| Self::of(lane, limits)).collect()
    }

    fn of(lane: &Lane, limits: PageLimits) -> Self {
        let mut spans: Vec<&LaneSpan> = lane.spans.iter().collect();
        let left_out = spans.len().saturating_sub(limits.spans) as u64;
        spans.sort_by_key(|span| Reverse(span.to_ns.saturating_sub(span.from_ns)));
        spans.truncate(limits.spans);
        spans.sort_by_key(|span| (span.from_ns, Reverse(span.to_ns)));
        let row = |span: &LaneSpan| (span.from_ns, span.to_ns, clip(&span.label, limits.name));
        Self {
            name: lane.name,
            spans: spans.into_iter().map(row).collect(),
            left_out: lane.left_out + left_out,
        }
    }
}
