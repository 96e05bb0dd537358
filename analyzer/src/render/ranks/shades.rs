//! Cells of a heatmap as text: colours, blocks or letters.

use crate::render::{Style, Terminal};

/// How cells are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// Full blocks in colours of the 256-colour table.
    Colours,
    /// Blocks of eight heights.
    Blocks,
    /// ASCII, the darkest letter last.
    Letters,
}

/// From dark blue to yellow: colours that every 256-colour terminal has.
const COLOURS: [u8; 15] = [
    17, 18, 19, 25, 31, 37, 36, 35, 71, 107, 143, 179, 215, 221, 227,
];
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LETTERS: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

impl Cells {
    /// By the locale's character set and the number of colours of the terminal.
    pub fn of(terminal: Terminal, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
        let set = set.filter_map(&variable).find(|value| !value.is_empty());
        let set = set.unwrap_or_default().to_ascii_lowercase();
        let is_wide = ["utf-8", "utf8"].iter().any(|name| set.contains(name));
        let has = |name, part| variable(name).is_some_and(|value| value.contains(part));
        let colours = has("TERM", "256color") || has("COLORTERM", "");
        match (is_wide, terminal.colour && colours) {
            (false, _) => Self::Letters,
            (true, true) => Self::Colours,
            (true, false) => Self::Blocks,
        }
    }

    /// The number of shades, without the empty one.
    fn count(self) -> usize {
        match self {
            Self::Colours => COLOURS.len(),
            Self::Blocks | Self::Letters => BLOCKS.len(),
        }
    }

    /// The shade of a figure. Only 0 has shade 0, and only figures within the last step have the last shade.
    fn shade(self, bytes: u64, most: u64) -> usize {
        let shades = u128::from(bytes) * self.count() as u128;
        (shades.div_ceil(u128::from(most.max(1))) as usize).min(self.count())
    }

    /// A row of cells; `None` is blank.
    pub fn row(self, cells: &[Option<u64>], most: u64, terminal: Terminal) -> String {
        let shades: Vec<usize> = cells
            .iter()
            .map(|cell| cell.map_or(0, |bytes| self.shade(bytes, most)))
            .collect();
        let runs = shades.chunk_by(|a, b| a == b);
        runs.map(|run| self.run(run, terminal)).collect()
    }

    fn run(self, shades: &[usize], terminal: Terminal) -> String {
        let shade = shades.first().copied().unwrap_or(0);
        let Some(index) = shade.checked_sub(1) else {
            return " ".repeat(shades.len());
        };
        let of = |all: &[char]| -> String {
            let cell = all.get(index).copied().unwrap_or(' ');
            std::iter::repeat_n(cell, shades.len()).collect()
        };
        match self {
            Self::Colours => {
                let colour = COLOURS.get(index).copied().unwrap_or(0);
                format!("\x1b[38;5;{colour}m{}\x1b[0m", "█".repeat(shades.len()))
            }
            Self::Blocks => terminal.paint(Style::Bar, &of(&BLOCKS)),
            Self::Letters => of(&LETTERS),
        }
    }

    /// All shades, the lightest first.
    pub fn scale(self, terminal: Terminal) -> String {
        (1..=self.count())
            .map(|shade| self.run(&[shade], terminal))
            .collect()
    }

    /// The mark at the end of a rank that died.
    pub fn died(self) -> char {
        match self {
            Self::Letters => 'x',
            Self::Colours | Self::Blocks => '✕',
        }
    }

    /// The mark of a time below a row.
    pub fn tick(self) -> char {
        match self {
            Self::Letters => '|',
            Self::Colours | Self::Blocks => '╵',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(colour: bool, set: &[(&str, &str)]) -> Cells {
        let terminal = Terminal {
            width: Some(80),
            colour,
        };
        Cells::of(terminal, |name| {
            let found = set.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn cells_are_what_the_terminal_has() {
        let utf8 = ("LANG", "en_US.UTF-8");
        assert_eq!(cells(false, &[utf8]), Cells::Blocks);
        assert_eq!(cells(true, &[utf8]), Cells::Blocks);
        assert_eq!(
            cells(true, &[utf8, ("TERM", "xterm-256color")]),
            Cells::Colours
        );
        assert_eq!(
            cells(false, &[utf8, ("TERM", "xterm-256color")]),
            Cells::Blocks
        );
        assert_eq!(cells(true, &[utf8, ("LC_ALL", "C")]), Cells::Letters);
        assert_eq!(cells(true, &[utf8, ("LC_ALL", "")]), Cells::Blocks);
        assert_eq!(cells(true, &[("LC_CTYPE", "C.utf8")]), Cells::Blocks);
        assert_eq!(cells(false, &[]), Cells::Letters);
    }

    #[test]
    fn the_last_shade_is_the_greatest_and_none_is_nothing() {
        let row = |cells: &[Option<u64>]| Cells::Letters.row(cells, 800, Terminal::PLAIN);
        assert_eq!(
            row(&[
                None,
                Some(0),
                Some(1),
                Some(100),
                Some(101),
                Some(700),
                Some(701),
                Some(800)
            ]),
            "  ..:#@@"
        );
        assert_eq!(Cells::Blocks.scale(Terminal::PLAIN), "▁▂▃▄▅▆▇█");
        assert_eq!(
            Cells::Blocks.row(&[Some(u64::MAX), None], u64::MAX, Terminal::PLAIN),
            "█ "
        );
        let colours = Cells::Colours.row(&[Some(1), Some(1), Some(800)], 800, Terminal::PLAIN);
        assert_eq!(colours, "\x1b[38;5;17m██\x1b[0m\x1b[38;5;227m█\x1b[0m");
    }
}
