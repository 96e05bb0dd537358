//! The bytes of stacks at some points in time, separately for each device. The first reading has the peak and the
//! end. A second one has the largest point of each of several stretches of time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Record};
use serde::Serialize;

use super::{DeviceTimeline, Stretch, Timeline, TimelinePoint};
use crate::replay::{At, Figure, Query, Replay, StackKey};

/// The number of stretches of the run.
const STRETCHES: usize = 24;
/// How many stacks of a point in time are kept individually: those with most bytes.
const KEPT: usize = 16_000;
/// The levels of each point in time.
pub const MOMENT_LEVELS: [Level; 2] = [Level::TENSOR, Level::DRIVER];

/// Why a point in time was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MomentKind {
    /// The device's peak.
    Peak,
    /// After the last event.
    End,
    /// The largest point of a stretch of the run.
    Most,
    /// The main failure.
    Failure,
    /// The requested one.
    Asked,
}

impl MomentKind {
    /// The order in which points in time are viewed, lowest first. `number` counts the largest points of stretches
    /// from 1: the one in the middle is first, then those of quarters, of eighths and so on.
    fn interest(self, number: u32) -> u32 {
        match self {
            Self::Asked => 0,
            Self::Failure => 1,
            Self::Peak => 2,
            Self::End => 3,
            Self::Most => 4 + (u32::BITS - number.trailing_zeros()),
        }
    }
}

/// A point in time that needs another reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    device: DeviceOrdinal,
    kind: MomentKind,
    /// Its time, if it is known.
    time_ns: Option<u64>,
}

/// The bytes of stacks at one level and point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelThen {
    /// By stack, the largest first.
    pub figures: Vec<(StackKey, Figure)>,
    /// The bytes of other stacks.
    pub others: Figure,
    /// The number of other stacks.
    pub other_stacks: u64,
}

impl LevelThen {
    fn of(mut figures: Vec<(StackKey, Figure)>) -> Self {
        figures.retain(|(_, figure)| *figure != Figure::default());
        figures.sort_by_key(|(stacks, figure)| (Reverse(figure.bytes), *stacks));
        let mut then = Self::default();
        for (_, figure) in figures.drain(KEPT.min(figures.len())..) {
            then.others += figure;
            then.other_stacks += 1;
        }
        then.figures = figures;
        then
    }

    /// The sum.
    pub fn bytes(&self) -> u64 {
        let figures = self.figures.iter().map(|(_, figure)| figure.bytes);
        figures.fold(self.others.bytes, u64::saturating_add)
    }
}

/// A device at a point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceThen {
    /// Why it was selected.
    pub kind: MomentKind,
    /// The event.
    pub seq: u64,
    /// Its time, ns since the capture was opened.
    pub time_ns: u64,
    /// The levels: see [`MOMENT_LEVELS`].
    pub levels: [LevelThen; MOMENT_LEVELS.len()],
}

/// The points in time of all devices, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// By device.
    pub devices: BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
    /// Points in time that need another reading, by event.
    wanted: BTreeMap<u64, Vec<Wanted>>,
    /// Whether their figures can be computed from the live blocks.
    counts: bool,
}

impl Moments {
    /// The peaks and the end, from the reading of `replay` and `timeline`; and a selection of others.
    pub fn choose(replay: &Replay, timeline: &Timeline) -> Self {
        let mut moments = Self {
            counts: replay.counts_as_followed(),
            ..Self::default()
        };
        for of in &timeline.devices {
            let device = of.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
            let mut then = Vec::new();
            let peak = of.peak.as_ref().map(|peak| peak.seq);
            if let Some(peak) = &of.peak {
                then.push(at(MomentKind::Peak, peak, |level| {
                    replay.figures_at_device_peak(device, level)
                }));
            }
            let end = of.end().map(|end| end.seq);
            if let Some(end) = of.end().filter(|end| Some(end.seq) != peak) {
                then.push(at(MomentKind::End, end, |level| {
                    replay.figures(device, level, At::End)
                }));
            }
            moments.devices.insert(device, then);
            for point in greatest(of) {
                if Some(point.seq) != peak && Some(point.seq) != end {
                    let at = moments.wanted.entry(point.seq).or_default();
                    at.push(Wanted {
                        device,
                        kind: MomentKind::Most,
                        time_ns: Some(point.time_ns),
                    });
                }
            }
        }
        if let Some((_, failure)) = replay.main_failure() {
            moments.also(MomentKind::Failure, failure.seq.0);
        }
        moments
    }

    /// The same for a part of the run, with the `timeline` of this part. All points in time need a second reading.
    pub fn of_stretch(replay: &Replay, timeline: &Timeline, stretch: Stretch) -> Self {
        let mut moments = Self {
            counts: replay.counts_as_followed(),
            ..Self::default()
        };
        for of in &timeline.devices {
            let device = of.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
            moments.devices.insert(device, Vec::new());
            let peak = of.peak.iter().map(|point| (MomentKind::Peak, point));
            let end = of.end().into_iter().map(|point| (MomentKind::End, point));
            let mosts = greatest(of).map(|point| (MomentKind::Most, point));
            for (kind, point) in peak.chain(end).chain(mosts) {
                moments.want(device, kind, point.seq, Some(point.time_ns));
            }
        }
        let main = replay.main_failure();
        if let Some((_, failure)) = main.filter(|(_, failure)| stretch.has(failure.seq)) {
            moments.also(MomentKind::Failure, failure.seq.0);
        }
        moments
    }

