//! Styles for this terminal.

use gpumem_analyzer::ranks::Part;
use ratatui::style::{Color, Modifier, Style};

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours, from the terminal's own palette.
    pub has_colour: bool,
    /// Characters beyond ASCII.
    pub has_unicode: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::DarkGray),
            false => Style::new().add_modifier(Modifier::DIM),
        }
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A part of the chart: its style and fill character.
    pub(super) fn part(self, part: Part) -> (Style, char) {
        match part {
            Part::Tensors => (self.colour(Color::Cyan), self.either('█', '#')),
            Part::Reserved => (self.colour(Color::Blue), self.either('▒', '=')),
            Part::Process => (self.colour(Color::Magenta), self.either('░', '-')),
        }
    }

    /// The style of the selected column of the chart.
    pub(super) fn marked(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn marker(self) -> &'static str {
        match self.has_unicode {
            true => "│",
            false => "|",
        }
    }

    pub(super) fn dot(self) -> &'static str {
        match self.has_unicode {
            true => " · ",
            false => " - ",
        }
    }

    pub(super) fn either(self, unicode: char, ascii: char) -> char {
        match self.has_unicode {
            true => unicode,
            false => ascii,
        }
    }
}
