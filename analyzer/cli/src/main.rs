//! `gpumem-analyze`: the command line of the library.
#![forbid(unsafe_code)]
// Some code is used only by commands of the full build.
#![cfg_attr(not(feature = "full"), allow(dead_code))]

mod args;
mod cli;
mod commands;
mod devices;
mod locale;
#[cfg(all(test, feature = "full"))]
mod schemas;
mod selection;
mod usage;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use gpumem_analyzer::render::{Colour, Terminal};

use cli::{Cli, Command};
use commands::exit::Exit;
use commands::output::Output;

/// The exit code for a wrong command line.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let colour = args::colour(&arguments);
    let cli = match parsed(&arguments, colour) {
        Ok(cli) => cli,
        Err(error) => return refused(&arguments, &error),
    };
    // Not locked, because the threads of mcp write to it, too.
    let mut out = BufWriter::new(io::stdout());
    let mut output = Output {
        out: &mut out,
        terminal: Terminal::of_stdout(colour),
    };
    let result = run(&cli, &mut output).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => ExitCode::from(exit.code()),
        // The reader closed our output.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => {
                eprintln!("gpumem-analyze: {}", first_line(&error));
                ExitCode::from(WRONG)
            }
            Err(error) => {
                eprintln!("gpumem-analyze: {error:#}");
                ExitCode::from(1)
            }
        },
    }
}

fn parsed(arguments: &[OsString], colour: Colour) -> Result<Cli, clap::Error> {
    let help = match colour {
        Colour::Auto => clap::ColorChoice::Auto,
        Colour::Always => clap::ColorChoice::Always,
        Colour::Never => clap::ColorChoice::Never,
    };
    let line = Cli::command().color(help);
    let found = line.try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&found)?;
    match usage::before_command(&cli) {
        Some(what) => Err(clap::Error::raw(ErrorKind::ArgumentConflict, what)),
        None => Ok(cli),
    }
}

/// A wrong command line, or one that requests help.
fn refused(arguments: &[OsString], error: &clap::Error) -> ExitCode {
    match usage::meant(arguments, error) {
        Some(meant) => {
            eprintln!("gpumem-analyze: {meant}");
            ExitCode::from(WRONG)
        }
        None => {
            match usage::plainly(arguments, error) {
                Some(text) => eprintln!("gpumem-analyze: {text}"),
                None => {
                    let _ = error.print();
                }
            }
            ExitCode::from(error.exit_code().try_into().unwrap_or(WRONG))
        }
    }
}

/// The error without clap's `error: ` and its usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn run(cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match &cli.command {
        None => match &cli.file {
            Some(file) if !file.exists() && usage::command_meant(file).is_some() => {
                let meant = usage::command_meant(file).unwrap_or_default();
                Err(clap::Error::raw(ErrorKind::InvalidSubcommand, meant).into())
            }
            Some(file) => commands::cmd_report::run(file, &cli.symbols, cli.format, output),
            None => anyhow::bail!("no capture was named: see gpumem-analyze --help"),
        },
        Some(Command::Summary(args)) => commands::cmd_summary::run(args, output),
        #[cfg(feature = "full")]
        Some(Command::Live(args)) => commands::cmd_live::run(args, output.terminal.colour),
        Some(Command::Lines(args)) => commands::cmd_lines::run(args, output),
        Some(Command::Oom(args)) => commands::cmd_oom::run(args, output),
        Some(Command::Fragmentation(args)) => commands::cmd_fragmentation::run(args, output),
        Some(Command::Leaks(args)) => commands::cmd_leaks::run(args, output),
        Some(Command::Ledger(args)) => commands::cmd_ledger::run(args, output),
        Some(Command::Changes(args)) => commands::cmd_changes::run(args, output),
        Some(Command::Diff(args)) => commands::cmd_diff::run(args, output),
        #[cfg(feature = "full")]
        Some(Command::Ci(args)) => commands::cmd_ci::run(args, output),
        Some(Command::Ranks(args)) => commands::cmd_ranks::run(args, output),
        #[cfg(feature = "full")]
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
        #[cfg(feature = "full")]
        Some(Command::Exporter(args)) => commands::cmd_exporter::run(args),
        Some(Command::Export(args)) => commands::cmd_export::run(args, output),
        Some(Command::Symbolize(args)) => commands::cmd_symbolize::run(args, output),
        Some(Command::Recover(args)) => commands::cmd_recover::run(args, output),
        Some(Command::Import(args)) => commands::cmd_import::run(args, output),
        Some(Command::Check(args)) => commands::cmd_check::run(args, output),
        #[cfg(feature = "full")]
        Some(Command::Mcp(args)) => commands::cmd_mcp::run(args),
        Some(Command::Completions { shell }) => {
            commands::cmd_shell::completions(*shell, Cli::command(), output)
        }
        Some(Command::Man {
            command,
            output: to,
        }) => commands::cmd_shell::man(Cli::command(), command, to.as_deref(), output),
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
