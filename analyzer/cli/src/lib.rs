//! `gpumem-analyze` as a library: a command line in, text and an exit code out.
//!
//! [`run`] knows the command line and no part of the process; `main` knows the process's streams, terminal and locale.
//! `live` and `mcp` take over the process. Start reading in `commands/cmd_leaks.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// Some code is used only by commands of the full build.
#![cfg_attr(not(feature = "full"), allow(dead_code))]

mod args;
mod cli;
mod commands;
#[cfg(feature = "budgets")]
#[doc(hidden)]
pub mod fuzzing;
pub mod locale;
mod renamed;
mod selection;
mod usage;

use std::ffi::OsString;
use std::io;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use gpumem_analyzer::ask::Wrong;
use gpumem_analyzer::attribution::OwnPackages;
use gpumem_analyzer::render::Colour;

use cli::{Cli, Command};
use commands::exit::Exit;
pub use commands::output::{Notes, Output};
#[cfg(feature = "full")]
#[doc(hidden)]
pub use commands::schemas;

/// The exit code for a wrong command line.
const WRONG: u8 = 2;

/// Runs a command line, whose first word is the program. Returns the exit code.
pub fn run(arguments: &[OsString], output: &mut Output<'_>) -> u8 {
    let colour = args::colour(arguments);
    if colour != Colour::Auto {
        output.terminal.colour = colour == Colour::Always;
        output.clap_colour = (output.terminal.colour, output.terminal.colour);
    }
    let (arguments, messages) = renamed::renamed(arguments);
    for message in messages {
        output.notes.say(message);
    }
    let arguments = &arguments[..];
    let cli = match parsed(arguments, output) {
        Ok(cli) => cli,
        Err(error) => return refused(arguments, &error, output),
    };
    args::set_budget(cli.max_memory);
    let global =
        (cli.source.permission()).and_then(|permission| Ok((permission, cli.code.packages()?)));
    match global {
        Ok((permission, packages)) => {
            gpumem_analyzer::source::permit(permission);
            OwnPackages::choose(packages);
        }
        Err(error) => {
            output.notes.say(first_line(&error));
            return WRONG;
        }
    }
    let result = command(&cli, output).and_then(|exit| {
        output.out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.code(),
        // The reader closed our output.
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => match wrong(error).downcast::<clap::Error>() {
            Ok(error) => {
                output.notes.say(first_line(&error));
                WRONG
            }
            Err(error) => {
                output.notes.say(format_args!("{error:#}"));
                1
            }
        },
    }
}

/// A request that the capture cannot answer is a wrong command line.
fn wrong(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Wrong>() {
        Ok(wrong) => {
            let list = match wrong {
                Wrong::NoThread(_) => ": `gpumem-analyze lines --by thread` lists its threads",
                _ => "",
            };
            clap::Error::raw(ErrorKind::InvalidValue, format!("{wrong}{list}")).into()
        }
        Err(error) => error,
    }
}

fn parsed(arguments: &[OsString], output: &Output<'_>) -> Result<Cli, clap::Error> {
    let mut line = Cli::command();
    if let Some(width) = output.terminal.width {
        line = line.term_width(width);
    }
    let found = line.try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&found)?;
    match usage::before_command(&cli) {
        Some(what) => Err(clap::Error::raw(ErrorKind::ArgumentConflict, what)),
        None => Ok(cli),
    }
}

/// A wrong command line, or one that requests help.
fn refused(arguments: &[OsString], error: &clap::Error, output: &mut Output<'_>) -> u8 {
    if let Some(meant) = usage::meant(arguments, error) {
        output.notes.say(meant);
        return WRONG;
    }
    match usage::plainly(arguments, error) {
        Some(text) => output.notes.say(text),
        None => print(error, output),
    }
    error.exit_code().try_into().unwrap_or(WRONG)
}

/// Prints clap's text.
fn print(error: &clap::Error, output: &mut Output<'_>) {
    let text = error.render();
    let (on_out, in_notes) = output.clap_colour;
    let (to, has_colour): (&mut dyn io::Write, _) = match error.use_stderr() {
        true => (output.notes.0, in_notes),
        false => (output.out, on_out),
    };
    let _ = match has_colour {
        true => write!(to, "{}", text.ansi()),
        false => write!(to, "{text}"),
    };
    let _ = to.flush();
}

/// The error without clap's `error: ` and its usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn command(cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    if let Some(text) = &cli.generate {
        return commands::generate::run(text, Cli::command(), cli.output.as_deref(), output);
    }
    match &cli.command {
        None => match &cli.file {
            Some(file) if !file.exists() && usage::command_meant(file).is_some() => {
                let meant = usage::command_meant(file).unwrap_or_default();
                Err(clap::Error::raw(ErrorKind::InvalidSubcommand, meant).into())
            }
            Some(file) => commands::cmd_report::run(file, &cli.symbols, cli.format, output),
            None => anyhow::bail!("no capture was named: see gpumem-analyze --help"),
        },
        Some(Command::Report(args)) => args.run(output),
        #[cfg(feature = "full")]
        Some(Command::Live(args)) => commands::cmd_live::run(args, output),
        Some(Command::Lines(args)) => commands::cmd_lines::run(args, output),
        Some(Command::Oom(args)) => commands::cmd_oom::run(args, output),
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
        Some(Command::Timeline(args)) => commands::cmd_timeline::run(args, output),
        Some(Command::Html(args)) => commands::cmd_html::run(args, output),
        Some(Command::Tree(args)) => commands::cmd_tree::run(args, output),
        Some(Command::Export(args)) => commands::cmd_export::run(args, output),
        Some(Command::Import(args)) => commands::cmd_import::run(args, output),
        Some(Command::Check(args)) => commands::cmd_check::run(args, output),
        #[cfg(feature = "full")]
        Some(Command::Mcp(args)) => commands::cmd_mcp::run(args),
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
