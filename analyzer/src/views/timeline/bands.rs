//! Turns a device's buckets into stacked bands.

use gpumem_capture::{DeviceOrdinal, Level};

use super::axis::Axis;
use super::holders::{GRAPHS, HOLDERS, Kept, Libraries, OTHERS, OWN, POOL, UNKNOWN};
use super::tensors::{CATEGORIES, index_of, summing_to};
use super::track::{Bucket, LEVELS, Most, Point, each};
use super::{Band, BandKind, DeviceTimeline, LevelPeak, TimelineBucket, TimelinePoint};
use crate::account::{When, when_of};
use crate::replay::{Category, DevicePeak, Replay, SpanContext};
use crate::views::json::ordinal;

const ALL: [Level; LEVELS] = [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL];

/// Tensors by category, cached, all holders except the pool, beyond.
const PARTS: usize = CATEGORIES + HOLDERS + 1;
const CACHED: usize = CATEGORIES;
/// The first holder after the pool.
const FIRST: usize = CATEGORIES;
const BEYOND: usize = PARTS - 1;

/// The context for rows of a device's buckets.
pub(super) struct Build<'a> {
    replay: &'a Replay,
    libraries: &'a Libraries,
    axis: Axis,
    device: DeviceOrdinal,
    level: Option<Level>,
    /// For a part of the run: the step and phase at its peak.
    stretch: Option<When>,
    /// Whether a framework's pool reported tensors.
    tensors: bool,
    driver: bool,
    physical: bool,
    /// Whether any category of tensors is known.
    told_apart: bool,
    /// The parts that are bands, in order.
    bands: Vec<usize>,
}

impl<'a> Build<'a> {
    pub fn new(
        replay: &'a Replay,
        libraries: &'a Libraries,
        axis: Axis,
        device: DeviceOrdinal,
        level: Option<Level>,
    ) -> Self {
        let has = |level| replay.levels.contains_key(&(device, level));
        Self {
            replay,
            libraries,
            axis,
            device,
            level,
            stretch: None,
            tensors: has(Level::TENSOR),
            driver: has(Level::DRIVER),
            physical: has(Level::PHYSICAL),
            told_apart: true,
            bands: Vec::new(),
        }
    }

    /// The buckets are only those of a part of the run.
    pub fn of_stretch(mut self, peak: Option<SpanContext>) -> Self {
        let when = peak.map(|peak| when_of(self.replay, peak));
        self.stretch = Some(when.unwrap_or_default());
        self
    }

    /// The parts of a device's memory. If the pool's driver memory was recorded without a caller, the framework's
    /// figure decides how much of it belongs to the pool. If it was not recorded at all, the framework's figure is
    /// used. The ledger does the same.
    fn parts(&self, point: &Point) -> [u64; PARTS] {
        let (levels, mut held) = (&point.levels, point.held);
        let mut parts = [0; PARTS];
        let known = held
            .iter()
            .fold(0, |sum: u64, held| sum.saturating_add(*held));
        let asked = levels.driver.saturating_sub(levels.managed);
        held[UNKNOWN] = held[UNKNOWN].saturating_add(asked.saturating_sub(known));
        if self.tensors {
            let says = levels.reserved.unwrap_or(0).max(levels.tensor);
            let taken = held[UNKNOWN].min(says.saturating_sub(held[POOL]));
            held[UNKNOWN] -= taken;
            held[POOL] = held[POOL].saturating_add(taken);
            let pool = if self.driver { held[POOL] } else { says };
            let by_category = match self.told_apart {
                true => point.by_category,
                false => [0; CATEGORIES],
            };
            let tensors = summing_to(levels.tensor, by_category);
            parts[..CATEGORIES].copy_from_slice(&tensors);
            parts[CACHED] = pool.saturating_sub(levels.tensor);
        } else {
            parts[index_of(Category::Other)] = held[POOL];
        }
        parts[FIRST + POOL + 1..BEYOND].copy_from_slice(&held[POOL + 1..]);
        if self.physical {
            parts[BEYOND] = levels.physical.saturating_sub(asked);
        }
        parts
    }

