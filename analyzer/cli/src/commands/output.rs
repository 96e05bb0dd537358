//! Where results go: standard output, or files that are written whole or not at all.

use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gpumem_analyzer::render::Terminal;
use gpumem_analyzer::replay::Sampling;
use serde::Serialize;

use crate::locale::{ascii, wants_ascii};

/// What commands print to.
pub struct Output<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// What it is.
    pub terminal: Terminal,
}

impl Output<'_> {
    /// Prints text, its long lines wrapped on a terminal.
    pub fn text(&mut self, text: &str) -> anyhow::Result<()> {
        let text = self.terminal.wrap(text);
        match wants_ascii() {
            true => self.out.write_all(ascii(&text).as_bytes())?,
            false => self.out.write_all(text.as_bytes())?,
        }
        Ok(())
    }

    /// Prints an object as JSON, indented, with a line end; marked where it comes from sampled stacks.
    pub fn json(
        &mut self,
        sampling: Option<Sampling>,
        object: &impl Serialize,
    ) -> anyhow::Result<()> {
        match sampling {
            None => self.value(object),
            Some(_) => self.value(&Marked::new(sampling, object)),
        }
    }

    /// Prints a list of objects, each of them marked.
    pub fn json_rows<T: Serialize>(
        &mut self,
        sampling: Option<Sampling>,
        rows: &[T],
    ) -> anyhow::Result<()> {
        match sampling {
            None => self.value(&rows),
            Some(_) => {
                let marked = rows.iter().map(|row| Marked::new(sampling, row));
                self.value(&marked.collect::<Vec<_>>())
            }
        }
    }

    fn value(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Writes a whole file and says so: its name and `said`; where the file is `-`, prints its contents.
    pub fn deliver(&mut self, to: &Path, contents: &[u8], said: &str) -> anyhow::Result<()> {
        if to == Path::new("-") {
            self.out.write_all(contents)?;
            return Ok(());
        }
        write_file(to, contents).with_context(|| format!("cannot write {}", to.display()))?;
        self.text(&format!("{}: {said}\n", to.display()))
    }
}

/// An object with the mark that its figures by stack are estimates.
#[derive(Serialize)]
struct Marked<'a, T> {
    /// Mean distance in allocated bytes of those tensors whose stacks were taken.
    stack_sample_bytes: Option<NonZeroU64>,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T> Marked<'a, T> {
    fn new(sampling: Option<Sampling>, object: &'a T) -> Self {
        Self {
            stack_sample_bytes: sampling.map(|sampling| sampling.mean),
            object,
        }
    }
}

/// Writes a file in one go: a browser that has it open never sees half of it.
///
/// # Errors
/// The system's.
pub fn write_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    // Only an ordinary file can be put in another's place; pipes and devices are written to.
    if path.symlink_metadata().is_ok_and(|facts| !facts.is_file()) {
        return std::fs::write(path, contents);
    }
    in_its_place(path, |part| std::fs::write(part, contents))
}

/// Has a file written under another name, and then puts it in the place of `path`: whole or not at all.
///
/// # Errors
/// What `write` says, or the system's.
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

/// Where what is made of a capture goes: `report.rank0.bin` → `report.rank0.svg`.
pub fn beside(file: &Path, suffix: &str) -> PathBuf {
    if file.extension().is_some_and(|extension| extension == "bin") {
        return file.with_extension(suffix);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The file's name as the report's first word.
pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