    /// Requests a point in time of a device from the next reading, unless it is already known.
    fn want(&mut self, device: DeviceOrdinal, kind: MomentKind, seq: u64, time_ns: Option<u64>) {
        let known = self.devices.get(&device).into_iter().flatten();
        let at = self.wanted.entry(seq).or_default();
        if let Some(wanted) = at.iter_mut().find(|wanted| wanted.device == device) {
            // A failure may be the largest point of its stretch: it is then shown as the failure.
            if wanted.kind == MomentKind::Most {
                wanted.kind = kind;
            }
        } else if !known.into_iter().any(|then| then.seq == seq) {
            at.push(Wanted {
                device,
                kind,
                time_ns,
            });
        }
    }

    /// Adds the point in time just after an event for each device.
    pub fn also(&mut self, kind: MomentKind, seq: u64) {
        let devices: Vec<DeviceOrdinal> = self.devices.keys().copied().collect();
        for device in devices {
            self.want(device, kind, seq, None);
        }
        self.wanted.retain(|_, wanted| !wanted.is_empty());
    }

    /// The events of all points in time, in the order in which they are viewed.
    pub fn by_interest(&self) -> impl Iterator<Item = u64> {
        let known = self.devices.values().flatten();
        let known = known.map(|then| (then.kind, then.seq));
        let wanted = self.wanted.iter();
        let wanted = wanted.flat_map(|(seq, wanted)| wanted.iter().map(move |of| (of.kind, *seq)));
        let mut all: Vec<_> = known.chain(wanted).collect();
        all.sort_unstable_by_key(|(_, seq)| *seq);
        all.dedup();
        let mut mosts = 0_u32;
        let mut ranked: Vec<_> = all
            .into_iter()
            .map(|(kind, seq)| {
                mosts += u32::from(kind == MomentKind::Most);
                (kind.interest(mosts), seq)
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, seq)| seq)
    }

    /// The query of the second pass: only what it needs, or `other`, which something else needs. `None`: they exclude
    /// each other.
    pub fn second(first: &Replay, other: Option<Query>) -> Option<Query> {
        match (first.counts_as_followed(), other) {
            (true, None) => Some(Query::without_figures()),
            (true, Some(other)) if first.sampling.is_none() => Some(other),
            (false, None) => Some(At::End.into()),
            (_, Some(_)) => None,
        }
    }

    /// Observes a record of the second reading, after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>) {
        let seq = match record {
            Record::Event(seq, _) => seq,
            Record::State(..) => replay.last_seq,
            Record::Definition(..) => return,
        };
        let Some(next) = self
            .wanted
            .first_entry()
            .filter(|next| *next.key() <= seq.0)
        else {
            return;
        };
        for wanted in next.remove() {
            let Wanted { device, kind, .. } = wanted;
            let time_ns = wanted.time_ns.unwrap_or(replay.last.0);
            let point = TimelinePoint {
                seq: seq.0,
                time_ns,
                ..TimelinePoint::default()
            };
            let then = at(kind, &point, |level| match self.counts {
                true => replay.counted_figures(device, level),
                false => replay.figures(device, level, At::End),
            });
            self.devices.entry(device).or_default().push(then);
        }
    }

    /// All points in time, by time.
    pub fn finish(mut self) -> BTreeMap<DeviceOrdinal, Vec<DeviceThen>> {
        for then in self.devices.values_mut() {
            then.sort_by_key(|then| then.seq);
        }
        self.devices
    }
}

fn at(
    kind: MomentKind,
    point: &TimelinePoint,
    figures: impl Fn(Level) -> Vec<(StackKey, Figure)>,
) -> DeviceThen {
    DeviceThen {
        kind,
        seq: point.seq,
        time_ns: point.time_ns,
        levels: MOMENT_LEVELS.map(|level| LevelThen::of(figures(level))),
    }
}

/// The largest point of each stretch. All stretches have the same number of buckets, so that a short time with many
/// events has several of them.
fn greatest(device: &DeviceTimeline) -> impl Iterator<Item = &TimelinePoint> {
    let length = device.buckets.len().div_ceil(STRETCHES).max(1);
    let rank = |point: &&TimelinePoint| (point.tensor_bytes, point.driver_bytes);
    let mosts = device.buckets.chunks(length).filter_map(move |buckets| {
        let mosts = buckets.iter().map(|bucket| &bucket.most);
        // Of equal ones, the first.
        mosts.rev().max_by_key(rank)
    });
    mosts.filter(|point| point.driver_bytes > 0 || point.tensor_bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_where_its_stretch_holds_most_is_named_for_the_failure() {
        let device = DeviceOrdinal(0);
        let mut moments = Moments::default();
        moments.devices.insert(device, Vec::new());
        moments.want(device, MomentKind::Most, 7, Some(70));
        moments.also(MomentKind::Failure, 7);
        moments.want(device, MomentKind::Most, 7, Some(70));
        let wanted = Wanted {
            device,
            kind: MomentKind::Failure,
            time_ns: Some(70),
        };
        assert_eq!(moments.wanted.get(&7), Some(&vec![wanted]));
    }
}