    fn point(&self, point: &Point) -> TimelinePoint {
        let (levels, parts) = (&point.levels, self.parts(point));
        TimelinePoint {
            seq: point.seq.0,
            time_ns: point.time.0,
            bytes: match self.level {
                None => self.bands.iter().map(|part| parts[*part]).collect(),
                Some(level) => vec![of(each(levels), level)],
            },
            tensor_bytes: levels.tensor,
            driver_bytes: levels.driver,
            host_bytes: levels.host,
            physical_bytes: self.physical.then_some(levels.physical),
        }
    }

    /// The largest point of a bucket: of the device, or of the requested level.
    fn most(&self, bucket: &Bucket) -> TimelinePoint {
        let mut point = self.point(&bucket.at);
        if let Some(level) = self.level {
            let most = of(bucket.most, level);
            point.seq = most.seq.0;
            point.time_ns = most.time.0;
            point.bytes = vec![most.bytes];
        }
        point
    }

    fn peaks(&self, most: [Most; LEVELS]) -> Vec<LevelPeak> {
        let of = ALL.into_iter().zip(most).filter(|(_, most)| most.bytes > 0);
        of.map(|(level, most)| LevelPeak {
            level: level_word(level),
            bytes: most.bytes,
            seq: most.seq.0,
            time_ns: most.time.0,
        })
        .collect()
    }

    /// The levels' own peaks: those of the replay for the whole run, those of the buckets for a part of it.
    fn level_peaks(&self, buckets: &[Bucket]) -> [Most; LEVELS] {
        if self.stretch.is_some() {
            let mut most = [Most::default(); LEVELS];
            let levels = buckets
                .iter()
                .flat_map(|bucket| bucket.most.iter().enumerate());
            for (level, of) in levels {
                if of.bytes > most[level].bytes {
                    most[level] = *of;
                }
            }
            return most;
        }
        ALL.map(|level| {
            let row = self.replay.levels.get(&(self.device, level));
            row.map_or(Most::default(), |row| Most {
                bytes: row.counters.peak,
                seq: row.peak.0,
                time: row.peak.1,
            })
        })
    }

    /// The device's peak. In a bounded capture it can be before the records: then `kept` has the bytes of holders and
    /// tensors.
    fn peak(&self, device: &DevicePeak, buckets: &[Bucket], kept: Kept) -> Option<Point> {
        if self.stretch.is_some() {
            let points = buckets.iter().map(|bucket| bucket.at);
            // Of equal ones, the first.
            return points.rev().max_by_key(|point| point.levels.rank());
        }
        let (seq, time) = device.moment?;
        let points = buckets.iter().map(|bucket| &bucket.at);
        let mut seen = points.filter(|point| point.seq == seq);
        let levels = device.at_peak;
        Some(seen.next().copied().unwrap_or(Point {
            seq,
            time,
            levels,
            held: kept.held,
            by_category: kept.by_category,
        }))
    }

    fn level_peak(&self, level: Level, peaks: [Most; LEVELS]) -> Option<TimelinePoint> {
        let most = of(peaks, level);
        (most.bytes > 0).then(|| TimelinePoint {
            seq: most.seq.0,
            time_ns: most.time.0,
            bytes: vec![most.bytes],
            ..TimelinePoint::default()
        })
    }

    fn most_of_parts(&self, buckets: &[Bucket], peak: Option<&Point>) -> [u64; PARTS] {
        let mut most = [0; PARTS];
        let points = buckets.iter().flat_map(|bucket| [&bucket.at, &bucket.last]);
        for parts in points.chain(peak).map(|point| self.parts(point)) {
            for (most, bytes) in most.iter_mut().zip(parts) {
                *most = bytes.max(*most);
            }
        }
        most
    }

