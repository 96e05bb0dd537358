//! Finds the events of requested points in time, by a pass over the capture.

use std::path::Path;

use anyhow::{anyhow, bail};
use gpumem_analyzer::render::count;
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::unanswered::Unanswered;
use gpumem_analyzer::units::time;
use gpumem_analyzer::views::{Moment, Stretch};
use gpumem_capture::{DeviceOrdinal, Level, Nanos, Record, Seq};

use super::read::{Opened, not_kept};

/// The device and level of a peak; by default the device that held most.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakOf {
    /// The device.
    pub device: Option<DeviceOrdinal>,
    /// The level; else the device's own peak.
    pub level: Option<Level>,
}

/// The last recorded events at points in time, and their times: one pass for all of them, none without points.
pub fn moments_of<const N: usize>(
    capture: &mut Opened,
    points: [Option<At>; N],
    peak: PeakOf,
) -> anyhow::Result<[Option<Moment>; N]> {
    if points.iter().all(Option::is_none) {
        return Ok([None; N]);
    }
    let mut passed = points.map(|at| {
        at.map(|at| Passed {
            at,
            last: Moment::default(),
            is_over: false,
        })
    });
    let session = capture.read_with(At::End, &mut |replay, record, _| {
        if let Record::Event(seq, event) = record {
            for passed in passed.iter_mut().flatten() {
                passed.observe(replay, seq, event.time);
            }
        }
    })?;
    let mut moments = [None; N];
    for (moment, passed) in moments.iter_mut().zip(passed) {
        if let Some(passed) = passed {
            *moment = Some(passed.moment(capture.path(), &session, peak)?);
        }
    }
    Ok(moments)
}

/// A point in time that a pass comes to.
struct Passed {
    at: At,
    /// The last event that is not after it.
    last: Moment,
    is_over: bool,
}

impl Passed {
    fn observe(&mut self, replay: &Replay, seq: Seq, time: Nanos) {
        self.is_over |= match self.at {
            At::Event(limit) => seq > limit,
            At::Time(limit) => time > limit,
            _ => false,
        };
        if !self.is_over {
            let time = self.last.time.max(time);
            self.last = Moment { seq, time };
        }
        // The end of a step belongs to it.
        self.is_over |= matches!(self.at, At::Step(step) if replay.spans.steps >= step);
    }

    fn moment(self, file: &Path, session: &Session, peak: PeakOf) -> anyhow::Result<Moment> {
        let replay = &session.replay;
        let moment = match self.at {
            At::Peak => greatest(replay, peak)
                .ok_or_else(|| anyhow!("{}: no memory was allocated", file.display()))?,
            At::End => Moment {
                seq: replay.last_seq,
                time: replay.last,
            },
            At::Failure => match replay.main_failure() {
                Some((_, failure)) => Moment {
                    seq: failure.seq,
                    time: failure.event.time,
                },
                None => bail!(
                    "{}: no allocation failed because memory ran out: use peak for the point with most memory",
                    file.display()
                ),
            },
            at => {
                let is_passed = matches!(at, At::Step(_)) && self.is_over;
                let is_kept = replay.can_answer(at.into());
                return match Unanswered::by(session, at.into()) {
                    Some(why) if !(is_passed && is_kept) => bail!("{}: {why}", file.display()),
                    _ => Ok(match at {
                        At::Time(time) => Moment { time, ..self.last },
                        _ => self.last,
                    }),
                };
            }
        };
        match replay.restored {
            Some(restored) if moment.seq < restored.from => Err(not_kept(file, session)),
            _ => Ok(moment),
        }
    }
}

fn greatest(replay: &Replay, of: PeakOf) -> Option<Moment> {
    let (seq, time) = match of.level {
        Some(level) => {
            let rows = replay.levels.iter().filter(|((device, row), state)| {
                let wanted = of.device.is_none_or(|wanted| wanted == *device);
                *row == level && wanted && state.counters.peak > 0
            });
            let greatest = rows.rev().max_by_key(|(_, state)| state.counters.peak);
            greatest?.1.peak
        }
        None => {
            let devices = replay.devices.iter();
            let wanted =
                devices.filter(|(device, _)| of.device.is_none_or(|wanted| wanted == **device));
            let greatest = wanted.rev().max_by_key(|(_, device)| device.at_peak.rank());
            greatest?.1.moment?
        }
    };
    Some(Moment { seq, time })
}

/// The part of a run between two points in time; `None`: the run's start or end.
pub fn stretch(file: &Path, from: Option<Moment>, to: Option<Moment>) -> anyhow::Result<Stretch> {
    let stretch = Stretch { from, to };
    if let (Some(from), Some(to)) = (stretch.from, stretch.to)
        && (from.seq, from.time) >= (to.seq, to.time)
    {
        let (one, two) = (from.seq.0, to.seq.0);
        match one == two {
            true => bail!(
                "{}: --from and --to are the same event, {one}: name two different ones",
                file.display()
            ),
            false => bail!(
                "{}: --from is event {one}, and --to is event {two}, which is earlier: swap them",
                file.display()
            ),
        }
    }
    Ok(stretch)
}

/// The part of the run that is shown; `None`: the whole run.
pub fn part((from, to): (Option<At>, Option<At>), stretch: Stretch) -> Option<String> {
    let end = |at: Option<At>, moment: Option<Moment>, whole: &str| match (at, moment) {
        (Some(At::Time(asked)), Some(_)) => time(asked),
        (Some(at), Some(found)) => {
            let event = format!("event {}", count(found.seq.0));
            let when = time(found.time);
            match at {
                At::Event(_) => format!("{event} ({when})"),
                At::Step(step) => format!("the end of step {step} ({when}, {event})"),
                At::Peak => format!("the peak ({when}, {event})"),
                At::Failure => format!("the failure ({when}, {event})"),
                At::Time(_) | At::End => format!("the end ({when}, {event})"),
            }
        }
        _ => whole.to_owned(),
    };
    let from = end(from, stretch.from, "the start");
    let to = end(to, stretch.to, "the end");
    (!stretch.is_whole()).then(|| format!("from {from} to {to}"))
}

/// Rejects a part of the run that has no events.
pub fn has_events(file: &Path, stretch: Stretch, last: Seq) -> anyhow::Result<()> {
    match stretch.from {
        Some(from) if from.seq >= last => bail!(
            "{}: --from is the last event, {}: name an earlier one",
            file.display(),
            last.0
        ),
        _ => Ok(()),
    }
}
