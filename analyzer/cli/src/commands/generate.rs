//! `gpumem-analyze --generate`: manual pages and completions.

use std::path::Path;

use anyhow::Context as _;
use clap::{Command, ValueEnum as _};
use clap_complete::Shell;

use super::exit::Exit;
use super::output::Output;
use super::pivot::conflict;

const PROGRAM: &str = "gpumem-analyze";

/// A text about the command line.
#[derive(Clone, Debug)]
pub enum Generated {
    /// The manual page of a command, whose words are separated by `-`; empty: of the program.
    Man(String),
    /// A shell's completions.
    Complete(Shell),
}

/// Parses `man`, `man-lines` or `complete-bash`.
pub fn generated(text: &str) -> Result<Generated, String> {
    let shell = text.strip_prefix("complete-");
    let shell = shell.and_then(|name| Shell::from_str(name, false).ok());
    let page = text.strip_prefix("man").map(|of| match of {
        "" => Some(""),
        command => command.strip_prefix('-'),
    });
    (shell.map(Generated::Complete))
        .or_else(|| page.flatten().map(|of| Generated::Man(of.to_owned())))
        .ok_or_else(|| "expected man, man-COMMAND or complete-SHELL".into())
}

/// Prints the text, or writes the pages of all commands into a folder.
pub fn run(
    text: &Generated,
    mut line: Command,
    folder: Option<&Path>,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let mut made = Vec::new();
    if let Generated::Man(_) = text {
        line = line
            .disable_help_subcommand(true)
            .mut_subcommands(|of| of.disable_help_subcommand(true));
    }
    match (text, folder) {
        (Generated::Man(command), Some(folder)) if command.is_empty() => {
            line.build();
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(line, folder));
            written.with_context(|| format!("cannot write to {}", folder.display()))?;
            let done = format!("{}: wrote a page for each command\n", folder.display());
            output.text(&done)?;
        }
        (_, Some(_)) => {
            return Err(conflict(
                "--output goes with --generate man, which is all pages",
            ));
        }
        (Generated::Man(command), None) => {
            line.build();
            let page = page_of(&line, command)?;
            page.render(&mut made)?;
        }
        (Generated::Complete(shell), None) => {
            clap_complete::generate(*shell, &mut line, PROGRAM, &mut made);
        }
    }
    output.out.write_all(&made)?;
    Ok(Exit::Complete)
}

/// The manual page of a command.
fn page_of(line: &Command, command: &str) -> anyhow::Result<clap_mangen::Man> {
    let (mut of, mut name) = (line, PROGRAM.to_owned());
    for word in command.split('-').filter(|word| !word.is_empty()) {
        let found = of.find_subcommand(word);
        of = found.ok_or_else(|| {
            conflict(format!(
                "{} has no command {word}: see {PROGRAM} --help",
                name.replace('-', " ")
                    .replacen("gpumem analyze", PROGRAM, 1)
            ))
        })?;
        name.push('-');
        name.push_str(word);
    }
    Ok(clap_mangen::Man::new(of.clone()).title(name))
}
