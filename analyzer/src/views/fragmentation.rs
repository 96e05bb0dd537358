//! Free memory of PyTorch's pool and its blocks: by segment at a point in time, and over time.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use schemars::JsonSchema;
use serde::Serialize;

use super::ledger::{Pool, Segment};
use crate::replay::Replay;

/// Figures of PyTorch's pool on one device, just after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolFigures {
    /// Number of the event.
    pub seq: u64,
    /// Time of the event: nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Bytes that the pool had reserved from the driver.
    pub reserved_bytes: u64,
    /// Bytes of live tensors.
    pub live_bytes: u64,
    /// `reserved_bytes` less `live_bytes`: reserved but unallocated.
    pub free_bytes: u64,
}

/// Free memory of PyTorch's pool on one device at a point in time, and its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FragmentedAt {
    /// Bytes that the pool had reserved from the driver.
    pub reserved_bytes: u64,
    /// Bytes of live tensors.
    pub live_bytes: u64,
    /// Bytes of all free blocks: the gaps between tensors in the segments. A block that waits for another stream
    /// counts as free.
    pub free_bytes: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Size of the largest free block in bytes; 0 if nothing is free.
    pub largest_free_block_bytes: u64,
    /// Share of `free_bytes` outside the largest free block, in percent, rounded to the nearest integer; 0 if nothing
    /// is free.
    pub fragmented_percent: u64,
    /// The request in bytes that `too_small_bytes` is computed for: that of `--request`, else the first failed
    /// allocation, else 20 MiB.
    pub request_bytes: u64,
    /// Bytes of free blocks that are smaller than `request_bytes`.
    pub too_small_bytes: u64,
    /// The segments of the pool, the largest first.
    pub segments: Vec<FragmentedSegment>,
}

/// A segment of the pool with its free blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FragmentedSegment {
    /// The segment, with the lines whose tensors are in it.
    #[serde(flatten)]
    pub segment: Segment,
    /// The free blocks in the order of their addresses; empty if the segment is full.
    pub free: Vec<FreeBlock>,
}

/// A gap between tensors in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreeBlock {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl FragmentedAt {
    /// Computes the figures of a pool. `request` is the requested size in bytes.
    pub fn of(pool: &Pool, request: u64) -> Self {
        let segments: Vec<FragmentedSegment> = pool
            .segments
            .iter()
            .map(|segment| FragmentedSegment {
                free: segment
                    .gaps
                    .iter()
                    .map(|(address, bytes)| FreeBlock {
                        address: *address,
                        bytes: *bytes,
                    })
                    .collect(),
                segment: segment.clone(),
            })
            .collect();
        let blocks = || segments.iter().flat_map(|segment| &segment.free);
        let free = blocks().map(|block| block.bytes).sum();
        let largest = blocks().map(|block| block.bytes).max().unwrap_or(0);
        let small = blocks().filter(|block| block.bytes < request);
        let nearest = u128::from(free - largest) * 100 + u128::from(free / 2);
        Self {
            reserved_bytes: pool.reserved_bytes,
            live_bytes: pool.live_bytes,
            free_bytes: free,
            free_blocks: blocks().count() as u64,
            largest_free_block_bytes: largest,
            fragmented_percent: nearest.checked_div(u128::from(free)).unwrap_or(0) as u64,
            request_bytes: request,
            too_small_bytes: small.map(|block| block.bytes).sum(),
            segments,
        }
    }
}

impl FragmentedSegment {
    /// The used share of each of `cells` equal parts of the segment: in eighths, rounded up, so that small tensors
    /// are visible.
    pub fn map(&self, cells: u64) -> Vec<u8> {
        let size = self.segment.bytes;
        let free_in = |from: u64, to: u64| -> u64 {
            let part = |block: &FreeBlock| {
                let start = block.address - self.segment.address;
                let end = (start + block.bytes).min(to);
                end.saturating_sub(start.max(from))
            };
            self.free.iter().map(part).sum()
        };
        let edge = |cell: u64| (u128::from(size) * u128::from(cell) / u128::from(cells)) as u64;
        let used = |cell| {
            let (from, to) = (edge(cell), edge(cell + 1));
            let used = (to - from).saturating_sub(free_in(from, to));
            let eighths = (u128::from(used) * 8).div_ceil(u128::from((to - from).max(1)));
            eighths as u8
        };
        (0..cells).map(used).collect()
    }
}

/// A failed allocation, with the figures of the pool at its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolMoment {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// The figures of the pool.
    #[serde(flatten)]
    pub figures: PoolFigures,
}

