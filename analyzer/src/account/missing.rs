//! What a capture lacks, one line each.

use std::collections::BTreeSet;

use gpumem_capture::Integrity;

use super::words::place;
use crate::replay::{Anomalies, Evicted, Purpose, Replay, StackKey};
use crate::units::many;
use crate::units::{bytes, count, time};

/// What the recorder lost and what is damaged in the file.
pub(super) fn lost(integrity: &Integrity) -> Vec<String> {
    let mut missing = Vec::new();
    if integrity.events_lost > 0 {
        let times: Vec<String> = integrity
            .loss_ranges
            .iter()
            .map(|range| format!("{}–{}", time(range.first), time(range.last)))
            .collect();
        let between = if times.is_empty() {
            String::new()
        } else {
            format!(", at {}", times.join(", "))
        };
        let what = many(integrity.events_lost, "event", "events");
        missing.push(format!(
            "{what} lost: the recorder's ring was full{between}"
        ));
    }
    for damage in &integrity.damage {
        let records = match (damage.first_missing, damage.next_good) {
            (Some(first), Some(next)) => format!(
                ": records {} to {} are missing",
                first.0,
                next.0.saturating_sub(1)
            ),
            (Some(first), None) => format!(": all records from {} on are missing", first.0),
            (None, _) => String::new(),
        };
        missing.push(format!(
            "damaged at byte {}: {}{records}",
            damage.offset, damage.what
        ));
    }
    if let Some(error) = integrity
        .drain_error
        .as_ref()
        .filter(|_| integrity.events_lost > 0)
    {
        missing.push(format!("the recorder could not write: {error}"));
    }
    missing
}

/// Stacks that events refer to and that are missing from the capture.
pub(super) fn stacks(replay: &Replay) -> Option<String> {
    let names = &replay.names;
    let lacks = |key: &StackKey| !names.has_python(key.py) || !names.has_native(key.native);
    // The category is not part of a stack.
    let of = |key: &StackKey| StackKey {
        purpose: Purpose::default(),
        ..*key
    };
    let lacking = replay.keys.iter().filter(|key| lacks(key)).map(of);
    let count = lacking.collect::<BTreeSet<StackKey>>().len() as u64;
    (count > 0).then(|| {
        let what = many(count, "stack is", "stacks are");
        format!("{what} not in the capture: bytes without a line")
    })
}

/// What a bounded capture has evicted.
pub(super) fn bounds(
    replay: &Replay,
    integrity: &Integrity,
    missing: &mut Vec<String>,
    notes: &mut Vec<String>,
) {
    if replay
        .restored
        .is_some_and(|restored| !restored.is_readable)
    {
        let what = "the state before the first event has a format that this version cannot read";
        missing.push(what.into());
    }
    let Some(bounded) = integrity.bounded.filter(|bounded| bounded.from.0 > 0) else {
        return;
    };
    notes.push(format!(
        "bounded to {}: events are kept from {} on; of earlier ones, live blocks, peaks and totals are kept",
        bytes(bounded.bytes),
        count(bounded.from.0)
    ));
    let Evicted {
        stacks,
        blocks,
        bytes: held,
        peak_blocks,
    } = replay.evicted;
    if stacks > 0 {
        let what = many(stacks, "stack", "stacks");
        notes.push(format!(
            "{what} without live memory evicted: their totals are counted under other stacks"
        ));
    }
    if blocks > 0 {
        let what = many(blocks, "block was", "blocks were");
        let of = bytes(held);
        missing.push(format!(
            "{what} not kept individually ({of}): live ones are counted under other stacks; raise GPUMEM_BOUNDED for this program"
        ));
    }
    if peak_blocks > 0 {
        let what = many(peak_blocks, "block", "blocks");
        missing.push(format!(
            "{what} of a peak not kept individually: the ledger at the peak does not include them"
        ));
    }
}

/// Inconsistencies that the replay found.
pub(super) fn anomalies(replay: &Replay) -> Vec<String> {
    let mut missing = Vec::new();
    for ((device, level), row) in &replay.levels {
        let Anomalies {
            double_allocations,
            frees_without_block,
            frees_of_other_size,
            unknown_pointers,
            lost_cancels,
            mismatches,
            reservations_of_other_size,
        } = row.anomalies;
        for (count, one, more) in [
            (
                double_allocations,
                "address was allocated twice without a free",
                "addresses were allocated twice without a free",
            ),
            (
                frees_without_block,
                "free of a block whose allocation is not in the capture",
                "frees of blocks whose allocations are not in the capture",
            ),
            (
                frees_of_other_size,
                "free with another size than its allocation",
                "frees with another size than their allocations",
            ),
            (
                unknown_pointers,
                "free of memory whose allocation was not seen",
                "frees of memory whose allocations were not seen",
            ),
            (
                lost_cancels,
                "failed free that is not in the capture",
                "failed frees that are not in the capture",
            ),
            (
                mismatches,
                "event at which the framework's own figure differed",
                "events at which the framework's own figure differed",
            ),
            (
                reservations_of_other_size,
                "reservation change that does not match the recorded size",
                "reservation changes that do not match the recorded sizes",
            ),
        ] {
            if count > 0 {
                let what = many(count, one, more);
                missing.push(format!("{} {level}: {what}", place(*device)));
            }
        }
    }
    missing
}

/// The recorder's notes: first those about missing events, then the others. Of notes that differ only in their
/// leading number, the last one counts.
pub(super) fn said(notes: &[String]) -> (Vec<String>, Vec<String>) {
    const INEXACT: &str = "inexact: ";
    fn counted(note: &str) -> &str {
        note.trim_start_matches(INEXACT)
            .trim_start_matches(|c: char| c.is_ascii_digit())
    }
    let (mut unseen, mut others) = (Vec::new(), Vec::new());
    for (place, note) in notes.iter().enumerate() {
        let is_old = notes
            .iter()
            .skip(place + 1)
            .any(|later| counted(later) == counted(note));
        match note.strip_prefix(INEXACT) {
            _ if is_old => {}
            Some(what) => unseen.push(what.to_owned()),
            None => others.push(note.clone()),
        }
    }
    (unseen, others)
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_the_recorder_did_not_see_is_missing() {
        let notes = [
            "inexact: 2 requests were answered otherwise",
            "this driver has no cuMemX",
            "inexact: 6 requests were answered otherwise",
            "inexact: libx.so is bound past the recorder",
        ];
        let (unseen, others) = said(&notes.map(String::from));
        assert_eq!(
            unseen,
            [
                "6 requests were answered otherwise",
                "libx.so is bound past the recorder"
            ]
        );
        assert_eq!(others, ["this driver has no cuMemX"]);
    }
}
