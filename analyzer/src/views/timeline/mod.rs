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

/// What a band of the picture stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BandKind {
    /// Tensors live: of one category, or all.
    Tensors,
    /// What PyTorch's pool holds beyond them.
    Cached,
    /// Driver memory that a library allocated itself.
    Library,
    /// Driver memory of libraries without separate bands.
    OtherLibraries,
    /// Driver memory of a caller that is not known.
    Unknown,
    /// Memory nodes of CUDA graphs, live.
    Graph,
    /// What the card gave beyond that: contexts, kernels, what pools and whole pages have unused.
    Beyond,
    /// All of one level.
    Level,
}

/// A band: one part of the memory, over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Band {
    /// What it is.
    pub kind: BandKind,
    /// Of tensors, what these are for; `None`: all of them.
    #[serde(serialize_with = "by_name_if_any")]
    #[schemars(with = "Option<String>")]
    pub category: Option<Category>,
    /// As people read it.
    pub name: String,
}

/// A device at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelinePoint {
    /// Which event.
    pub seq: u64,
    /// When, ns since the capture was opened.
    pub time_ns: u64,
    /// Bytes of each band.
    pub bytes: Vec<u64>,
    /// Tensors live.
    pub tensor_bytes: u64,
    /// Device memory from CUDA.
    pub driver_bytes: u64,
    /// Pinned host memory; in no band, because it is not on the card.
    pub host_bytes: u64,
    /// What the card gave; `None`: not recorded.
    pub physical_bytes: Option<u64>,
}

impl TimelinePoint {
    /// The sum of all bands.
    pub fn sum(&self) -> u64 {
        let sum = self.bytes.iter().copied();
        sum.fold(0, u64::saturating_add)
    }
}

/// The peak of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LevelPeak {
    /// Which level.
    pub level: &'static str,
    /// The most.
    pub bytes: u64,
    /// The first event that had it.
    pub seq: u64,
    /// Its time.
    pub time_ns: u64,
}

/// A stretch of time in which something happened on the device. Between buckets nothing did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineBucket {
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// Where the device held most in it: of tensors, then of the driver level, then of the physical level.
    pub most: TimelinePoint,
    /// After its last event.
    pub last: TimelinePoint,
    /// The most of each level that was in use.
    pub peaks: Vec<LevelPeak>,
    /// NVML's figure of this process, at its last reading in the bucket.
    pub nvml_process_bytes: Option<u64>,
}

/// A device over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceTimeline {
    /// Ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// What it is called.
    pub name: Option<String>,
    /// Memory of the card.
    pub total_bytes: Option<u64>,
    /// What `bytes` of each point are of, in the order in which they are stacked.
    pub bands: Vec<Band>,
    /// The peak of the device, or of the requested level; `None`: it never held anything.
    pub peak: Option<TimelinePoint>,
    /// What the program was at then.
    pub peak_when: When,
    /// The peaks of the levels over the whole run.
    pub peaks: Vec<LevelPeak>,
    /// In the order of time.
    pub buckets: Vec<TimelineBucket>,
}

impl DeviceTimeline {
    /// The device after its last event.
    pub fn end(&self) -> Option<&TimelinePoint> {
        self.buckets.last().map(|bucket| &bucket.last)
    }
}

/// What the training was at in one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CourseBucket {
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// Time in backward.
    pub backward_ns: u64,
    /// Time in an optimizer's step.
    pub optimizer_ns: u64,
    /// Time in which gradients were zeroed.
    pub zero_grad_ns: u64,
    /// Time in phases of no known kind.
    pub other_ns: u64,
    /// The number of the last step that ended in it.
    pub step: Option<u64>,
    /// When that was.
    pub step_ns: Option<u64>,
    /// How many steps ended in it.
    pub steps: u64,
}

/// An allocation that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineFailure {
    /// Which event.
    pub seq: u64,
    /// When.
    pub time_ns: u64,
    /// On which device.
    pub device: Option<u8>,
    /// The requested bytes.
    pub bytes: u64,
}

/// What the driver refused on a device and PyTorch's allocator had all the same: no failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineRetries {
    /// On which device.
    pub device: Option<u8>,
    /// How often.
    pub count: u64,
}

/// Memory over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The first event's time, ns since the capture was opened; of a bounded capture, the first that is
    /// kept.
    pub from_ns: u64,
    /// The last event's.
    pub to_ns: u64,
    /// Of a part of the run, the event after which it begins.
    pub from_seq: Option<u64>,
    /// Of a part of the run, its last event.
    pub to_seq: Option<u64>,
    /// How long a bucket is.
    pub bucket_ns: u64,
    /// Stretches without an event that are long compared with the rest: pictures have them narrow.
    pub folds: Vec<[u64; 2]>,
    /// Whether phases of a training were marked: what is in none of them is forward.
    pub trains: bool,
    /// Devices, each with its own buckets.
    pub devices: Vec<DeviceTimeline>,
    /// Steps and phases; empty where none were marked.
    pub course: Vec<CourseBucket>,
    /// What the program was at; only lanes that have spans.
    pub lanes: Vec<Lane>,
    /// The first failures, and the newest.
    pub failures: Vec<TimelineFailure>,
    /// All failures.
    pub failure_count: u64,
    /// Refusals of the driver that PyTorch's allocator answered.
    pub retries: Vec<TimelineRetries>,
}

impl Timeline {
    /// The axis of the picture.
    pub fn axis(&self) -> TimeAxis {
        TimeAxis::new(self.from_ns, self.to_ns, &self.folds)
    }

    /// The lane of a kind, if it has spans.
    pub fn lane(&self, kind: LaneKind) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.kind == kind)
    }
}
