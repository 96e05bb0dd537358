//! `gpumem-analyze completions` and `gpumem-analyze man`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::exit::Exit;
use super::output::Output;
use crate::cli::Cli;

/// Prints a shell's completions.
pub fn completions(shell: Shell, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gpumem-analyze", &mut script);
    output.out.write_all(&script)?;
    Ok(Exit::Complete)
}

/// Prints the man page: the command's, and each subcommand's after it.
pub fn man(output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands() {
        let name = format!("gpumem-analyze-{}", subcommand.get_name());
        clap_mangen::Man::new(subcommand.clone())
            .title(name)
            .render(&mut page)?;
    }
    output.out.write_all(&page)?;
    Ok(Exit::Complete)
}
