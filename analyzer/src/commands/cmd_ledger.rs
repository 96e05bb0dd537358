//! `gpumem-analyze ledger`.

use gpumem_analyzer::render::{Source, ledger_text, partial, pool_text};
use gpumem_analyzer::replay::{Moment, Wanted};
use gpumem_analyzer::views::{Asked, LedgerAt};
use gpumem_capture::DeviceOrdinal;

use super::{Exit, Output, ledgers, read, say_missing};
use crate::cli::{Format, LedgerArgs};

/// Runs it.
pub fn run(args: &LedgerArgs, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let moment = match args.at {
        LedgerAt::At(seq) => Moment::At(seq),
        _ => Moment::Peak,
    };
    let wanted = Wanted {
        moment,
        peaks: args.at == LedgerAt::Peak,
        ..Wanted::default()
    };
    let session = read(&args.file, wanted)?;
    let device = args.device.map(DeviceOrdinal);
    if let Some(device) = device
        && !session.replay.devices.contains_key(&device)
        && !session.replay.names.devices.contains_key(&device)
    {
        anyhow::bail!(
            "{}: nothing was recorded of a GPU {}: gpumem-analyze summary names those there are",
            args.file.display(),
            device.0
        );
    }
    if let (LedgerAt::PeakOf(level), Some(restored)) = (args.at, session.replay.restored) {
        let rows = session.replay.rows.iter();
        let mut peaks = rows
            .filter(|((_, of), _)| *of == level)
            .map(|(_, row)| row.peak.0);
        if peaks.any(|seq| seq < restored.from) {
            return Err(super::not_kept(&args.file, &session));
        }
    }
    let asked = Asked {
        at: args.at,
        by: args.by.into(),
        device,
    };
    let ledgers = ledgers(&args.file, &session, asked)?;
    match args.format {
        Format::Json => {
            say_missing(&session);
            output.json(&ledgers)?;
        }
        Format::Text => {
            let (replay, terminal) = (&session.replay, output.terminal);
            let mut source = Source::new(&replay.names, session.header.started_wall_ns);
            let mut text = partial(&session.account, terminal);
            for (index, ledger) in ledgers.iter().enumerate() {
                text.push_str(if index > 0 { "\n" } else { "" });
                text.push_str(&ledger_text(replay, ledger, &mut source, terminal));
                let Some(pool) = ledger.pool.as_ref().filter(|_| args.segments) else {
                    continue;
                };
                text.push('\n');
                text.push_str(&pool_text(
                    replay,
                    ledger.device,
                    pool,
                    &mut source,
                    terminal,
                ));
            }
            if ledgers.is_empty() {
                text.push_str("No GPU memory was allocated.\n");
            }
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&session))
}
