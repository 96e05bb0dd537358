//! The export to Arrow. A survey finds the names; then the capture is replayed on a separate thread, and this one
//! writes.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::bail;
use gpumem_analyzer::export::{Arrow, Events, Numbers};
use gpumem_analyzer::replay::{Query, Replay};
use gpumem_analyzer::session::Session;
use gpumem_capture::Record;

use super::args::Args;
use super::events::{filter, said};
use crate::commands::read::Opened;

/// The most chunks that wait to be written.
const WAITING: usize = 32;

/// Writes the stream; returns its description, and the capture as it was read.
pub(super) fn write(
    args: &Args,
    file: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<(String, Session)> {
    let mut capture = Opened::open(file)?;
    let survey = capture.survey()?;
    let mut table = Arrow::new(&survey, &args.columns, out)?;
    let (full, chunks) = sync_channel(WAITING);
    let (empty, spare) = sync_channel(WAITING + 2);
    let (session, rows) = thread::scope(|scope| {
        let replay = thread::Builder::new().name("replay".into());
        let names = &survey.replay;
        let read = move || replayed(args, &mut capture, names, &full, &spare);
        let replay = replay.spawn_scoped(scope, read)?;
        let mut rows = 0;
        for mut chunk in chunks {
            table.rows(&chunk)?;
            rows += chunk.len() as u64;
            chunk.clear();
            // A full channel has enough empty chunks.
            let _ = empty.try_send(chunk);
        }
        match replay.join() {
            Ok(read) => read.map(|session| (session, rows)),
            Err(_) => bail!("the thread that replays the capture ended early"),
        }
    })?;
    table.finish()?;
    Ok((said(args, rows), session))
}

/// Replays the capture up to the end of the survey and sends its rows. Ends early if the receiver is gone.
fn replayed(
    args: &Args,
    capture: &mut Opened,
    names: &Replay,
    full: &SyncSender<Vec<Numbers>>,
    spare: &Receiver<Vec<Numbers>>,
) -> anyhow::Result<Session> {
    let mut events = Events::new(names, filter(args));
    let progress = capture.progress();
    let is_wanted = Cell::new(true);
    let mut chunk = Vec::with_capacity(Arrow::CHUNK);
    let send = |chunk: Vec<Numbers>| {
        if full.send(chunk).is_err() {
            is_wanted.set(false);
            progress.stop();
        }
    };
    let query = Query {
        no_categories: !Arrow::needs_categories(&args.columns),
        ..Query::without_figures()
    };
    let session = capture.read_with(query, &mut |replay, record, effect| {
        let Record::Event(seq, event) = record else {
            return;
        };
        if is_wanted.get()
            && let Some(row) = events.numbers(replay, seq, event, effect)
        {
            chunk.push(row);
            if chunk.len() == Arrow::CHUNK {
                let next = spare.try_recv();
                let next = next.unwrap_or_else(|_| Vec::with_capacity(Arrow::CHUNK));
                send(std::mem::replace(&mut chunk, next));
            }
        }
    })?;
    send(chunk);
    Ok(session)
}
