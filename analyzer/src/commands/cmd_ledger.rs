//! `gpumem-analyze ledger`.

use gpumem_analyzer::render::{Source, ledger_text, partial};
use gpumem_analyzer::replay::Moment;
use gpumem_analyzer::views::Ledger;

use super::{Exit, Output, read, say_missing};
use crate::cli::{Format, LedgerArgs};

/// Runs it.
pub fn run(args: &LedgerArgs, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let session = read(&args.file, Moment::Peak)?;
    let ledgers = Ledger::all(&session.replay);
    match args.format {
        Format::Json => {
            say_missing(&session);
            output.json(&ledgers)?;
        }
        Format::Text => {
            let replay = &session.replay;
            let mut source = Source::new(&replay.names, session.header.started_wall_ns);
            let mut text = partial(&session.account, output.terminal);
            for (index, ledger) in ledgers.iter().enumerate() {
                text.push_str(if index > 0 { "\n" } else { "" });
                text.push_str(&ledger_text(replay, ledger, &mut source, output.terminal));
            }
            if ledgers.is_empty() {
                text.push_str("No GPU memory was allocated.\n");
            }
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&session))
}
