//! `gpumem-analyze completions` and `gpumem-analyze man`.

use clap::Command;
use clap_complete::Shell;

use super::exit::Exit;
use super::output::Output;

/// Prints a shell's completions of the command line.
pub fn completions(
    shell: Shell,
    mut line: Command,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut line, "gpumem-analyze", &mut script);
    output.out.write_all(&script)?;
    Ok(Exit::Complete)
}

/// Prints the man page: the command's, and each subcommand's after it.
pub fn man(mut line: Command, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let mut page = Vec::new();
    line.build();
    clap_mangen::Man::new(line.clone()).render(&mut page)?;
    for subcommand in line.get_subcommands() {
        let name = format!("gpumem-analyze-{}", subcommand.get_name());
        clap_mangen::Man::new(subcommand.clone())
            .title(name)
            .render(&mut page)?;
    }
    output.out.write_all(&page)?;
    Ok(Exit::Complete)
}
