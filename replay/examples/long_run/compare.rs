//! Compares a bounded capture with the full one of the same program.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use gpumem_capture::*;
use gpumem_replay::{At, Block, Figure, Replay, StackKey};

fn read(path: &Path, until: Option<Seq>) -> Result<(Replay, Integrity), Box<dyn Error>> {
    let mut replay = Replay::new(At::Peak);
    let integrity = Reader::open(path)?.read(&mut |record| {
        let is_later = match record {
            Record::Event(seq, _) => until.is_some_and(|until| seq > until),
            Record::Definition(..) | Record::State(..) => false,
        };
        if !is_later {
            replay.feed(record);
        }
    })?;
    Ok((replay, integrity))
}

fn sorted(mut figures: Vec<(StackKey, Figure)>) -> Vec<(StackKey, Figure)> {
    figures.sort_unstable_by_key(|(key, _)| *key);
    figures
}

fn blocks(replay: &Replay, at: (DeviceOrdinal, Level)) -> BTreeMap<u64, (u64, StackKey, Seq)> {
    let of = |(ptr, block): (u64, Block)| (ptr, (block.bytes, replay.stacks(block.key), block.seq));
    replay
        .levels
        .get(&at)
        .map(|row| row.live_blocks().map(of).collect())
        .unwrap_or_default()
}

/// Prints a line for each thing compared; returns whether all are equal.
pub(crate) fn compare(full: &Path, bounded: &Path) -> Result<bool, Box<dyn Error>> {
    let ((one, whole), (two, found)) = (read(full, None)?, read(bounded, None)?);
    let mut same = whole.is_whole() && found.is_whole();
    let mut check = |what: String, equal: bool| {
        println!("{} {what}", if equal { "equal " } else { "DIFFER" });
        same &= equal;
    };
    let from = found.bounded.map(|bounded| bounded.from);
    check(
        format!("{} events; history from {from:?}", one.events),
        one.events == two.events,
    );
    check(
        format!("steps: {}", one.spans.steps),
        one.spans.steps == two.spans.steps,
    );
    let places: Vec<_> = one.levels.keys().copied().collect();
    check(
        format!("levels: {}", places.len()),
        places.iter().eq(two.levels.keys()),
    );
    for (device, level) in places {
        let row = |replay: &Replay| {
            let row = &replay.levels[&(device, level)];
            (row.counters, row.peak, row.anomalies, row.live_at_moment)
        };
        check(
            format!("{level}: {:?}", row(&one).0),
            row(&one) == row(&two),
        );
        for moment in [At::Peak, At::End] {
            let of = |replay: &Replay| sorted(replay.figures(device, level, moment));
            check(
                format!("{level} {moment:?}: {} stacks", of(&one).len()),
                of(&one) == of(&two),
            );
        }
        let of = |replay: &Replay| sorted(replay.figures_at_device_peak(device, level));
        check(
            format!("{level} at the device's peak: {} stacks", of(&one).len()),
            of(&one) == of(&two),
        );
        let live = |replay: &Replay| blocks(replay, (device, level));
        check(
            format!("{level} live blocks: {}", live(&one).len()),
            live(&one) == live(&two),
        );
        let totals = |replay: &Replay| {
            let totals = replay.levels[&(device, level)].totals();
            totals
                .map(|(key, total)| (replay.stacks(key), total))
                .collect::<BTreeMap<_, _>>()
        };
        let (all, kept) = (totals(&one), totals(&two));
        let sum = |of: &BTreeMap<StackKey, gpumem_replay::Total>| {
            of.values()
                .fold(gpumem_replay::Total::default(), |mut sum, total| {
                    sum += *total;
                    sum
                })
        };
        check(
            format!("{level} totals: {:?}", sum(&all)),
            sum(&all) == sum(&kept),
        );
        let told = kept
            .iter()
            .filter(|(key, total)| all.get(*key) == Some(*total))
            .count();
        println!(
            "       {level} totals of {told} of {} stacks are those of the full capture",
            all.len()
        );
    }
    for (device, peak) in &one.devices {
        let Some((seq, _)) = peak.moment else {
            continue;
        };
        check(
            format!("peak of device {}: {seq:?}", device.0),
            two.devices[device].moment == peak.moment,
        );
        let Some((kept, _)) = two.at_peak_of(*device) else {
            println!("       the peak is in the log");
            continue;
        };
        let (then, _) = read(full, Some(seq))?;
        for level in [Level::TENSOR, Level::DRIVER, Level::PHYSICAL] {
            let (a, b) = (
                blocks(&then, (*device, level)),
                blocks(&kept, (*device, level)),
            );
            check(format!("{level} blocks at the peak: {}", a.len()), a == b);
            let parts = |replay: &Replay| {
                let row = replay.levels.get(&(*device, level));
                let reservations = row.iter().flat_map(|row| row.reservations());
                let part =
                    |(key, bytes): &(gpumem_replay::KeyId, u64)| (replay.stacks(*key), *bytes);
                reservations
                    .map(|(kind, ptr, reservation)| {
                        (kind, ptr, reservation.parts().iter().map(part).collect())
                    })
                    .collect::<Vec<(_, _, Vec<_>)>>()
            };
            check(
                format!("{level} reservations at the peak: {}", parts(&then).len()),
                parts(&then) == parts(&kept),
            );
        }
    }
    println!("       evicted: {:?}", two.evicted);
    Ok(same)
}
