//! `gpumem-analyze completions` and `gpumem-analyze man`.

use std::path::Path;

use anyhow::Context as _;
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

/// Prints the manual page of a command, or writes those of all commands into a folder.
pub fn man(
    mut line: Command,
    command: &[String],
    folder: Option<&Path>,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    line.build();
    if let Some(folder) = folder {
        let made =
            std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(line, folder));
        made.with_context(|| format!("cannot write to {}", folder.display()))?;
        output.text(&format!(
            "{}: wrote a page for each command\n",
            folder.display()
        ))?;
        return Ok(Exit::Complete);
    }
    let mut of = &line;
    let mut name = "gpumem-analyze".to_owned();
    for word in command {
        let found = of.find_subcommand(word);
        of = found.with_context(|| format!("{name} has no command {word}: see {name} --help"))?;
        name.push('-');
        name.push_str(word);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(of.clone())
        .title(name)
        .render(&mut page)?;
    output.out.write_all(&page)?;
    Ok(Exit::Complete)
}
