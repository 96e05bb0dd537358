//! Suggestions for wrong command lines.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::args::Format;
use crate::cli::Cli;
use crate::renamed::{old_names, renamed};

/// Commands that are left out of builds without the feature `full`.
const OF_FULL_BUILDS: [&str; 4] = ["ci", "fleet", "live", "mcp"];
/// The similarity from which two words count as the same.
const ALIKE: f64 = 0.8;
/// A view with the options that users often pass to the report.
const USUAL: &str = "lines";

/// One line with a command line that would have worked, and the exit code; `None`: clap's own message is sufficient.
pub fn meant(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return None;
    }
    if arguments.get(1).is_some_and(|word| is_left_out(word)) {
        return None;
    }
    let found = guesses(arguments).into_iter().find(|guess| works(guess))?;
    let wrong = said(arguments);
    let better = said(&found);
    Some(format!(
        "`{wrong}` is not a valid command line: did you mean `{better}`?"
    ))
}

/// An error for arguments before a command. Clap would accept them as the report's.
pub fn before_command(cli: &Cli) -> Option<String> {
    if cli.generate.is_some() && (cli.command.is_some() || cli.file.is_some()) {
        return Some("--generate needs no command and no capture: use --generate man-COMMAND for the page of a command".into());
    }
    cli.command.as_ref()?;
    let symbols = &cli.symbols;
    let has_symbols =
        !symbols.debug_dir.is_empty() || !symbols.symbols.is_empty() || symbols.sysroot.is_some();
    match &cli.file {
        Some(file) => Some(format!(
            "{} is before the command: put it after the command",
            file.display()
        )),
        None => (has_symbols || cli.format == Format::Json || cli.output.is_some())
            .then(|| "put the options of a command after the command".to_owned()),
    }
}

/// One line for errors that clap describes in many lines or in a misleading way.
pub fn plainly(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::ArgumentConflict if error.context().next().is_none() => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Some(line.trim_start_matches("error: ").to_owned())
        }
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
            let first = arguments.get(1)?.to_str()?;
            if is_left_out(first.as_ref()) {
                return Some(format!(
                    "this gpumem-analyze was built without {first}: build all of it with cargo build --release -p gpumem-analyze"
                ));
            }
            let is_word = !first.starts_with('-') && !is_command(first.as_ref());
            (is_word && !Path::new(first).exists()).then(|| {
                format!(
                    "no file or command is named {first}: gpumem-analyze --help lists the commands"
                )
            })
        }
        _ => None,
    }
}

/// The same for a report on a missing file whose name is similar to a command's.
pub fn command_meant(file: &Path) -> Option<String> {
    let name = file.to_str()?;
    let line = [
        "gpumem-analyze".into(),
        command_like(name)?.into(),
        "report.bin".into(),
    ];
    let (line, _) = renamed(&line);
    Some(format!(
        "no file or command is named {name}: did you mean `{}`?",
        said(&line)
    ))
}

fn works(arguments: &[OsString]) -> bool {
    Cli::try_parse_from(arguments).is_ok_and(|cli| before_command(&cli).is_none())
}

/// Whether this build lacks a command.
fn is_left_out(word: &OsStr) -> bool {
    !cfg!(feature = "full") && OF_FULL_BUILDS.iter().any(|name| *name == word)
}

/// Similar command lines, the most similar first.
fn guesses(arguments: &[OsString]) -> Vec<Vec<OsString>> {
    let with_format = format_of(arguments);
    let mut guesses = Vec::new();
    for line in [arguments, &with_format] {
        guesses.push(line.to_vec());
        guesses.extend(command_first(line));
        guesses.extend(command_mended(line));
        let has_command = line.iter().skip(1).any(|word| is_command(word));
        let mut usual = line.to_vec();
        if !has_command && line.len() > 1 {
            usual.insert(1, USUAL.into());
            guesses.push(usual);
        }
    }
    guesses.retain(|guess| guess != arguments);
    guesses.iter().map(|line| renamed(line).0).collect()
}

/// `--json` → `--format json`.
fn format_of(arguments: &[OsString]) -> Vec<OsString> {
    let mended = arguments.iter().flat_map(|argument| {
        let argument = argument.clone();
        match argument.to_str() {
            Some("--json") => vec!["--format".into(), "json".into()],
            Some("--text") => vec!["--format".into(), "text".into()],
            _ => vec![argument],
        }
    });
    mended.collect()
}

/// `report.bin lines` → `lines report.bin`.
fn command_first(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let at = arguments
        .iter()
        .skip(1)
        .position(|argument| is_command(argument))?;
    let mut moved = arguments.to_vec();
    let command = moved.remove(at + 1);
    moved.insert(1, command);
    Some(moved)
}

/// `line report.bin` → `lines report.bin`, also in the wrong place.
fn command_mended(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let words = arguments.iter().enumerate().skip(1);
    let mut words = words.filter(|(_, word)| !Path::new(word).exists());
    let (at, command) = words.find_map(|(at, word)| Some((at, command_like(word.to_str()?)?)))?;
    let mut mended = arguments.to_vec();
    mended.remove(at);
    mended.insert(1, command.into());
    Some(mended)
}

fn is_command(word: &OsStr) -> bool {
    let line = Cli::command();
    line.get_subcommands().any(|of| of.get_name() == word) || old_names().any(|name| name == word)
}

/// The command with a similar name.
fn command_like(word: &str) -> Option<String> {
    if word.starts_with('-') {
        return None;
    }
    let line = Cli::command();
    let names = line.get_subcommands().map(|of| of.get_name().to_owned());
    let alike = names
        .chain(old_names().map(str::to_owned))
        .map(|name| (strsim::jaro_winkler(&name, word), name));
    let best = alike.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= ALIKE).then_some(best.1)
}

/// The command line as a shell reads it.
fn said(arguments: &[OsString]) -> String {
    let words = arguments.iter().enumerate().map(|(at, word)| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
        match at {
            0 => "gpumem-analyze".to_owned(),
            _ if !word.is_empty() && word.chars().all(plain) => word.into_owned(),
            _ => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
