//! Memory over time for a run or a part of it: one pass, a bounded number of buckets, exact peaks.

mod axis;
mod bands;
mod builder;
mod course;
mod folds;
mod holders;
mod lanes;
mod outcomes;
mod stretch;
mod tensors;
mod track;

use schemars::JsonSchema;
use serde::Serialize;

pub use builder::TimelineBuilder;
pub use folds::TimeAxis;
pub use lanes::{Lane, LaneKind, LaneSpan};
pub use stretch::{Moment, Stretch};

use super::categories::by_name_if_any;
use crate::account::When;
use crate::replay::Category;

/// Part of a device's memory that a band shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BandKind {
    /// Live tensors, of one category or of all.
    Tensors,
    /// Memory that PyTorch's pool has reserved, minus the live tensors.
    Cached,
    /// Memory that one library requested from the driver.
    Library,
    /// Memory that libraries without a separate band requested from the driver.
    OtherLibraries,
    /// Memory that callers that are not known requested from the driver.
    Unknown,
    /// Live memory of the nodes of CUDA graphs.
    Graph,
    /// Physical memory minus the requested device memory: contexts, kernels, unused memory of pools and of whole
    /// pages.
    Beyond,
    /// All live bytes of one level, with `--level`.
    Level,
}

/// One part of a device's memory over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Band {
    /// Kind of the memory.
    pub kind: BandKind,
    /// Category of the tensors in the band; `None`: tensors of all categories, or no tensors.
    #[serde(serialize_with = "by_name_if_any")]
    #[schemars(with = "Option<String>")]
    pub category: Option<Category>,
    /// Label of the band: a category, a library or a part of the memory.
    pub name: String,
}

/// Memory of a device just after an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelinePoint {
    /// Event number.
    pub seq: u64,
    /// Time of the event, in nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Live bytes of each band, in the order of `bands`.
    pub bytes: Vec<u64>,
    /// Live bytes of tensors.
    pub tensor_bytes: u64,
    /// Live bytes of the driver level: device memory that the process requested from CUDA.
    pub driver_bytes: u64,
    /// Live bytes of pinned host memory of this device. They are not on the GPU and in no band.
    pub host_bytes: u64,
    /// Physical memory of the process in bytes; `None`: the capture does not have the physical level.
    pub physical_bytes: Option<u64>,
}

impl TimelinePoint {
    /// The sum of all bands.
    pub fn sum(&self) -> u64 {
        let sum = self.bytes.iter().copied();
        sum.fold(0, u64::saturating_add)
    }
}

/// The maximum of one level in a bucket, in the whole run or in the requested part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LevelPeak {
    /// Level: `tensor`, `driver`, `host` or `physical`.
    pub level: &'static str,
    /// Maximum of the level's live bytes.
    pub bytes: u64,
    /// Number of the first event at which the maximum was reached.
    pub seq: u64,
    /// Time of that event, in nanoseconds since the capture was opened.
    pub time_ns: u64,
}

/// An interval with events on the device. Between two buckets the device has no events and its memory does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineBucket {
    /// Start of the bucket, in nanoseconds since the capture was opened.
    pub from_ns: u64,
    /// End of the bucket, in nanoseconds since the capture was opened.
    pub to_ns: u64,
    /// The point at which the device held most: first by tensors, then by the driver level, then by the physical
    /// level. With `--level`, `seq`, `time_ns` and `bytes` are those of the level's maximum.
    pub most: TimelinePoint,
    /// The memory after the last event of the bucket.
    pub last: TimelinePoint,
    /// Maximum of each level in the bucket. Levels without live bytes are left out.
    pub peaks: Vec<LevelPeak>,
    /// NVML's figure of this process in bytes, at the last reading in the bucket; `None`: no reading in the bucket has
    /// it.
    pub nvml_process_bytes: Option<u64>,
}

/// Memory of one device over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceTimeline {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Product name of the GPU; `None`: not known.
    pub name: Option<String>,
    /// Total memory of the GPU in bytes; `None`: not known.
    pub total_bytes: Option<u64>,
    /// Parts of the memory that the entries of `bytes` in each point refer to, from the bottom of the chart to its
    /// top.
    pub bands: Vec<Band>,
    /// The peak of the device; `None`: it never held memory. With `--level`: the peak of the level, with only `seq`,
    /// `time_ns` and `bytes` set.
    pub peak: Option<TimelinePoint>,
    /// Step, phase and range at the peak; all `None` with `--level`.
    pub peak_when: When,
    /// Peak of each level over the whole run, or over the requested part. Levels without live bytes are left out.
    pub peaks: Vec<LevelPeak>,
    /// Intervals with events on the device, at most 2,048, by time.
    pub buckets: Vec<TimelineBucket>,
}

