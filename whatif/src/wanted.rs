//! The request for a replay, and its outcome.

use std::ffi::c_char;
use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Nanos};
use rustc_hash::FxHashMap;

use crate::assumed::Assumed;
use crate::calls::CallCounts;
use crate::save;
use crate::survey::Survey;

/// The replay to make.
pub(crate) struct Wanted<'a> {
    pub(crate) capture: &'a Path,
    pub(crate) device: DeviceOrdinal,
    pub(crate) survey: &'a Survey,
    /// Streams by their handles in the recorded process: the handles here, and PyTorch's numbers.
    pub(crate) streams: FxHashMap<u64, (u64, u64)>,
    /// The bytes of this process on the card outside the pool.
    pub(crate) own_bytes: u64,
    pub(crate) assumed: Assumed,
    /// The replay ends once the allocator holds more bytes than this; 0: no limit.
    pub(crate) most_reserved: u64,
    pub(crate) set: Option<extern "C" fn(*const c_char) -> i64>,
    pub(crate) progress: Option<extern "C" fn(f64)>,
    /// Where to write the replay as a capture.
    pub(crate) save: Option<save::Wanted>,
}

impl Wanted<'_> {
    /// A stream's handle in this process, and its number in PyTorch.
    pub(crate) fn here(&self, recorded: u64) -> (u64, u64) {
        self.streams.get(&recorded).copied().unwrap_or((0, 0))
    }
}

/// The outcome. The allocator itself has the figures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Allocations that were made, as in the recorded run.
    pub allocations: u64,
    /// Those whose requested bytes are not in the capture: the block's size was used.
    pub sizes_unknown: u64,
    /// Those whose stream or pool is not in the capture.
    pub placements_unknown: u64,
    /// Failures of the recorded run.
    pub recorded_failures: u64,
    /// Those of them that did not fail here.
    pub saved: u64,
    /// The first event that failed with an out-of-memory error; 0 if none failed.
    pub failed_seq: u64,
    /// The bytes that it requested. 0: it was a restore of a pool that has lost a segment.
    pub failed_bytes: u64,
    /// 1 if the failure is not PyTorch's.
    pub failed_foreign: u64,
    /// Its time in the recorded run, in nanoseconds.
    pub failed_time: u64,
    /// Training steps that had ended before it.
    pub failed_step: u64,
    /// The first event that could not be repeated; after it the replay may differ from a real run. 0 if there is no
    /// such event.
    pub exact_until: u64,
    /// The highest figures of the recorded run: allocated and reserved bytes.
    pub recorded_allocated: u64,
    /// See `recorded_allocated`.
    pub recorded_reserved: u64,
    /// The most bytes on the card outside the pool.
    pub foreign_peak: u64,
    /// How often the program set its memory fraction.
    pub fractions: u64,
    /// The last event that was replayed.
    pub last_seq: u64,
    /// Uses of blocks on streams whose number in PyTorch is not in the capture: other streams represented them.
    pub stand_ins: u64,
    /// Blocks that other streams used, for which the time of their return is unknown.
    pub waits_unknown: u64,
    /// The event at which it ended because the pool exceeded `most_reserved`; 0 if it did not.
    pub stopped_seq: u64,
    /// How often the allocator called CUDA.
    pub calls: CallCounts,
}

impl Outcome {
    /// Takes in the allocated and reserved bytes of the recorded run.
    pub(crate) fn had(&mut self, allocated: u64, reserved: u64) {
        self.recorded_allocated = self.recorded_allocated.max(allocated);
        self.recorded_reserved = self.recorded_reserved.max(reserved);
    }

    /// From this event on a real run may differ.
    pub(crate) fn doubt(&mut self, seq: u64) {
        if self.exact_until == 0 {
            self.exact_until = seq;
        }
    }

    /// There was no memory for these bytes, or for keeping a pool's segments.
    pub(crate) fn fail(&mut self, seq: u64, bytes: u64, time: Nanos, steps: u64) {
        (self.failed_seq, self.failed_bytes) = (seq, bytes);
        (self.failed_time, self.failed_step) = (time.0, steps);
    }
}
