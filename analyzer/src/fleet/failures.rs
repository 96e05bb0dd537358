//! Allocations that failed because memory was exhausted.

use std::collections::BTreeMap;

use gpumem_capture::{Event, EventKind, Seq};
use gpumem_dataset::{Failure, Key};

use super::book::Book;
use super::cells::{int, micros};
use crate::ask::CaptureFile;
use crate::attribution::owner;
use crate::replay::{At, OutOfMemory, Query, Replay};
use crate::session::{Error, Session};
use crate::views::{CauseKind, CauseWatch};
use crate::watch::Watch as _;

/// How many failures of a capture have their causes judged: the one that `oom` shows, and the first others.
const JUDGED: usize = 16;
/// How many failures are noted before those are dropped that the replay does not keep: allocations that succeeded
/// later, and failures beyond its limit.
const NOTED: usize = 4_096;

/// The bytes of tensors and the reserved bytes at failures.
#[derive(Debug, Default)]
pub(super) struct FailureWatch {
    held: BTreeMap<Seq, (u64, u64)>,
}

impl FailureWatch {
    /// Observes an event after the replay has.
    pub fn observe(&mut self, replay: &Replay, seq: Seq, event: &Event) {
        if event.kind != EventKind::OUT_OF_MEMORY {
            return;
        }
        let now = replay.devices.get(&event.device).map(|on| on.now);
        let now = now.unwrap_or_default();
        let held = (now.tensor, now.reserved.unwrap_or(0));
        self.held.insert(seq, held);
        if self.held.len() > NOTED {
            let all = replay.failures.all();
            self.held
                .retain(|seq, _| all.iter().any(|(_, known)| known.seq == *seq));
        }
    }
}

/// The result of a second reading.
pub(super) struct Judged {
    /// The capture, with figures as of the failure that `oom` shows.
    pub then: Session,
    main: Seq,
    causes: BTreeMap<Seq, (CauseKind, Option<u64>)>,
}

impl Judged {
    /// The event of that failure.
    pub fn at(&self) -> At {
        At::Event(self.main)
    }
}

/// Reads a capture again if an allocation failed and the records of that time are not evicted.
pub(super) fn judge(file: &mut CaptureFile, first: &Session) -> Result<Option<Judged>, Error> {
    let Some((_, main)) = first.replay.main_failure() else {
        return Ok(None);
    };
    let query = Query::from(At::Event(main.seq));
    if !first.replay.can_answer(query) {
        return Ok(None);
    }
    let others = first.replay.failures.all().into_iter();
    let others = others.map(|(_, failure)| failure);
    let others = others.filter(|failure| failure.seq != main.seq);
    let wanted = std::iter::once(main).chain(others).take(JUDGED);
    let mut watches: Vec<(Seq, CauseWatch)> = wanted
        .filter(|failure| first.replay.can_answer(At::Event(failure.seq).into()))
        .map(|failure| (failure.seq, CauseWatch::new(&first.replay, failure)))
        .collect();
    let then = file.read_with(query, &mut |replay, record, effect| {
        for (_, watch) in &mut watches {
            watch.after(replay, record, effect);
        }
    })?;
    let causes = watches.into_iter();
    let causes = causes.map(|(seq, watch)| (seq, watch.judge()));
    Ok(Some(Judged {
        main: main.seq,
        causes: causes.collect(),
        then,
    }))
}

/// The rows of `failures`.
pub(super) fn rows(
    (capture, started): (Key, u64),
    replay: &Replay,
    judged: Option<&Judged>,
    watch: &FailureWatch,
    book: &mut Book<'_>,
) -> Vec<Failure> {
    let names = &replay.names;
    let mut row = |failure: &OutOfMemory| {
        let (event, context) = (&failure.event, &failure.span_context);
        let cause = judged.and_then(|judged| judged.causes.get(&failure.seq));
        let held = watch.held.get(&failure.seq);
        Failure {
            capture,
            device: event.device.0.into(),
            time: micros(started.saturating_add(event.time.0)),
            cause: cause.map(|(kind, _)| kind.name().into()),
            raised: failure.is_exception(),
            wanted_bytes: int(event.bytes),
            free_bytes: cause.and_then(|(_, free)| free.map(int)),
            tensor_bytes: held.map(|(tensor, _)| int(*tensor)),
            reserved_bytes: held.map(|(_, reserved)| int(*reserved)),
            line_key: Some(book.line(names, &owner(names, context.stacks, event.level))),
            step: (replay.spans.steps > 0).then(|| int(context.steps + 1)),
        }
    };
    let all = replay.failures.all();
    all.iter().map(|(_, failure)| row(failure)).collect()
}
