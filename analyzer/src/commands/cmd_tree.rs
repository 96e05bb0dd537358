//! `gpumem-analyze tree`.

use gpumem_analyzer::render::{TreeLimits, partial, tree_text};
use gpumem_analyzer::views::Node;

use super::{Exit, Output, level_or_default, read, say_missing, symbols};
use crate::cli::{Format, TreeArgs};

/// Runs it.
pub fn run(args: &TreeArgs, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let at = args.which.at;
    let session = read(&args.file, at)?;
    let level = level_or_default(args.which.level.map(Into::into), &session.replay);
    let (mut symbols, bar) = symbols(&args.file, &session, &args.symbols);
    let root = Node::tree(&session.replay, &mut symbols, level, at, args.native);
    drop(bar);
    match args.format {
        Format::Json => {
            say_missing(&session);
            output.json(&root)?;
        }
        Format::Text => {
            output.text(&partial(&session.account, output.terminal))?;
            if root.bytes == 0 {
                output.text(&format!("Nothing was live at the {level} level then.\n"))?;
            } else {
                let limits = TreeLimits {
                    least_percent: args.least,
                    all: args.all,
                };
                output.text(&tree_text(&root, limits, output.terminal))?;
            }
        }
    }
    Ok(Exit::of(&session))
}
