//! Handles keys and the mouse.

use gpumem_capture::{DeviceOrdinal, Level, Nanos};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::frames::{Ask, By, Want};

use super::app::{App, Mode};
use super::spot::{Spot, next_failure};

/// The number of the chart's columns of a large step.
const FAR: u64 = 10;

impl App {
    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.is_over = true;
            return;
        }
        self.message = None;
        let is_far = key.modifiers.contains(KeyModifiers::SHIFT);
        let far = if is_far { FAR } else { 1 };
        match (self.mode, key.code) {
            (Mode::Filter, code) => return self.type_filter(code),
            (_, KeyCode::Left | KeyCode::Char('[')) => return self.back(far),
            (_, KeyCode::Right | KeyCode::Char(']')) => return self.forth(far),
            (_, KeyCode::Char('{')) => return self.back(FAR),
            (_, KeyCode::Char('}')) => return self.forth(FAR),
            _ => {}
        }
        match self.mode {
            Mode::Filter => {}
            Mode::Table => self.of_table(key.code),
            Mode::Stacks | Mode::Account => self.of_page(key.code),
            Mode::Failures => self.of_failures(key.code),
            Mode::Help => match key.code {
                KeyCode::Esc | KeyCode::Enter => self.close(),
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

    fn of_table(&mut self, code: KeyCode) {
        let page = self.fit.max(1);
        match code {
            KeyCode::Enter => self.open_row(),
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.sort_rows();
            }
            KeyCode::Esc => self.is_back = self.is_within,
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.selected + page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            code => self.command(code),
        }
    }

    fn of_page(&mut self, code: KeyCode) {
        let page = self.page_fit.max(1);
        match code {
            KeyCode::Esc | KeyCode::Enter => self.close(),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(self.page_first.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(self.page_first + 1),
            KeyCode::PageUp => self.scroll(self.page_first.saturating_sub(page)),
            KeyCode::PageDown => self.scroll(self.page_first + page),
            KeyCode::Home => self.scroll(0),
            KeyCode::End => self.scroll(usize::MAX),
            code => self.command(code),
        }
    }

    fn of_failures(&mut self, code: KeyCode) {
        let newest = self.newest.clone();
        let all = newest.as_ref().map_or(0, |frame| frame.failures.len());
        let last = all.saturating_sub(1);
        match code {
            KeyCode::Esc => self.close(),
            KeyCode::Up | KeyCode::Char('k') => self.failure = self.failure.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.failure = (self.failure + 1).min(last),
            KeyCode::Enter => {
                let of = newest.as_ref().and_then(|of| of.failures.get(self.failure));
                let spot = of.map(Spot::failure);
                self.close();
                if let Some(spot) = spot {
                    self.go_to(spot);
                }
            }
            code => self.command(code),
        }
    }

    fn command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') | KeyCode::F(1) => {
                self.close();
                self.mode = Mode::Help;
            }
            KeyCode::Char('f') => {
                self.close();
                (self.mode, self.failure) = (Mode::Failures, 0);
            }
            KeyCode::Char('a') => {
                if let Some(frame) = self.frame.clone() {
                    self.open(Mode::Account, frame.seq, Want::Account(self.columns));
                }
            }
            KeyCode::Char('/') => {
                self.close();
                self.mode = Mode::Filter;
            }
            KeyCode::Char('e') => {
                let frame = self.frame.as_ref();
                self.page_wanted = frame.map(|frame| frame.seq);
            }
            KeyCode::Char('n') => self.follow(),
            KeyCode::Char(' ') if self.spot.is_some() => self.follow(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('p') => self.go_to_peak(),
            KeyCode::Char('o') => self.go_to_failure(true),
            KeyCode::Char('O') => self.go_to_failure(false),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                let sort = self.sort;
                self.change(|ask| ask.order = sort.order());
                self.sort_rows();
            }
            code => self.ask_anew(code),
        }
    }

    /// Opens the selected row.
    fn open_row(&mut self) {
        let row = self.rows.get(self.selected);
        if let (Some(frame), Some(row)) = (self.frame.clone(), row) {
            let want = Want::Stacks(frame.table.level, Box::new(row.which.clone()));
            self.open(Mode::Stacks, frame.table.seq, want);
        }
    }

    fn back(&mut self, columns: u64) {
        let Some(time) = self.time() else { return };
        let way = self.axis.width_ns.saturating_mul(columns);
        self.go_to(Spot::at(Nanos(time.0.saturating_sub(way))));
    }

    fn forth(&mut self, columns: u64) {
        let (Some(time), Some(newest)) = (self.time(), &self.newest) else {
            return;
        };
        let way = self.axis.width_ns.saturating_mul(columns);
        let time = Nanos(time.0.saturating_add(way));
        match time < newest.time {
            true => self.go_to(Spot::at(time)),
            false => self.follow(),
        }
    }

    fn go_to_peak(&mut self) {
        let (Some(newest), Some(frame)) = (&self.newest, &self.frame) else {
            return;
        };
        match Spot::peak(newest, self.ask.device, frame.table.level) {
            Some(spot) => self.go_to(spot),
            None => self.message = Some("no memory of this level so far".into()),
        }
    }

    fn go_to_failure(&mut self, is_forth: bool) {
        let Some(newest) = self.newest.clone() else {
            return;
        };
        let all = newest.failures.is_empty();
        match next_failure(&newest, self.spot.as_ref(), is_forth) {
            Some(of) => self.go_to(Spot::failure(of)),
            None => {
                let why = match (all, is_forth) {
                    (true, _) => "no allocation has failed so far",
                    (false, true) => "there is no later failure",
                    (false, false) => "there is no earlier failure",
                };
                self.message = Some(why.into());
            }
        }
    }

    /// Handles keys that change the request.
    fn ask_anew(&mut self, code: KeyCode) {
        match code {
            KeyCode::Tab => self.change(|ask| {
                ask.by = match ask.by {
                    By::Line => By::Category,
                    By::Category => By::Module,
                    By::Module => By::Line,
                }
            }),
            KeyCode::Char('l') => {
                let level = self.next_level();
                self.change(|ask| ask.level = Some(level));
            }
            KeyCode::Char('g') => {
                let device = self.next_device();
                self.change(|ask| ask.device = device);
            }
            _ => return,
        }
        self.select(0);
    }

    /// Changes the request. A paused view stays at its event.
    fn change(&mut self, change: impl FnOnce(&mut Ask)) {
        let ask = self.ask;
        change(&mut self.ask);
        if ask == self.ask {
            return;
        }
        if let (true, None, Some(frame)) = (self.is_paused, &self.spot, &self.frame) {
            let spot = Spot::event(frame.seq, frame.time);
            self.go_to(spot);
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
        let frame = self.newest.as_ref()?;
        let mut all = frame.devices.iter().map(|on| on.device);
        match self.ask.device {
            None => all.next(),
            Some(only) => all.find(|device| *device > only),
        }
    }

    /// Handles the mouse.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        let is_page = matches!(self.mode, Mode::Stacks | Mode::Account);
        match mouse.kind {
            MouseEventKind::ScrollUp if is_page => self.scroll(self.page_first.saturating_sub(3)),
            MouseEventKind::ScrollDown if is_page => self.scroll(self.page_first + 3),
            MouseEventKind::ScrollUp => self.select(self.selected.saturating_sub(3)),
            MouseEventKind::ScrollDown => self.select(self.selected + 3),
            MouseEventKind::Down(MouseButton::Left) => self.click(mouse.column, mouse.row),
            _ => {}
        }
    }

    fn click(&mut self, column: u16, row: u16) {
        if self.chart.contains((column, row).into()) {
            let column = usize::from(column - self.chart.x);
            if let Some(time) = self.axis.end_of(column) {
                let newest = self.newest.as_ref();
                match newest.is_some_and(|newest| time < newest.time) {
                    true => self.go_to(Spot::at(time)),
                    false => self.follow(),
                }
            }
            return;
        }
        let row = row.checked_sub(self.rows_at).map(usize::from);
        if let Some(row) = row.filter(|row| *row < self.fit && self.mode == Mode::Table) {
            self.select(self.first + row);
        }
    }
}
