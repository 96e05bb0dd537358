//! What the output goes to, and colour.

use std::io::IsTerminal as _;

/// What the output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns; `None` where nothing is to be cut.
    pub width: Option<usize>,
    /// Whether to colour.
    pub colour: bool,
}

impl Terminal {
    /// A pipe or a file: nothing cut, nothing coloured.
    pub const PLAIN: Self = Self {
        width: None,
        colour: false,
    };

    /// Standard output as it is; `NO_COLOR` and `TERM=dumb` are honoured.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            width,
            colour: !refused,
        }
    }

    /// `text` in a style, or as it is where there is no colour.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Strong,
    /// What is of less interest.
    Faint,
    /// Things that are well.
    Good,
    /// Things that are not.
    Bad,
    /// Bars.
    Bar,
}

impl Style {
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
}
