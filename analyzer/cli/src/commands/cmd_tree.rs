//! `gpumem-analyze tree`.

use std::path::PathBuf;

use clap::ValueEnum;
use gpumem_analyzer::render::{TreeLimits, TreeOf, tree_text};
use gpumem_analyzer::views::Node;

use super::exit::Exit;
use super::output::Output;
use super::pivot::{Rows, sentence};
use super::read::{Opened, symbols};
use super::view::{Of, print};
use crate::args::{Format, SymbolArgs};

/// What the nodes of the tree are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// Calls that allocated
    #[default]
    Call,
    /// PyTorch modules, each with its submodules
    Module,
}

/// `tree`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which bytes the rows show.
    #[command(flatten)]
    pub rows: Rows,
    /// What the nodes of the tree are
    #[arg(long, value_enum, default_value_t)]
    pub by: ByArg,
    /// Merge calls with less than this share into one row (text only)
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub least: u64,
    /// Also show native frames below Python frames
    #[arg(long)]
    pub native: bool,
    /// Also show the middle of long chains of frames with one callee each (text only)
    #[arg(long)]
    pub all: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let selection = &args.rows.selection;
    let file = &selection.part.capture(&args.file);
    let mut capture = Opened::open(file)?;
    let pivot = args
        .rows
        .read(&mut capture, selection.at, None, &mut output.notes)?;
    let (session, held, when) = (pivot.session, pivot.stacks, pivot.when);
    let (root, of) = match args.by {
        ByArg::Module => (Node::by_module(&session.replay, &held), TreeOf::Modules),
        ByArg::Call => {
            let (mut symbols, _bar) = symbols(file, &session, &args.symbols);
            let root = Node::tree(&session.replay, &mut symbols, &held, args.native);
            (root, TreeOf::Calls)
        }
    };
    let capture = Of {
        file,
        session: &session,
    };
    print(output, capture, args.format, &root, |_, terminal| {
        if root.bytes == 0 {
            return sentence(&args.rows.nothing(held.level, &when));
        }
        let limits = TreeLimits {
            least_percent: args.least,
            of,
            all: args.all,
        };
        tree_text(&root, limits, terminal)
    })?;
    Ok(Exit::of(&session))
}
