//! The destination of output, and colour.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal as _;

use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless environment variables override it.
    #[default]
    Auto,
    /// Also in pipes and files.
    Always,
    /// Nowhere.
    Never,
}

impl Colour {
    /// By the option, then `NO_COLOR`, `FORCE_COLOR`, and whether it is a terminal with colours.
    fn is_wanted(self, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
        let is_set = |name| env(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if is_set("NO_COLOR") => false,
            Self::Auto if is_set("FORCE_COLOR") => env("FORCE_COLOR").is_some_and(|of| of != "0"),
            Self::Auto => is_terminal && env("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}

/// The destination of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns; `None` if lines are not cut.
    pub width: Option<usize>,
    /// Whether to colour.
    pub colour: bool,
}

impl Terminal {
    /// A pipe or a file: no cuts, no colour.
    pub const PLAIN: Self = Self {
        width: None,
        colour: false,
    };

    /// From standard output.
    pub fn of_stdout(colour: Colour) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let width = match is_terminal {
            true => terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)),
            false => None,
        };
        Self {
            width,
            colour: colour.is_wanted(is_terminal, |name| std::env::var_os(name)),
        }
    }

    /// Wraps lines that are wider than the terminal at blanks, and indents them from the second line on. Words that
    /// are wider are not broken.
    pub fn wrap<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(width) = self.width else {
            return text.into();
        };
        if text.lines().all(|line| display_width(line) <= width) {
            return text.into();
        }
        let lines = text.split_inclusive('\n').map(|line| {
            let content = line.trim_end_matches('\n');
            if display_width(content) <= width {
                return Cow::Borrowed(line);
            }
            let text = content.trim_start_matches(' ');
            let before = &content[..content.len() - text.len()];
            let indent = " ".repeat(indent(content).min(width / 2));
            let options = Options::new(width)
                .initial_indent(before)
                .subsequent_indent(&indent)
                .break_words(false)
                .word_separator(WordSeparator::AsciiSpace)
                .word_splitter(WordSplitter::NoHyphenation)
                .wrap_algorithm(WrapAlgorithm::FirstFit);
            let end = &line[content.len()..];
            Cow::Owned(textwrap::wrap(text, options).join("\n") + end)
        });
        lines.collect::<String>().into()
    }

    /// `text` in a style; unchanged without colour.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

/// The maximum width of a label.
const LABEL: usize = 16;
/// The indentation of continuation lines.
const STEP: usize = 2;

/// The indentation of continuation lines: below the text after the label, if the line has one.
fn indent(line: &str) -> usize {
    let before = line.len() - line.trim_start_matches(' ').len();
    if before >= LABEL / 2 {
        return before;
    }
    let label = line.find("   ").filter(|_| before == 0);
    let behind = label.map(|at| {
        let blanks = line[at..].chars().take_while(|c| *c == ' ').count();
        display_width(&line[..at]) + blanks
    });
    behind
        .filter(|column| *column <= LABEL)
        .unwrap_or(before + STEP)
}

/// The emphasis of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Strong,
    /// Less important text.
    Faint,
    /// Good results.
    Good,
    /// Bad results.
    Bad,
    /// Bars.
    Bar,
}

impl Style {
    /// What follows ESC in the sequences of all styles, and of their end.
    pub fn sequences() -> impl Iterator<Item = String> {
        let all = [Self::Strong, Self::Faint, Self::Good, Self::Bad, Self::Bar];
        let codes = all.into_iter().map(Self::code).chain(["0"]);
        codes.map(|code| format!("[{code}m"))
    }

    fn code(self) -> &'static str {
        match self {
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Bad => "1;31",
            Self::Bar => "36",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_only_for_terminals() {
        assert_eq!(Terminal::PLAIN.paint(Style::Bad, "no"), "no");
        let colour = Terminal {
            width: None,
            colour: true,
        };
        assert_eq!(colour.paint(Style::Good, "yes"), "\x1b[32myes\x1b[0m");
        assert_eq!(colour.paint(Style::Good, ""), "");
    }

    #[test]
    fn what_is_asked_for_counts_before_the_environment() {
        let env = |set: &'static [(&str, &str)]| {
            move |name: &str| {
                let found = set.iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| OsString::from(value))
            }
        };
        let auto = Colour::Auto;
        assert!(auto.is_wanted(true, env(&[])) && !auto.is_wanted(false, env(&[])));
        assert!(!auto.is_wanted(true, env(&[("NO_COLOR", "1"), ("FORCE_COLOR", "1")])));
        assert!(auto.is_wanted(true, env(&[("NO_COLOR", "")])));
        assert!(auto.is_wanted(false, env(&[("FORCE_COLOR", "1")])));
        assert!(!auto.is_wanted(true, env(&[("FORCE_COLOR", "0")])));
        assert!(!auto.is_wanted(true, env(&[("TERM", "dumb")])));
        assert!(Colour::Always.is_wanted(false, env(&[("NO_COLOR", "1")])));
        assert!(!Colour::Never.is_wanted(true, env(&[("FORCE_COLOR", "1")])));
    }

    #[test]
    fn long_lines_are_wrapped_on_a_terminal() {
        let terminal = |width| Terminal {
            width,
            colour: true,
        };
        let label = terminal(None).paint(Style::Strong, "account");
        let text = format!(
            "{label}   one two three\n    → four five six\nlonger-than-a-line\n█░█░█░█░█░█░█░█ \n"
        );
        assert_eq!(terminal(None).wrap(&text), text);
        assert_eq!(terminal(Some(80)).wrap(&text), text);
        assert_eq!(
            terminal(Some(16)).wrap(&text),
            format!(
                "{label}   one\n{0}two\n{0}three\n    → four five\n      six\nlonger-than-a-line\n█░█░█░█░█░█░█░█ \n",
                " ".repeat(8)
            )
        );
    }
}
