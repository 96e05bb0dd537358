//! The cause of a failure: [`gpumem_judge`]'s verdict on the capture so far, as the analyzer's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use gpumem_capture::{Definition, Event, EventKind, Level, Reader, Record, Seq, StackId, ThreadId};
use gpumem_judge::{Certainty, Follow, Kind, judge, words};
use gpumem_replay::attribution::Owner;
use gpumem_replay::{At, OutOfMemory, Replay};

use gpumem_sys::clock;

use super::attempt;
use crate::session::Walked;

/// The maximum processor time, and the maximum number of the failure's event: a longer capture is read by the analyzer only.
const TIME: Duration = Duration::from_millis(800);
const EVENTS: u64 = 8_000_000;
/// How many records are read between two looks at the clock.
const RECORDS: u32 = 1 << 16;

/// The cause of a failure, and what to do about it.
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) advice: Option<String>,
    pub(super) reason: Reason,
    /// The line that requests, as tables show it.
    pub(super) line: String,
    /// Whether a handler failed that runs after the failure that ended the program.
    pub(super) is_of_handler: bool,
    /// Whether it is one of a convolution's attempts.
    pub(super) is_attempt: bool,
}

/// The kind of a cause, its line, and the line that requests: failures with the same ones are reported once.
pub(super) type Reason = (Kind, Option<Owner>, Owner);

/// Reads the capture; `None` if that cannot be done, or not within the limit of processor time, or four times of it by the
/// clock. Without a limit, no clock is read.
fn feed(path: &Path, limit: Option<Duration>, each: &mut dyn FnMut(Record<'_>)) -> Option<()> {
    let began = limit.map(|limit| (limit, clocks()));
    let is_over = || {
        began.is_some_and(|(limit, [processor, clock])| {
            let now = clocks();
            now[0].saturating_sub(processor) > limit || now[1].saturating_sub(clock) > 4 * limit
        })
    };
    let (mut records, mut is_late) = (0_u32, false);
    let mut reader = Reader::open(path).ok()?;
    reader
        .read(&mut |record| {
            records = records.wrapping_add(1);
            is_late |= records.is_multiple_of(RECORDS) && is_over();
            if !is_late {
                each(record);
            }
        })
        .ok()?;
    (!is_late).then_some(())
}

/// The thread's processor time, and the time by the clock.
fn clocks() -> [Duration; 2] {
    let clocks = [libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_MONOTONIC];
    clocks.map(|clock| Duration::from_nanos(clock::read(clock)))
}

/// The capture up to a failure. Who keeps memory may be found meanwhile.
pub(super) struct Judgement {
    replay: Replay,
    follow: Follow,
    failure: (Seq, StackId),
}

impl Judgement {
    /// Reads the capture up to the failure at `seq`, of whose event no more than this needs to be known; `None` if that cannot
    /// be done, or not within the time. At the end of the process, there is no limit of time. `tensors`: how many are live.
    pub(super) fn read(
        path: &Path,
        (seq, event, native): (Seq, Event, StackId),
        (level, tensors): (Level, usize),
        is_end: bool,
    ) -> Option<Self> {
        if seq.0 > EVENTS {
            return None;
        }
        let mut follow = Follow::at(seq, event, level);
        let mut replay = Replay::new(At::Event(seq));
        if tensors > 0 {
            replay.reserve(event.device, Level::TENSOR, tensors);
        }
        feed(path, (!is_end).then_some(TIME), &mut |record| {
            let effect = replay.feed(record);
            follow.observe(&replay, record, effect);
        })?;
        Some(Self {
            replay,
            follow,
            failure: (seq, native),
        })
    }

    /// The verdict, with who keeps memory.
    pub(super) fn verdict(self, walked: Option<&Walked>) -> Option<Verdict> {
        let Self {
            mut replay,
            mut follow,
            failure: (seq, native),
        } = self;
        if let Some(Walked {
            fact: (key, value), ..
        }) = walked
        {
            let definition = Definition::Process {
                key: key.clone(),
                value: value.clone(),
            };
            let record = Record::Definition(seq, &definition);
            let effect = replay.feed(record);
            follow.observe(&replay, record, effect);
        }
        let facts = follow.facts()?;
        let verdict = judge(facts);
        let what = words::what(&replay.names, facts, &verdict);
        let owner = facts.request.owner.clone().whole();
        Some(Verdict {
            what: match verdict.certainty {
                Certainty::Likely => format!("likely: {what}"),
                Certainty::Proven | Certainty::Follows => what,
            },
            advice: words::advice(&replay.names, facts, &verdict),
            line: match owner.function() {
                "" => owner.label(&replay.names),
                function => format!("{}  {function}", owner.label(&replay.names)),
            },
            reason: (verdict.kind, verdict.line, owner),
            is_of_handler: replay.is_of_handler(seq),
            is_attempt: attempt::is_one(&replay.names, native),
        })
    }
}

/// The failure after which the program did not go on, as the analyzer has it; `None` if it went on after all of them, or
/// the capture is too long or cannot be read. Does not read the clock, whose library may have ended.
pub(super) fn last(path: &Path, newest: Seq) -> Option<(OutOfMemory, Level)> {
    if newest.0 > EVENTS {
        return None;
    }
    let mut replay = Replay::new(At::End);
    // By thread, the first failure after which it did not go on.
    let mut open: BTreeMap<ThreadId, (Seq, Event)> = BTreeMap::new();
    feed(path, None, &mut |record| {
        let _ = replay.feed(record);
        if let Record::Event(seq, event) = record {
            open.retain(|_, (_, failed)| !replay.goes_on(failed, event));
            if event.kind == EventKind::OUT_OF_MEMORY {
                open.entry(event.thread).or_insert((seq, *event));
            }
        }
    })?;
    let (_, failure) = replay.main_failure()?;
    let event = failure.event;
    let level = match event.level {
        Level::HOST => Level::HOST,
        _ if replay.levels.contains_key(&(event.device, Level::TENSOR)) => Level::TENSOR,
        _ => Level::DRIVER,
    };
    let (first, _) = open.get(&event.thread)?;
    (*first <= failure.seq).then_some((failure, level))
}
