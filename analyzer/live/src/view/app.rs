//! What the view shows.

use std::sync::Arc;

use gpumem_capture::{Nanos, Seq};
use ratatui::layout::Rect;

use crate::ask::{Ask, Then};
use crate::frame::Frame;
use crate::page::Page;
use crate::request::{Answer, Request, Want};

use super::rows::{Row, Sort, rows};
use super::spot::{Spot, TimeAxis};

/// What is on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The table.
    #[default]
    Table,
    /// The table, and a filter is being typed.
    Filter,
    /// A row's stacks and its source.
    Stacks,
    /// The ledgers.
    Account,
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
    /// Whether it was entered from another view, and is to go back to that.
    pub(super) is_within: bool,
    pub(super) is_back: bool,
    /// The event of which a page for a browser is to be written.
    pub page_wanted: Option<Seq>,
    /// What is said until the next key.
    pub message: Option<String>,
    /// How far the capture has been read for the moment that is wanted.
    pub progress: Option<(u64, u64)>,
    /// The frame that is shown, and the newest.
    pub(super) frame: Option<Arc<Frame>>,
    pub(super) newest: Option<Arc<Frame>>,
    /// The moment that is shown, or read; `None`: the newest, or where the view was stopped.
    pub(super) spot: Option<Spot>,
    /// What the page on the screen is asked with, and the page.
    pub(super) wanted: Option<Request>,
    pub(super) page: Option<Arc<Page>>,
    /// The question whose answer is shown.
    answered: Option<Request>,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// The first row on the screen, and how many fit it. Drawing says how many.
    pub(super) first: usize,
    pub(super) fit: usize,
    /// The same of a page's lines.
    pub(super) page_first: usize,
    pub(super) page_fit: usize,
    /// The failure that is chosen, of a frame's.
    pub(super) failure: usize,
    /// The screen's line of the first row, its width, and where the chart is and of when. Drawing says so.
    pub(super) rows_at: u16,
    pub(super) columns: u16,
    pub(super) chart: Rect,
    pub(super) axis: TimeAxis,
}

impl App {
    /// Begins with what is asked for.
    pub fn new(ask: Ask) -> Self {
        Self {
            ask,
            columns: 80,
            ..Self::default()
        }
    }

    /// The same, entered from another view, to which Esc goes back.
    pub(super) fn within(ask: Ask) -> Self {
        Self {
            is_within: true,
            ..Self::new(ask)
        }
    }

    /// Takes a new frame. Whether the screen changes by it.
    pub fn take(&mut self, frame: Arc<Frame>) -> bool {
        let newest = self.newest.as_ref();
        if newest.is_some_and(|newest| Arc::ptr_eq(newest, &frame)) {
            return false;
        }
        if self.is_paused && self.spot.is_none() {
            return false;
        }
        if let Some(newest) = newest.filter(|_| self.failure > 0) {
            // The chosen failure stays chosen, however many come before it in the list.
            let more = frame.failures.len().saturating_sub(newest.failures.len());
            self.failure += more;
        }
        self.newest = Some(frame.clone());
        if self.spot.is_none() {
            self.show(frame);
        }
        true
    }

    fn show(&mut self, frame: Arc<Frame>) {
        let shown = self.frame.as_ref();
        let is_same_table = shown.is_some_and(|shown| Arc::ptr_eq(&shown.table, &frame.table));
        self.frame = Some(frame);
        if !is_same_table {
            self.sort_rows();
        }
    }

    /// What is to be asked of the past; `None`: nothing.
    pub fn request(&self) -> Option<Request> {
        match self.mode {
            Mode::Stacks | Mode::Account => {
                let wanted = self.wanted.clone()?;
                Some(Request {
                    ask: self.ask,
                    ..wanted
                })
            }
            Mode::Failures => {
                let of = self.newest.as_ref()?.failures.get(self.failure)?;
                Some(Request {
                    then: Then::Event(of.seq),
                    ask: self.ask,
                    want: Want::Cause(of.seq, self.columns),
                })
            }
            Mode::Table | Mode::Filter | Mode::Help => self.spot.as_ref().map(|spot| Request {
                then: spot.then,
                ask: self.ask,
                want: Want::Frame,
            }),
        }
    }

    /// Whether an answer is waited for.
    pub fn is_waiting(&self) -> bool {
        let request = self.request();
        request.is_some() && request != self.answered
    }

    /// Takes an answer. Whether it is the one that is waited for.
    pub fn answer(&mut self, answer: &Answer) -> bool {
        if !self.is_waiting() || self.request().as_ref() != Some(&answer.request) {
            return false;
        }
        match &answer.given {
            Ok(given) => {
                let is_shown = |spot: &Spot| spot.then == answer.request.then;
                if self.spot.as_ref().is_some_and(is_shown) {
                    self.show(given.frame.clone());
                }
                self.page.clone_from(&given.page);
                self.answered = Some(answer.request.clone());
            }
            Err(why) => {
                self.message = Some(why.clone());
                self.follow();
                self.mode = Mode::Table;
            }
        }
        true
    }

    pub(super) fn sort_rows(&mut self) {
        let of = self.frame.as_ref();
        self.rows = of.map_or_else(Vec::new, |frame| {
            rows(&frame.table, &self.filter, self.sort)
        });
        self.select(self.selected);
    }

    pub(super) fn select(&mut self, row: usize) {
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

    /// Moves a page's lines, no further than to its last ones.
    pub(super) fn scroll(&mut self, first: usize) {
        let lines = self.page.as_ref().map_or(0, |page| page.lines.len());
        self.page_first = first.min(lines.saturating_sub(self.page_fit));
    }

    /// Goes to a moment of the past.
    pub(super) fn go_to(&mut self, spot: Spot) {
        if let Some(wanted) = &mut self.wanted {
            wanted.then = spot.then;
        }
        self.spot = Some(spot);
    }

    /// Goes back to the newest frame.
    pub(super) fn follow(&mut self) {
        (self.spot, self.is_paused) = (None, false);
        if let Some(newest) = self.newest.clone() {
            if let Some(wanted) = &mut self.wanted {
                wanted.then = Then::Event(newest.seq);
            }
            self.show(newest);
        }
    }

    /// The moment of what is on the screen, as a question has it.
    pub(super) fn then(&self, seq: Seq) -> Then {
        self.spot
            .as_ref()
            .map_or(Then::Event(seq), |spot| spot.then)
    }

    /// The time of what is on the screen.
    pub(super) fn time(&self) -> Option<Nanos> {
        let shown = || self.frame.as_ref().map(|frame| frame.time);
        self.spot.as_ref().map(|spot| spot.time).or_else(shown)
    }

    /// Opens a page.
    pub(super) fn open(&mut self, mode: Mode, seq: Seq, want: Want) {
        (self.mode, self.page, self.page_first) = (mode, None, 0);
        self.wanted = Some(Request {
            then: self.then(seq),
            ask: self.ask,
            want,
        });
    }

    /// Goes back to the table.
    pub(super) fn close(&mut self) {
        (self.mode, self.page, self.wanted) = (Mode::Table, None, None);
    }
}
