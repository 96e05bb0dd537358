//! A row for each event.

use gpumem_capture::{Level, Record};
use gpumem_dataset::{Event, Key};
use rustc_hash::FxHashMap;

use super::book::Book;
use super::cells::{int, micros};
use crate::ask::CaptureFile;
use crate::attribution::owner;
use crate::export::{Events, Filter};
use crate::replay::{At, StackKey};
use crate::session::{Error, Session};

/// Reads a capture again and passes its events to `sink`, until that fails.
pub(super) fn each<E: From<Error>>(
    file: &mut CaptureFile,
    first: &Session,
    capture: Key,
    book: &mut Book<'_>,
    sink: &mut dyn FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    let mut events = Events::new(&first.replay, Filter::default());
    let mut lines: FxHashMap<(StackKey, Level), Key> = FxHashMap::default();
    let names = &first.replay.names;
    let started = first.header.started_wall_ns;
    let mut failed = None;
    file.read_with(At::End, &mut |replay, record, effect| {
        let Record::Event(seq, event) = record else {
            return;
        };
        let Some(row) = events
            .row(replay, seq, event, effect)
            .filter(|_| failed.is_none())
        else {
            return;
        };
        let mut text = |text: Option<&str>| text.map(|text| book.words.plain(text));
        let (level, category) = (text(row.level), text(row.category));
        let kind = book.words.plain(row.kind);
        let line_key = row.stacks.map(|stacks| {
            let line = lines.entry((stacks, event.level));
            *line.or_insert_with(|| book.line(names, &owner(names, stacks, event.level)))
        });
        failed = sink(Event {
            capture,
            seq: int(row.seq),
            time: micros(started.saturating_add(row.time_ns)),
            kind,
            level,
            device: row.device.map(Into::into),
            ptr: row.ptr.cast_signed(),
            bytes: int(row.bytes),
            live_bytes: row.live_bytes.map(int),
            block_seq: row.block_seq.map(int),
            line_key,
            step: row.step.map(int),
            category,
        })
        .err();
    })?;
    failed.map_or(Ok(()), Err)
}
