//! Finds the event of a requested point in time, by reading the capture.

use std::path::Path;

use anyhow::{anyhow, bail};
use gpumem_analyzer::render::count;
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::units::time;
use gpumem_analyzer::views::{Moment, Stretch};
use gpumem_capture::{DeviceOrdinal, Level, Record, Seq};

use super::read::{not_kept, read, read_with};

/// The device and level of a peak; by default the device that held most.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakOf {
    /// The device.
    pub device: Option<DeviceOrdinal>,
    /// The level; else the device's own peak.
    pub level: Option<Level>,
}

/// The last recorded event at a point in time, and its time.
pub fn moment_of(file: &Path, at: At, peak: PeakOf) -> anyhow::Result<Moment> {
    let moment = match at {
        At::Peak | At::End | At::Failure => {
            let session = read(file, At::End)?;
            let replay = &session.replay;
            let moment = match at {
                At::Peak => greatest(replay, peak)
                    .ok_or_else(|| anyhow!("{}: no memory was allocated", file.display()))?,
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
                _ => Moment {
                    seq: replay.last_seq,
                    time: replay.last,
                },
            };
            let kept = replay.restored;
            if kept.is_some_and(|restored| moment.seq < restored.from) {
                return Err(not_kept(file, &session));
            }
            moment
        }
        // The event may not exist; it is then rejected.
        at => {
            let mut last = Moment::default();
            read_with(file, at, &mut |replay, record, _| match record {
                Record::Event(seq, event) if replay.until().is_none_or(|until| seq <= until) => {
                    let time = last.time.max(event.time);
                    last = Moment { seq, time };
                }
                _ => {}
            })?;
            match at {
                At::Time(time) => Moment { time, ..last },
                _ => last,
            }
        }
    };
    Ok(moment)
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
pub fn stretch(
    file: &Path,
    from: Option<At>,
    to: Option<At>,
    peak: PeakOf,
) -> anyhow::Result<Stretch> {
    let found = |at: Option<At>| at.map(|at| moment_of(file, at, peak)).transpose();
    let stretch = Stretch {
        from: found(from)?,
        to: found(to)?,
    };
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
