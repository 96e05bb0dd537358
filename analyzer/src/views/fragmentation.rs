//! Free memory of PyTorch's pool and its blocks: by segment at a point in time, and over time.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use schemars::JsonSchema;
use serde::Serialize;

use super::ledger::{Pool, Segment};
use crate::replay::Replay;

/// A pool's figures at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolFigures {
    /// The event: the moment is just after it.
    pub seq: u64,
    /// Its time, ns since the capture was opened.
    pub time_ns: u64,
    /// What the pool held from the driver.
    pub reserved_bytes: u64,
    /// Tensors live.
    pub live_bytes: u64,
    /// The difference.
    pub free_bytes: u64,
}

/// What of a pool is free, and in which pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FragmentedAt {
    /// What the pool held from the driver.
    pub reserved_bytes: u64,
    /// Tensors live.
    pub live_bytes: u64,
    /// What lies between them.
    pub free_bytes: u64,
    /// In how many pieces.
    pub free_blocks: u64,
    /// The largest.
    pub largest_free_block_bytes: u64,
    /// How much of what is free is in other pieces than the largest, in percent, to the nearest.
    pub fragmented_percent: u64,
    /// A request of this size.
    pub request_bytes: u64,
    /// What is free in blocks that are too small for it.
    pub too_small_bytes: u64,
    /// The segments, largest first.
    pub segments: Vec<FragmentedSegment>,
}

/// A segment with its free pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FragmentedSegment {
    /// The segment, and who pins it.
    #[serde(flatten)]
    pub segment: Segment,
    /// Free pieces: address and bytes, in order.
    pub free: Vec<FreeBlock>,
}

/// A free piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreeBlock {
    /// Its first address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

impl FragmentedAt {
    /// For a pool. `request` is the wanted size.
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
    /// The segment in `cells` parts of equal length: how much of each is used, in eighths rounded up, so that small
    /// tensors are visible.
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

/// A failed allocation, and what the pool was like then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolMoment {
    /// The requested bytes.
    pub requested_bytes: u64,
    /// The pool.
    #[serde(flatten)]
    pub figures: PoolFigures,
}

/// A stretch of time, at its moment with most free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolTime {
    /// The stretch's first event.
    pub from_seq: u64,
    /// That moment.
    #[serde(flatten)]
    pub figures: PoolFigures,
}

/// A pool over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReservedOverTime {
    /// When it first held most from the driver.
    pub reserved_peak: PoolFigures,
    /// The first allocations that failed.
    pub failures: Vec<PoolMoment>,
    /// Stretches with about as many events each.
    pub times: Vec<PoolTime>,
    /// Events that each but the last has.
    #[serde(skip)]
    length: u64,
    /// Events in the last.
    #[serde(skip)]
    events: u64,
}

/// The maximum number of stretches. If there are more, pairs are merged.
const MOST: usize = 32;
/// How many failures are listed.
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

    /// Merges pairs of stretches.
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
