//! What stacks held at a few moments of a run, each device at its own: the peak and the end, which one
//! reading tells, and the greatest moment of each of some stretches of time, which a second one does.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Record};
use serde::Serialize;

use super::{DeviceTimeline, Stretch, Timeline, TimelinePoint};
use crate::replay::{At, Figure, Query, Replay, StackKey};

/// Into how many stretches the run is cut.
const STRETCHES: usize = 24;
/// So many stacks of a moment are kept one by one, those with most bytes.
const KEPT: usize = 16_000;
/// The levels that are told of.
pub const MOMENT_LEVELS: [Level; 2] = [Level::TENSOR, Level::DRIVER];

/// What is special about a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MomentKind {
    /// The device's peak.
    Peak,
    /// After the last event.
    End,
    /// Where the device held most in a stretch of the run.
    Most,
    /// The failure to tell of first.
    Failure,
    /// The one that was asked for.
    Asked,
}

impl MomentKind {
    /// Which is looked at first, lowest first; of the greatest moments of stretches `number` counts from 1: first one in
    /// the middle, then those of quarters, of eighths and so on.
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

/// A moment that a reading has yet to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    device: DeviceOrdinal,
    kind: MomentKind,
    /// When, if that is known.
    time_ns: Option<u64>,
}

/// What stacks held of one level at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelThen {
    /// By stack, the largest first.
    pub figures: Vec<(StackKey, Figure)>,
    /// What other stacks held.
    pub others: Figure,
    /// How many those are.
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

    /// All of it.
    pub fn bytes(&self) -> u64 {
        let figures = self.figures.iter().map(|(_, figure)| figure.bytes);
        figures.fold(self.others.bytes, u64::saturating_add)
    }
}

/// A device at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceThen {
    /// What it is.
    pub kind: MomentKind,
    /// Which event.
    pub seq: u64,
    /// When, ns since the capture was opened.
    pub time_ns: u64,
    /// The levels: see [`MOMENT_LEVELS`].
    pub levels: [LevelThen; MOMENT_LEVELS.len()],
}

/// The moments of all devices, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// By device.
    pub devices: BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
    /// Those that a reading has yet to tell, by event.
    wanted: BTreeMap<u64, Vec<Wanted>>,
}

impl Moments {
    /// The peaks and the end out of the one reading that `replay` and `timeline` come from; the others are
    /// chosen.
    pub fn choose(replay: &Replay, timeline: &Timeline) -> Self {
        let mut moments = Self::default();
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
        if let Some((_, failure)) = replay.failures.main() {
            moments.also(MomentKind::Failure, failure.seq.0);
        }
        moments
    }

    /// The same of a part of the run, of which `timeline` is: a second reading has to tell all of them.
    pub fn of_stretch(replay: &Replay, timeline: &Timeline, stretch: Stretch) -> Self {
        let mut moments = Self::default();
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
        let main = replay.failures.main();
        if let Some((_, failure)) = main.filter(|(_, failure)| stretch.has(failure.seq)) {
            moments.also(MomentKind::Failure, failure.seq.0);
        }
        moments
    }

    /// A reading has yet to tell a moment of a device, unless it is one of its moments already.
    fn want(&mut self, device: DeviceOrdinal, kind: MomentKind, seq: u64, time_ns: Option<u64>) {
        let known = self.devices.get(&device).into_iter().flatten();
        let at = self.wanted.entry(seq).or_default();
        if let Some(wanted) = at.iter_mut().find(|wanted| wanted.device == device) {
            // A failure may be where its stretch holds most: it is named for the failure.
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

    /// The moment just after an event is one of each device's.
    pub fn also(&mut self, kind: MomentKind, seq: u64) {
        let devices: Vec<DeviceOrdinal> = self.devices.keys().copied().collect();
        for device in devices {
            self.want(device, kind, seq, None);
        }
        self.wanted.retain(|_, wanted| !wanted.is_empty());
    }

    /// The events of all moments, those first that are looked at first.
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

    /// Whether a second reading would tell more.
    pub fn wants_more(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// What the second reading is asked for: no more than it has to tell.
    pub fn second(first: &Replay) -> Query {
        match first.counts_as_followed() {
            true => Query::without_figures(),
            false => At::End.into(),
        }
    }

    /// Takes in a record of the second reading, after the replay has.
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
            let then = at(kind, &point, |level| replay.live_figures(device, level));
            self.devices.entry(device).or_default().push(then);
        }
    }

    /// All moments in the order of time.
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

/// Where the device held most in each stretch: those have as many buckets each, so that a short time in which
/// much happened is not one of them.
fn greatest(device: &DeviceTimeline) -> impl Iterator<Item = &TimelinePoint> {
    let length = device.buckets.len().div_ceil(STRETCHES).max(1);
    let rank = |point: &&TimelinePoint| (point.tensor_bytes, point.driver_bytes);
    let mosts = device.buckets.chunks(length).filter_map(move |buckets| {
        let mosts = buckets.iter().map(|bucket| &bucket.most);
        // The first of those that are equal.
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
