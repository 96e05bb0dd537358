//! Reading a capture from beginning to end.

use std::path::Path;

use gpumem_capture::{Header, Integrity, OpenError, Progress, ReadError, Reader, Record};

use crate::replay::{Account, Effect, Replay, Wanted};

/// A capture that was read to its end.
#[derive(Debug)]
pub struct Session {
    /// Figures and names.
    pub replay: Replay,
    /// What is known beside the records.
    pub header: Header,
    /// How whole the file is.
    pub integrity: Integrity,
    /// What may be claimed.
    pub account: Account,
    /// What the figures by stack are of.
    pub wanted: Wanted,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened as a capture.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused while reading.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Sees each record after the replay has taken it in.
pub type Observer<'a> = dyn FnMut(&Replay, Record<'_>, Effect) + 'a;

/// Reads a capture. `started` is given a handle that tells how far reading has come.
///
/// # Errors
/// Only where nothing can be read; damage is in [`Session::integrity`].
pub fn read(
    path: &Path,
    wanted: impl Into<Wanted>,
    observer: &mut Observer<'_>,
    started: &mut dyn FnMut(Progress),
) -> Result<Session, Error> {
    let mut reader = Reader::open(path)?;
    started(reader.progress());
    let wanted = wanted.into();
    let mut replay = Replay::new(wanted);
    let integrity = reader.read(&mut |record| {
        let effect = replay.feed(record);
        observer(&replay, record, effect);
    })?;
    let header = reader.header().clone();
    let account = Account::judge(&replay, &header, &integrity, &reader.counters());
    Ok(Session {
        replay,
        header,
        integrity,
        account,
        wanted,
    })
}
