//! The content of one column of a row, and how it is fitted to the column's width.

use gpumem_capture::text;
use textwrap::core::display_width;

use super::super::{Style, bar};

/// A text cell is not narrower than this while other cells can shrink.
pub(super) const LEAST: usize = 12;
/// The name at the end of a path is shown whole up to this width.
const NAME: usize = 28;
/// Folders are removed until this much of a note is visible.
const NOTED: usize = 24;
/// A note is not cut to less than this.
const NOTE: usize = 4;
/// A bar is not narrower than this while other cells can shrink.
const BAR: usize = 8;
/// The minimum width of a cell.
pub(super) const FLOOR: usize = 4;

/// A cell.
pub(super) struct Cell {
    pub content: Content,
    pub style: Option<Style>,
    /// How many columns the cell spans.
    pub span: usize,
    /// A text that keeps [`NAME`] columns while others can give way.
    pub kept: bool,
}

/// What a cell shows.
pub(super) enum Content {
    /// Text that is cut at its end.
    Text(String),
    /// A path that loses folders and is then cut at its start, followed by a note that is cut at its end.
    Place {
        indent: usize,
        path: String,
        note: String,
    },
    /// A bar of a part in a whole.
    Bar { part: u64, whole: u64, most: usize },
}

impl Cell {
    /// Text on one line.
    pub fn text(text: &str) -> Self {
        Self {
            content: Content::Text(text::clean(text).into_owned()),
            style: None,
            span: 1,
            kept: false,
        }
    }

    /// The width without cuts.
    pub fn natural(&self) -> usize {
        match &self.content {
            Content::Text(text) => display_width(text),
            Content::Place { indent, path, note } => {
                indent + display_width(path) + display_width(note)
            }
            Content::Bar { part, whole, most } => display_width(&bar(*part, *whole, *most)),
        }
    }

    /// The minimum width while other cells can shrink.
    pub fn least(&self) -> usize {
        let least = match &self.content {
            Content::Text(_) if self.kept => NAME,
            Content::Text(_) => LEAST,
            Content::Place { indent, path, .. } => {
                (indent + display_width(name_of(path)).min(NAME)).max(LEAST)
            }
            Content::Bar { .. } => BAR,
        };
        self.natural().min(least)
    }

    /// The text in a column of `width`, whose widest cell needs `column`.
    pub fn fitted(&self, width: usize, column: usize) -> String {
        match &self.content {
            Content::Text(text) => cut(text, width),
            Content::Place { indent, path, note } => {
                let blanks = " ".repeat((*indent).min(width));
                blanks + &place(path, note, width.saturating_sub(*indent))
            }
            Content::Bar { part, whole, most } => {
                let most = (*most * width).checked_div(column).unwrap_or(0);
                bar(*part, *whole, most.max(1))
            }
        }
    }

    /// The whole text; empty for a bar.
    pub fn whole(&self) -> String {
        match &self.content {
            Content::Text(text) => text.trim().to_owned(),
            Content::Place { path, note, .. } => format!("{path}{note}"),
            Content::Bar { .. } => String::new(),
        }
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.natural() == 0
    }
}

/// A path with as many of its folders as fit, and the remaining width for the note.
fn place(path: &str, note: &str, width: usize) -> String {
    let wanted = display_width(note).min(NOTED);
    let shown = shorter(path)
        .find(|path| display_width(path) + wanted <= width)
        .or_else(|| shorter(path).find(|path| display_width(path) <= width))
        .unwrap_or(name_of(path));
    let shown = cut_start(shown, width);
    let left = width.saturating_sub(display_width(&shown));
    // The remaining width is too small for a part of the note: only the path is shown.
    match left >= NOTE || display_width(note) <= left {
        true => shown + &cut(note, left),
        false => shown,
    }
}

/// A path, followed by ever shorter variants with fewer folders.
fn shorter(path: &str) -> impl Iterator<Item = &str> {
    let begins = path.match_indices('/').map(|(at, _)| at + 1);
    std::iter::once(0)
        .chain(begins)
        .filter_map(|begin| path.get(begin..))
        .filter(|path| !path.is_empty())
}

fn name_of(path: &str) -> &str {
    shorter(path).last().unwrap_or(path)
}

fn cut(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = display_width(c.encode_utf8(&mut [0; 4]));
        if used + next + 1 > width {
            break;
        }
        used += next;
        out.push(c);
    }
    out.push('…');
    out
}

fn cut_start(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let backwards: String = text.chars().rev().collect();
    cut(&backwards, width).chars().rev().collect()
}
