//! All memory of the process by owner: rows of the ledger.

use gpumem_dataset::{Key, LedgerEntry};

use super::cells::word;
use super::words::Words;
use crate::ask::{CaptureFile, SecondPass};
use crate::session::{Error, Session};
use crate::views::{Asked, LedgerAt};

/// The rows of the ledgers of all devices at their peaks and at the end.
pub(super) fn rows(
    file: &mut CaptureFile,
    session: &Session,
    capture: Key,
    words: &mut Words<'_>,
) -> Result<Vec<LedgerEntry>, Error> {
    let mut rows = Vec::new();
    let asked = |at| Asked {
        at,
        ..Asked::default()
    };
    let second = SecondPass::after(session)
        .ledgers(asked(LedgerAt::Peak))
        .ledgers(asked(LedgerAt::End));
    let later = second.read(file, None)?;
    for (moment, ledgers) in ["peak", "end"].into_iter().zip(&later.ledgers) {
        for ledger in ledgers {
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
