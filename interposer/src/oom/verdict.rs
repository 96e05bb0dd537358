//! The cause of a failure: [`gpumem_judge`]'s verdict on the capture so far, as the analyzer's.

use std::path::Path;
use std::time::{Duration, Instant};

use gpumem_capture::{Event, EventKind, Level, Reader};
use gpumem_judge::{Certainty, Follow, Kind, judge, words};
use gpumem_replay::attribution::Owner;
use gpumem_replay::{At, Replay};

use super::recorded::Recorded;

/// The maximum time, and the maximum number of the failure's event: a longer capture is read by the analyzer only.
const TIME: Duration = Duration::from_millis(400);
const EVENTS: u64 = 8_000_000;
/// How many records are read between two looks at the clock.
const RECORDS: u32 = 1 << 16;

/// The cause of a failure, and what to do about it.
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) advice: Option<String>,
    pub(super) reason: Reason,
}

/// The kind of a cause, its line, and the line that requests: failures with the same ones are reported once.
pub(super) type Reason = (Kind, Option<Owner>, Owner);

/// The verdict; `None` if the capture cannot be read, or not within the time.
pub(super) fn read(path: &Path, recorded: &Recorded, level: Level) -> Option<Verdict> {
    if recorded.seq.0 > EVENTS {
        return None;
    }
    let began = Instant::now();
    let event = Event {
        bytes: recorded.failed.bytes,
        device: recorded.failed.device,
        level: recorded.failed.level,
        kind: EventKind::OUT_OF_MEMORY,
        ..Event::default()
    };
    let mut follow = Follow::at(recorded.seq, event, level);
    let mut replay = Replay::new(At::Event(recorded.seq));
    let (mut records, mut is_late) = (0_u32, false);
    let mut reader = Reader::open(path).ok()?;
    reader
        .read(&mut |record| {
            records = records.wrapping_add(1);
            is_late |= records.is_multiple_of(RECORDS) && began.elapsed() > TIME;
            if !is_late {
                let effect = replay.feed(record);
                follow.observe(&replay, record, effect);
            }
        })
        .ok()?;
    let facts = follow.facts().filter(|_| !is_late)?;
    let verdict = judge(facts);
    let what = words::what(&replay.names, facts, &verdict);
    Some(Verdict {
        what: match verdict.certainty {
            Certainty::Likely => format!("likely: {what}"),
            Certainty::Proven | Certainty::Follows => what,
        },
        advice: words::advice(&replay.names, facts, &verdict),
        reason: (
            verdict.kind,
            verdict.line,
            facts.request.owner.clone().whole(),
        ),
    })
}
