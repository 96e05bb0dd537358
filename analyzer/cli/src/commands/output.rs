//! Output to standard output, or to files that are written completely or not at all.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gpumem_analyzer::envelope::{Captures, Envelope, View};
use gpumem_analyzer::render::Terminal;
use serde::Serialize;

use crate::locale::ascii;

/// The output of commands.
pub struct Output<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub notes: Notes<'a>,
    /// Width and colour of `out`. The option `--color` changes the colour.
    pub terminal: Terminal,
    /// Whether `out` is a terminal.
    pub is_terminal: bool,
    /// Whether text must be ASCII.
    pub is_ascii: bool,
    /// Whether clap colours help on `out`, and errors in `notes`. The option `--color` changes both.
    pub clap_colour: (bool, bool),
}

impl<'a> Output<'a> {
    /// To pipes or files.
    pub fn plain(out: &'a mut dyn Write, notes: &'a mut dyn Write) -> Self {
        Self {
            out,
            notes: Notes(notes),
            terminal: Terminal::PLAIN,
            is_terminal: false,
            is_ascii: false,
            clap_colour: (false, false),
        }
    }
}

/// Messages beside the result, one line each.
pub struct Notes<'a>(pub &'a mut dyn Write);

impl Notes<'_> {
    /// Writes a message. Errors are ignored, because there is no other place for it.
    pub fn say(&mut self, what: impl Display) {
        let _ = writeln!(self.0, "gpumem-analyze: {what}");
    }
}

impl Output<'_> {
    /// Prints text, its long lines wrapped on a terminal.
    pub fn text(&mut self, text: &str) -> anyhow::Result<()> {
        // Some characters are wider in ASCII, such as arrows.
        let text = match self.is_ascii {
            true => ascii(text),
            false => text.into(),
        };
        Ok(self.out.write_all(self.terminal.wrap(&text).as_bytes())?)
    }

    /// Prints text unchanged, for programs.
    pub fn raw(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Prints a result as indented JSON, with a final newline.
    pub fn json<V: View + Serialize>(
        &mut self,
        captures: &Captures,
        found: &V,
    ) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, &Envelope { captures, found })?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Writes a file and prints its name and `said`; if the file is `-`, prints the contents.
    pub fn deliver(&mut self, to: &Path, contents: &[u8], said: &str) -> anyhow::Result<()> {
        if to == Path::new("-") {
            self.out.write_all(contents)?;
            return Ok(());
        }
        write_file(to, contents).with_context(|| format!("cannot write {}", to.display()))?;
        self.text(&format!("{}: {said}\n", to.display()))
    }
}

/// Writes a file atomically: a browser that has it open never reads a part of it.
///
/// # Errors
/// The system's.
pub fn write_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    // Only a regular file can be replaced; pipes and devices are written to.
    if path.symlink_metadata().is_ok_and(|facts| !facts.is_file()) {
        return std::fs::write(path, contents);
    }
    in_its_place(path, |part| std::fs::write(part, contents))
}

/// Calls `write` with a temporary name, and then renames the file to `path`: it is replaced completely or not at all.
///
/// # Errors
/// Those of `write`, or the system's.
pub fn in_its_place<T, E: From<std::io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    let written = write(part).and_then(|said| {
        std::fs::rename(part, path)?;
        Ok(said)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(part);
    }
    written
}

/// The name of a file made from a capture: `report.rank0.bin` → `report.rank0.svg`.
pub fn beside(file: &Path, suffix: &str) -> PathBuf {
    if file.extension().is_some_and(|extension| extension == "bin") {
        return file.with_extension(suffix);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The file's name, which begins the report.
pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
