//! Output to standard output, or to files that are written completely or not at all.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gpumem_analyzer::ask;
use gpumem_analyzer::envelope::{Captures, Envelope, Formed};
use gpumem_analyzer::render::{Source, Style, Terminal};
use gpumem_analyzer::source::Withheld;
use gpumem_capture::text;
use gpumem_files::write::{self, By};
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
        let what = what.to_string();
        let _ = writeln!(self.0, "gpumem-analyze: {}", text::clean(&what));
    }
}

impl Output<'_> {
    /// Prints text, its long lines wrapped on a terminal.
    pub fn text(&mut self, text: &str) -> anyhow::Result<()> {
        let text = printable(text, self.terminal);
        // Some characters are wider in ASCII, such as arrows.
        let text = match self.is_ascii {
            true => ascii(&text),
            false => text,
        };
        Ok(self.out.write_all(self.terminal.wrap(&text).as_bytes())?)
    }

    /// Prints text unchanged, for programs.
    pub fn raw(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// On a terminal, prints why no line of source was shown, if none was.
    pub fn about_source(&mut self, source: &Source) -> anyhow::Result<()> {
        let advice = source.withheld().and_then(Withheld::advice);
        match advice.filter(|_| self.is_terminal) {
            Some(advice) => self.text(&format!("\n{advice}\n")),
            None => Ok(()),
        }
    }

    /// Prints a result as indented JSON, with a final newline.
    pub fn json<V: Formed + Serialize>(
        &mut self,
        captures: &Captures,
        found: &V,
    ) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, &Envelope { captures, found })?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Writes a file and prints its name and `said`; if the file is `-`, prints the contents.
    pub fn deliver(&mut self, to: &To, contents: &[u8], said: &str) -> anyhow::Result<()> {
        if to.path == Path::new("-") {
            self.out.write_all(contents)?;
            return Ok(());
        }
        to.write(contents)?;
        self.text(&format!("{}: {said}\n", to.path.display()))
    }
}

/// Text with no escape sequences but those of [`Terminal::paint`]. Text from captures has none; names of files may.
fn printable(text: &str, terminal: Terminal) -> Cow<'_, str> {
    if !text.contains('\x1b') || !terminal.colour {
        return text::clean_lines(text);
    }
    let mut parts = text.split('\x1b');
    let mut out = text::clean_lines(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let style = Style::sequences().find(|style| part.starts_with(style.as_str()));
        let (style, rest) = part.split_at(style.map_or(0, |style| style.len()));
        out.push(if style.is_empty() { '\u{fffd}' } else { '\x1b' });
        out.push_str(style);
        out.push_str(&text::clean_lines(rest));
    }
    out.into()
}

/// Where a command writes its result.
pub struct To {
    /// The path.
    pub path: PathBuf,
    /// Who chose it.
    pub by: By,
}

impl To {
    /// What the user named.
    pub fn named(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            by: By::User,
        }
    }

    /// What the user named, or the name that the command chooses.
    pub fn new(named: Option<&Path>, chosen: impl FnOnce() -> PathBuf) -> Self {
        named.map_or_else(
            || Self {
                path: chosen(),
                by: By::Command,
            },
            Self::named,
        )
    }

    /// Fails if a capture would be overwritten.
    pub fn check(&self) -> anyhow::Result<()> {
        match ask::header(&self.path) {
            Ok(_) => anyhow::bail!(
                "cannot write {}: it is a capture: name another file with -o",
                self.path.display()
            ),
            Err(_) => Ok(()),
        }
    }

    /// Writes the whole file.
    pub fn write(&self, contents: &[u8]) -> anyhow::Result<()> {
        self.check()?;
        write::whole(&self.path, self.by, contents).with_context(|| self.refused())
    }

    /// What an error is about.
    pub fn refused(&self) -> String {
        match self.by {
            By::User => format!("cannot write {}", self.path.display()),
            By::Command => format!(
                "cannot write {} (-o names another file)",
                self.path.display()
            ),
        }
    }
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
    let name = path.file_name().unwrap_or(path.as_os_str());
    text::clean(&name.to_string_lossy()).into_owned()
}

/// A path in a command line that is proposed, quoted for a shell where that is necessary.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_styles_are_printed_as_escape_sequences() {
        let colours = Terminal {
            colour: true,
            ..Terminal::PLAIN
        };
        for (text, expected) in [
            ("a\nb", "a\nb"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[2J\x1b]0;t\x07", "\u{fffd}[2J\u{fffd}]0;t\u{fffd}"),
            ("\x1b[8mhidden", "\u{fffd}[8mhidden"),
            ("\x1b[0m\r\x1b[", "\x1b[0m\u{fffd}\u{fffd}["),
            ("\x1b", "\u{fffd}"),
        ] {
            assert_eq!(printable(text, colours), expected, "{text:?}");
        }
        let plain = printable("\x1b[1;31mred", Terminal::PLAIN);
        assert_eq!(plain, "\u{fffd}[1;31mred");
    }
}