/// An interval of the run, with the figures at its event with the most free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolTime {
    /// Number of the interval's first event. It lasts until the next interval begins.
    pub from_seq: u64,
    /// The figures at the event of the interval with the most free memory.
    #[serde(flatten)]
    pub figures: PoolFigures,
}

/// PyTorch's pool on one device over the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReservedOverTime {
    /// The figures at the first event after which the pool had reserved the most.
    pub reserved_peak: PoolFigures,
    /// The first 20 tensor allocations that failed, in the order of time; empty if no allocation failed.
    pub failures: Vec<PoolMoment>,
    /// Intervals of the run with about equal numbers of tensor events, in the order of time, at most 32.
    pub times: Vec<PoolTime>,
    /// Number of events in each interval but the last.
    #[serde(skip)]
    length: u64,
    /// Number of events in the last interval.
    #[serde(skip)]
    events: u64,
}

/// The maximum number of intervals. If there are more, pairs are merged.
const MOST: usize = 32;
/// The maximum number of failures in the list.
const FAILURES: usize = 20;

impl ReservedOverTime {
    /// Observes a record after the replay has.
    pub fn observe(all: &mut BTreeMap<DeviceOrdinal, Self>, replay: &Replay, record: Record<'_>) {
        let Record::Event(seq, event) = record else {
            return;
        };
        let of_tensors = event.level == Level::TENSOR;
        let failed = event.kind == EventKind::OUT_OF_MEMORY;
        let changed = matches!(event.kind, EventKind::ALLOC | EventKind::FREE);
        if !of_tensors || !(failed || changed) {
            return;
        }
        let Some(now) = replay.devices.get(&event.device).map(|device| device.now) else {
            return;
        };
        let reserved = now.reserved.unwrap_or(0);
        let figures = PoolFigures {
            seq: seq.0,
            time_ns: event.time.0,
            reserved_bytes: reserved,
            live_bytes: now.tensor,
            free_bytes: reserved.saturating_sub(now.tensor),
        };
        let on = all.entry(event.device).or_default();
        if failed {
            if on.failures.len() < FAILURES {
                on.failures.push(PoolMoment {
                    requested_bytes: event.bytes,
                    figures,
                });
            }
            return;
        }
        on.add(figures);
    }

    fn add(&mut self, figures: PoolFigures) {
        if figures.reserved_bytes > self.reserved_peak.reserved_bytes {
            self.reserved_peak = figures;
        }
        if self.length == 0 || self.events == self.length {
            if self.times.len() == MOST {
                self.halve();
            }
            self.length = self.length.max(1);
            if self.times.is_empty() || self.events == self.length {
                self.events = 0;
                self.times.push(PoolTime {
                    from_seq: figures.seq,
                    figures,
                });
            }
        }
        self.events += 1;
        if let Some(last) = self.times.last_mut()
            && figures.free_bytes > last.figures.free_bytes
        {
            last.figures = figures;
        }
    }

    /// Merges pairs of intervals.
    fn halve(&mut self) {
        let pair = |pair: &[PoolTime]| {
            let most = pair.iter().rev().max_by_key(|time| time.figures.free_bytes);
            let first = pair.first()?;
            Some(PoolTime {
                from_seq: first.from_seq,
                figures: most?.figures,
            })
        };
        self.times = self.times.chunks(2).filter_map(pair).collect();
        self.length *= 2;
        self.events = self.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, reserved: u64, live: u64) -> PoolFigures {
        PoolFigures {
            seq,
            time_ns: seq,
            reserved_bytes: reserved,
            live_bytes: live,
            free_bytes: reserved - live,
        }
    }

    #[test]
    fn stretches_stay_few_and_none_loses_its_most() {
        for events in [1, 31, 32, 33, 1000, 12_345] {
            let mut time = ReservedOverTime::default();
            let free = |seq: u64| seq * 2_654_435_761 % 1009;
            for seq in 1..=events {
                time.add(at(seq, 2000 + seq, 2000 + seq - free(seq)));
            }
            assert!(time.times.len() <= MOST && !time.times.is_empty());
            assert_eq!(time.times[0].from_seq, 1);
            let mut ends: Vec<u64> = time
                .times
                .iter()
                .skip(1)
                .map(|time| time.from_seq)
                .collect();
            ends.push(events + 1);
            for (stretch, end) in time.times.iter().zip(ends) {
                let most = (stretch.from_seq..end).map(free).max();
                assert_eq!(
                    Some(stretch.figures.free_bytes),
                    most,
                    "{events} {stretch:?}"
                );
            }
            assert_eq!(time.reserved_peak.seq, events);
        }
    }
}
