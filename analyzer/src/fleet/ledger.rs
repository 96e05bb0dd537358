//! All memory of the process by owner: rows of the ledger.

use std::path::Path;

use gpumem_dataset::{Key, LedgerEntry};

use super::cells::word;
use super::words::Words;
use crate::session::{Error, Session};
use crate::views::{Asked, Ledger, LedgerAt};

/// The rows of the ledgers of all devices at their peaks and at the end.
pub(super) fn rows(
    path: &Path,
    session: &Session,
    capture: Key,
    words: &mut Words<'_>,
) -> Result<Vec<LedgerEntry>, Error> {
    let mut rows = Vec::new();
    for (moment, at) in [("peak", LedgerAt::Peak), ("end", LedgerAt::End)] {
        let asked = Asked {
            at,
            ..Asked::default()
        };
        for ledger in Ledger::read(path, session, asked, &mut |_| {})? {
            for row in &ledger.rows {
                rows.push(LedgerEntry {
                    capture,
                    device: ledger.device.into(),
                    moment: words.plain(moment),
                    entry: words.plain(&word(row.kind)),
                    owner: row.library.as_deref().map(|library| words.library(library)),
                    bytes: row.bytes,
                });
            }
        }
    }
    Ok(rows)
}
