//! The state of a folder's view, and how keys change it.

use std::path::PathBuf;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frames::FolderRow;

/// The order of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FolderSort {
    /// By rank.
    #[default]
    Rank,
    /// Those that differ most from their peers first.
    Difference,
    /// Those with the highest peak of tensors first.
    Peak,
}

impl FolderSort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Difference => "difference",
            Self::Peak => "peak",
        }
    }
}

/// The state of a folder's view.
#[derive(Default)]
pub struct FolderApp {
    /// The order.
    pub sort: FolderSort,
    /// Whether the view is to end.
    pub is_over: bool,
    /// Whether the keys are on the screen instead of the rows.
    pub is_help: bool,
    /// A capture whose own view is to be opened.
    pub entered: Option<PathBuf>,
    pub(super) rows: Vec<FolderRow>,
    /// The selected capture; it stays selected when rows move.
    pub(super) selected: Option<PathBuf>,
    /// The first row on the screen, and how many fit. Drawing sets them.
    pub(super) first: usize,
    pub(super) fit: usize,
}

impl FolderApp {
    /// Takes in rows sorted by rank.
    pub fn take(&mut self, rows: Vec<FolderRow>) {
        self.rows = rows;
        self.order();
    }

    fn order(&mut self) {
        // Stable: equal rows stay sorted by rank.
        match self.sort {
            FolderSort::Rank => self.rows.sort_by_cached_key(FolderRow::order),
            FolderSort::Difference => self.rows.sort_by_key(|row| {
                let off = row.differs.first().map(|of| of.off_bytes.unsigned_abs());
                std::cmp::Reverse(off)
            }),
            FolderSort::Peak => self.rows.sort_by_key(|row| {
                std::cmp::Reverse(row.now.as_ref().map_or(0, |now| now.row.tensor_peak_bytes))
            }),
        }
    }

    /// The index of the selected row.
    pub(super) fn at(&self) -> usize {
        let of = |row: &FolderRow| Some(&row.file) == self.selected.as_ref();
        self.rows.iter().position(of).unwrap_or(0)
    }

    fn select(&mut self, at: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.rows.get(at.min(last)).map(|row| row.file.clone());
    }

    /// Scrolls so that the selected row is on the screen.
    pub(super) fn keep_in_sight(&mut self) {
        let (fit, at) = (self.fit.max(1), self.at());
        let least = (at + 1).saturating_sub(fit);
        self.first = self.first.clamp(least, at.max(least));
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let (at, page) = (self.at(), self.fit.max(1));
        match key.code {
            KeyCode::Char('c') if is_control => self.is_over = true,
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.is_help = !self.is_help,
            KeyCode::Esc => self.is_help = false,
            KeyCode::Enter if self.is_help => self.is_help = false,
            // While the keys are shown, other keys have no effect, because the rows are not
            // visible.
            _ if self.is_help => {}
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    FolderSort::Rank => FolderSort::Difference,
                    FolderSort::Difference => FolderSort::Peak,
                    FolderSort::Peak => FolderSort::Rank,
                };
                self.order();
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(at + 1),
            KeyCode::PageUp => self.select(at.saturating_sub(page)),
            KeyCode::PageDown => self.select(at + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Enter => self.entered = self.rows.get(at).map(|row| row.file.clone()),
            _ => {}
        }
    }
}
