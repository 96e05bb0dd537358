//! `gpumem-analyze`: the command line over the library.
#![forbid(unsafe_code)]

mod args;
mod cli;
mod commands;
mod selection;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use gpumem_analyzer::render::Terminal;

use cli::{Cli, Command};
use commands::exit::Exit;
use commands::output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Not locked: the threads of mcp write to it, too.
    let mut out = BufWriter::new(io::stdout());
    let mut output = Output {
        out: &mut out,
        terminal: Terminal::of_stdout(),
    };
    let result = run(&cli, &mut output).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => ExitCode::from(exit.code()),
        // The reader of our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => error.format(&mut Cli::command()).exit(),
            Err(error) => {
                eprintln!("gpumem-analyze: {error:#}");
                ExitCode::from(1)
            }
        },
    }
}

fn run(cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match &cli.command {
        None => match &cli.file {
            Some(file) => commands::cmd_report::run(file, &cli.symbols, output),
            None => anyhow::bail!("no capture was named: see gpumem-analyze --help"),
        },
        Some(Command::Summary(args)) => commands::cmd_summary::run(args, output),
        Some(Command::Live(args)) => commands::cmd_live::run(args),
        Some(Command::Lines(args)) => commands::cmd_lines::run(args, output),
        Some(Command::Oom(args)) => commands::cmd_oom::run(args, output),
        Some(Command::Fragmentation(args)) => commands::cmd_fragmentation::run(args, output),
        Some(Command::Leaks(args)) => commands::cmd_leaks::run(args, output),
        Some(Command::Ledger(args)) => commands::cmd_ledger::run(args, output),
        Some(Command::Changes(args)) => commands::cmd_changes::run(args, output),
        Some(Command::Diff(args)) => commands::cmd_diff::run(args, output),
        Some(Command::Ci(args)) => commands::cmd_ci::run(args, output),
        Some(Command::Ranks(args)) => commands::cmd_ranks::run(args, output),
        Some(Command::Fleet(args)) => commands::cmd_fleet::run(args, output),
        Some(Command::Flamegraph(args)) => commands::cmd_flamegraph::run(args, output),
        Some(Command::Hints(args)) => commands::cmd_hints::run(args, output),
        Some(Command::Timeline(args)) => commands::cmd_timeline::run(args, output),
        Some(Command::Html(args)) => commands::cmd_html::run(args, output),
        Some(Command::Tree(args)) => commands::cmd_tree::run(args, output),
        Some(Command::Temporary(args)) => commands::cmd_temporary::run(args, output),
        Some(Command::Sizes(args)) => commands::cmd_sizes::run(args, output),
        Some(Command::Threads(args)) => commands::cmd_threads::run(args, output),
        Some(Command::Scopes(args)) => commands::cmd_scopes::run(args, output),
        Some(Command::Exporter(args)) => commands::cmd_exporter::run(args),
        Some(Command::Export(args)) => commands::cmd_export::run(args, output),
        Some(Command::Symbolize(args)) => commands::cmd_symbolize::run(args, output),
        Some(Command::Recover(args)) => commands::cmd_recover::run(args, output),
        Some(Command::Import(args)) => commands::cmd_import::run(args, output),
        Some(Command::Check(args)) => commands::cmd_check::run(args, output),
        Some(Command::Mcp(args)) => commands::cmd_mcp::run(args),
        Some(Command::Completions { shell }) => {
            commands::cmd_shell::completions(*shell, Cli::command(), output)
        }
        Some(Command::Man) => commands::cmd_shell::man(Cli::command(), output),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(|error| error.io_error_kind());
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}
