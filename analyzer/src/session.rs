//! Reading a capture from beginning to end.

use std::path::Path;

use gpumem_capture::{Header, Integrity, OpenError, Progress, ReadError, Reader, Record};

use crate::replay::{Account, Effect, Moment, Replay};

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
    /// The moment that figures by stack are for.
    pub moment: Moment,
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
    moment: Moment,
    observer: &mut Observer<'_>,
    started: &mut dyn FnMut(Progress),
) -> Result<Session, Error> {
    let mut reader = Reader::open(path)?;
    started(reader.progress());
    let mut replay = Replay::new(moment);
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
        moment,
    })
}