impl DeviceTimeline {
    /// The memory of the device after its last event.
    pub fn end(&self) -> Option<&TimelinePoint> {
        self.buckets.last().map(|bucket| &bucket.last)
    }
}

/// Phases and steps of the training in one interval. The intervals can be wider or narrower than those of devices. If
/// phases were marked, time in none of them is forward.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CourseBucket {
    /// Start of the interval, in nanoseconds since the capture was opened.
    pub from_ns: u64,
    /// End of the interval, in nanoseconds since the capture was opened.
    pub to_ns: u64,
    /// Nanoseconds of the interval in backward. If threads are in different phases at once, the time counts for one:
    /// backward, else optimizer, else zero_grad, else other.
    pub backward_ns: u64,
    /// Nanoseconds of the interval in an optimizer's step.
    pub optimizer_ns: u64,
    /// Nanoseconds of the interval in which gradients were zeroed.
    pub zero_grad_ns: u64,
    /// Nanoseconds of the interval in marked phases of an unknown kind.
    pub other_ns: u64,
    /// Number, from 1, of the last step that ended in the interval; `None`: no step ended.
    pub step: Option<u64>,
    /// Time at which that step ended, in nanoseconds since the capture was opened; `None`: no step ended.
    pub step_ns: Option<u64>,
    /// Number of steps that ended in the interval.
    pub steps: u64,
}

/// An allocation that failed because memory was exhausted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineFailure {
    /// Event number of the failure.
    pub seq: u64,
    /// Time of the failure, in nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Requested bytes.
    pub bytes: u64,
}

/// Refusals of the driver on one device after which PyTorch's allocator freed its cache and repeated the request with
/// success. These are not failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineRetries {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Number of these refusals in the timeline.
    pub count: u64,
}

/// Memory of all devices over time, for the whole run or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Timeline {
    /// Start of the timeline, in nanoseconds since the capture was opened: the first event, or the requested start. A
    /// bounded capture begins with its oldest record.
    pub from_ns: u64,
    /// End of the timeline, in nanoseconds since the capture was opened: the last event, or the requested end.
    pub to_ns: u64,
    /// With `--from`: number of the event after which the timeline begins; `None`: it begins with the capture.
    pub from_seq: Option<u64>,
    /// With `--to`: number of the last event of the timeline; `None`: it ends with the capture.
    pub to_seq: Option<u64>,
    /// Width of the buckets of devices, in nanoseconds.
    pub bucket_ns: u64,
    /// Idle intervals that pictures draw narrow, as `[from_ns, to_ns]`, by time; empty if there are no long idle
    /// intervals.
    pub folds: Vec<[u64; 2]>,
    /// Whether phases of a training were marked. If so, time outside the marked phases is forward.
    pub trains: bool,
    /// Devices that held memory, by ordinal, each with its own buckets.
    pub devices: Vec<DeviceTimeline>,
    /// Intervals with steps or marked phases, by time; empty if no steps or phases were marked.
    pub course: Vec<CourseBucket>,
    /// Activities of the program, one lane per kind; kinds without spans are left out.
    pub lanes: Vec<Lane>,
    /// Failed allocations in the timeline, by time. If there are many, only the first ones and the newest are listed.
    pub failures: Vec<TimelineFailure>,
    /// Number of all failed allocations in the timeline, also those that are not listed.
    pub failure_count: u64,
    /// Successful retries of PyTorch's allocator in the timeline, by device; devices without retries are left out.
    pub retries: Vec<TimelineRetries>,
}

impl Timeline {
    /// The axis of time of the picture.
    pub fn axis(&self) -> TimeAxis {
        TimeAxis::new(self.from_ns, self.to_ns, &self.folds)
    }

    /// The lane of a kind; `None` if it has no spans.
    pub fn lane(&self, kind: LaneKind) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.kind == kind)
    }
}
