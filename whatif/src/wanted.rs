//! What is wanted of a replay, and what came of it.

use std::ffi::c_char;
use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Nanos};
use rustc_hash::FxHashMap;

use crate::assumed::Assumed;
use crate::calls::CallCounts;
use crate::save;
use crate::survey::Survey;

/// What is to be replayed, and how.
pub(crate) struct Wanted<'a> {
    pub(crate) capture: &'a Path,
    pub(crate) device: DeviceOrdinal,
    pub(crate) survey: &'a Survey,
    /// Streams by their handles in the recorded process: the handles here, and PyTorch's numbers.
    pub(crate) streams: FxHashMap<u64, (u64, u64)>,
    /// What this process has on the card beside the pool.
    pub(crate) own_bytes: u64,
    pub(crate) assumed: Assumed,
    /// The replay ends once the allocator holds more than so many bytes; 0: it does not.
    pub(crate) most_reserved: u64,
    pub(crate) set: Option<extern "C" fn(*const c_char) -> i64>,
    pub(crate) progress: Option<extern "C" fn(f64)>,
    /// The replay is written as a capture.
    pub(crate) save: Option<save::Wanted>,
}

impl Wanted<'_> {
    /// A stream's handle in this process, and PyTorch's number of it.
    pub(crate) fn here(&self, recorded: u64) -> (u64, u64) {
        self.streams.get(&recorded).copied().unwrap_or((0, 0))
    }
}

/// What came of it. The allocator itself has the figures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Allocations that were made, as in the recorded run.
    pub allocations: u64,
    /// Those of which the capture does not say what was asked for: the block's size was taken.
    pub sizes_unknown: u64,
    /// Those of which it does not say from which stream or pool they came.
    pub placements_unknown: u64,
    /// Failures of the recorded run.
    pub recorded_failures: u64,
    /// Those of them that did not come here.
    pub saved: u64,
    /// The first event that could not be repeated for want of memory; 0: none.
    pub failed_seq: u64,
    /// Bytes that it asked for. 0: it was no allocation, but a pool that was to be set back and has lost a segment.
    pub failed_bytes: u64,
    /// 1: what failed is not PyTorch's.
    pub failed_foreign: u64,
    /// When that was in the recorded run, in nanoseconds.
    pub failed_time: u64,
    /// Training steps that had ended by then.
    pub failed_step: u64,
    /// The first event after which the replay is not what the run would have been: a call that could not be repeated; 0: none.
    pub exact_until: u64,
    /// The greatest figures of the recorded run: bytes of blocks, and what the pool held.
    pub recorded_allocated: u64,
    /// See `recorded_allocated`.
    pub recorded_reserved: u64,
    /// The most that was on the card beside the pool.
    pub foreign_peak: u64,
    /// How often the program set the share of the card that it may hold.
    pub fractions: u64,
    /// The last event that was replayed.
    pub last_seq: u64,
    /// Uses of blocks on streams of which the capture does not say PyTorch's number: others stood for them.
    pub stand_ins: u64,
    /// Blocks that other streams used and of which is not known when they were back.
    pub waits_unknown: u64,
    /// Where it ended since more was held than was worth going on for; 0: it did not.
    pub stopped_seq: u64,
    /// Bytes by which what was live grew from step to step in the recorded run; 0: it did not, or is not known.
    pub grown_a_step: u64,
    /// How often the allocator called CUDA.
    pub calls: CallCounts,
}

impl Outcome {
    /// The recorded run had so many bytes in blocks, and held so many.
    pub(crate) fn had(&mut self, allocated: u64, reserved: u64) {
        self.recorded_allocated = self.recorded_allocated.max(allocated);
        self.recorded_reserved = self.recorded_reserved.max(reserved);
    }

    /// From this event on the run may have gone another way.
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
