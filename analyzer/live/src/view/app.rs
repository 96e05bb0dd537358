//! What the view shows, and what keys change of that.

use std::sync::Arc;

use gpumem_capture::{DeviceOrdinal, Level};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::ask::{Ask, By, Moment};
use crate::frame::Frame;

use super::rows::{Row, Sort, rows};

/// What is on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The table.
    #[default]
    Table,
    /// The table, and a filter is being typed.
    Filter,
    /// Failures.
    Failures,
    /// Keys.
    Help,
}

/// The view's state.
#[derive(Default)]
pub struct App {
    /// What frames are to have.
    pub ask: Ask,
    /// What is on the screen.
    pub mode: Mode,
    /// The order of rows.
    pub sort: Sort,
    /// Only rows that contain this.
    pub filter: String,
    /// Whether new frames are shown.
    pub is_paused: bool,
    /// Whether the view is to end.
    pub is_over: bool,
    /// The frame that is shown.
    pub(super) frame: Option<Arc<Frame>>,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// The first row on the screen, and how many fit it. Drawing says how many.
    pub(super) first: usize,
    pub(super) fit: usize,
    /// The screen's line of the first row.
    pub(super) rows_at: u16,
}

impl App {
    /// Begins with what is asked for.
    pub fn new(ask: Ask) -> Self {
        Self {
            ask,
            ..Self::default()
        }
    }

    /// Takes a new frame, unless the view is stopped. Whether it is another one than is shown.
    pub fn take(&mut self, frame: Arc<Frame>) -> bool {
        let is_shown = self
            .frame
            .as_ref()
            .is_some_and(|shown| Arc::ptr_eq(shown, &frame));
        if self.is_paused || is_shown {
            return false;
        }
        let is_same_table = self
            .frame
            .as_ref()
            .is_some_and(|shown| Arc::ptr_eq(&shown.table, &frame.table));
        self.frame = Some(frame);
        if !is_same_table {
            self.sort_rows();
        }
        true
    }

    fn sort_rows(&mut self) {
        let of = self.frame.as_ref();
        self.rows = of.map_or_else(Vec::new, |frame| {
            rows(&frame.table, &self.filter, self.sort)
        });
        self.select(self.selected);
    }

    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.keep_in_sight();
    }

    /// Moves the rows so that the selected one is on the screen.
    pub(super) fn keep_in_sight(&mut self) {
        let fit = self.fit.max(1);
        let last = self.rows.len().saturating_sub(fit);
        let least = (self.selected + 1).saturating_sub(fit);
        self.first = self.first.clamp(least, self.selected).min(last);
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.is_over = true;
            return;
        }
        match self.mode {
            Mode::Filter => self.type_filter(key.code),
            Mode::Table => self.command(key.code),
            Mode::Failures | Mode::Help => match key.code {
                KeyCode::Esc | KeyCode::Enter => self.mode = Mode::Table,
                code => self.command(code),
            },
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) => self.filter.push(typed),
            _ => {}
        }
        self.sort_rows();
    }

    fn command(&mut self, code: KeyCode) {
        let page = self.fit.max(1);
        match code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('f') => self.mode = Mode::Failures,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.sort_rows();
            }
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Bytes => Sort::Blocks,
                    Sort::Blocks => Sort::Name,
                    Sort::Name => Sort::Bytes,
                };
                self.sort_rows();
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.selected + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            code => self.ask_anew(code),
        }
    }

    /// Keys that change what the program's memory is asked for. They need frames, so they end a stop.
    fn ask_anew(&mut self, code: KeyCode) {
        let ask = self.ask;
        match code {
            KeyCode::Tab => {
                self.ask.by = match ask.by {
                    By::Line => By::Category,
                    By::Category => By::Module,
                    By::Module => By::Line,
                }
            }
            KeyCode::Char('p') => {
                self.ask.moment = match ask.moment {
                    Moment::Now => Moment::Peak,
                    Moment::Peak => Moment::Now,
                }
            }
            KeyCode::Char('l') => self.ask.level = Some(self.next_level()),
            KeyCode::Char('g') => self.ask.device = self.next_device(),
            _ => return,
        }
        if ask != self.ask {
            self.is_paused = false;
            self.select(0);
        }
    }

    fn next_level(&self) -> Level {
        let level = self.frame.as_ref().map(|frame| frame.table.level);
        match level {
            Some(Level::TENSOR) => Level::DRIVER,
            Some(Level::DRIVER) => Level::HOST,
            Some(Level::HOST) => Level::PHYSICAL,
            _ => Level::TENSOR,
        }
    }

    fn next_device(&self) -> Option<DeviceOrdinal> {
        let frame = self.frame.as_ref()?;
        let mut all = frame.devices.iter().map(|on| on.device);
        match self.ask.device {
            None => all.next(),
            Some(only) => all.find(|device| *device > only),
        }
    }

    /// The mouse was moved or pressed.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.select(self.selected.saturating_sub(3)),
            MouseEventKind::ScrollDown => self.select(self.selected + 3),
            MouseEventKind::Down(MouseButton::Left) => {
                let row = mouse.row.checked_sub(self.rows_at).map(usize::from);
                if let Some(row) = row.filter(|row| *row < self.fit && self.mode == Mode::Table) {
                    self.select(self.first + row);
                }
            }
            _ => {}
        }
    }
}