    /// Selects the parts that have bytes at any time. Libraries are ordered by their peaks.
    fn choose(&mut self, buckets: &[Bucket], peak: Option<&Point>) {
        let mut most = self.most_of_parts(buckets, peak);
        let mut categories = Category::ALL.iter().zip(most);
        self.told_apart = categories.any(|(of, most)| of.is_specific() && most > 0);
        if !self.told_apart {
            most = self.most_of_parts(buckets, peak);
        }
        let mut libraries: Vec<usize> = (FIRST + OWN..BEYOND).collect();
        libraries.sort_by_key(|part| std::cmp::Reverse(most[*part]));
        let others = [OTHERS, UNKNOWN, GRAPHS].map(|holder| FIRST + holder);
        let parts = (0..=CACHED).chain(libraries);
        let parts = parts.chain(others).chain([BEYOND]);
        self.bands = parts.filter(|part| most[*part] > 0).collect();
    }

    fn band(&self, part: usize) -> Band {
        let (kind, name) = match part {
            part if part < CATEGORIES => return self.tensors(Category::ALL[part]),
            CACHED => (BandKind::Cached, "reserved but unallocated"),
            BEYOND => (BandKind::Beyond, "context, kernels, unused"),
            part => match part - FIRST {
                UNKNOWN => (BandKind::Unknown, "unknown caller"),
                GRAPHS => (BandKind::Graph, "CUDA graphs, live"),
                OTHERS => (BandKind::OtherLibraries, "other libraries"),
                holder => {
                    let name = self.libraries.name(holder);
                    (BandKind::Library, name.unwrap_or_default())
                }
            },
        };
        Band {
            kind,
            category: None,
            name: name.to_owned(),
        }
    }

    fn tensors(&self, category: Category) -> Band {
        let name = match (self.told_apart, category) {
            (false, _) => "tensors live",
            (true, Category::Other) => "other tensors",
            (true, Category::Workspace) => "cuBLAS workspace",
            (true, told) => told.name(),
        };
        Band {
            kind: BandKind::Tensors,
            category: self.told_apart.then_some(category),
            name: name.to_owned(),
        }
    }

    /// The rows; `None` if there is nothing to show.
    pub fn timeline(mut self, buckets: Vec<Bucket>, kept: Kept) -> Option<DeviceTimeline> {
        let device = self.replay.devices.get(&self.device)?;
        let peaks = self.level_peaks(&buckets);
        if peaks.iter().all(|most| most.bytes == 0) {
            return None;
        }
        let (bands, peak) = match self.level {
            None => {
                let peak = self.peak(device, &buckets, kept);
                self.choose(&buckets, peak.as_ref());
                let bands = self.bands.iter().map(|part| self.band(*part));
                (bands.collect(), peak.map(|peak| self.point(&peak)))
            }
            Some(level) => {
                let (kind, name) = (BandKind::Level, level_word(level).to_owned());
                let band = Band {
                    kind,
                    category: None,
                    name,
                };
                (vec![band], Some(self.level_peak(level, peaks)?))
            }
        };
        let known = self.replay.names.devices.get(&self.device);
        Some(DeviceTimeline {
            device: ordinal(self.device),
            name: known.map(|known| known.name.clone()),
            total_bytes: known.map(|known| known.total_bytes),
            bands,
            peak,
            peak_when: match (self.level, self.stretch.take()) {
                (None, None) => when_of(self.replay, device.span_context),
                (None, Some(when)) => when,
                (Some(_), _) => When::default(),
            },
            peaks: self.peaks(peaks),
            buckets: buckets
                .iter()
                .map(|bucket| TimelineBucket {
                    from_ns: self.axis.begin(bucket.index),
                    to_ns: self.axis.begin(bucket.index + 1).min(self.axis.now()),
                    most: self.most(bucket),
                    last: self.point(&bucket.last),
                    peaks: self.peaks(bucket.most),
                    nvml_process_bytes: bucket.nvml,
                })
                .collect(),
        })
    }
}

fn of<T: Copy + Default>(levels: [T; LEVELS], wanted: Level) -> T {
    let mut found = ALL.into_iter().zip(levels);
    found
        .find(|(level, _)| *level == wanted)
        .map_or(T::default(), |(_, of)| of)
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::TENSOR => "tensor",
        Level::DRIVER => "driver",
        Level::HOST => "host",
        _ => "physical",
    }
}
