//! The state of the view.

use std::sync::Arc;

use gpumem_capture::{Nanos, Seq};
use ratatui::layout::Rect;

use crate::frames::{Answer, Ask, Frame, Page, Request, Row, Sort, State, Then, Want, rows};

use super::spot::{Spot, TimeAxis};

/// The content of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The table.
    #[default]
    Table,
    /// The table, while a filter is being typed.
    Filter,
    /// A row's stacks and source.
    Stacks,
    /// The ledgers.
    Account,
    /// Failures.
    Failures,
    /// The keys.
    Help,
}

/// The view's state.
#[derive(Default)]
pub struct App {
    /// The requested content of frames.
    pub ask: Ask,
    /// What is on the screen.
    pub mode: Mode,
    /// The order of rows.
    pub sort: Sort,
    /// Only rows that contain this text.
    pub filter: String,
    /// Whether new frames are shown.
    pub is_paused: bool,
    /// Whether the view is to end.
    pub is_over: bool,
    /// Whether it was opened from another view, to which it returns.
    pub(super) is_within: bool,
    pub(super) is_back: bool,
    /// The event for which to write an HTML page.
    pub page_wanted: Option<Seq>,
    /// The message that is shown until the next key.
    pub message: Option<String>,
    /// The progress of reading the capture for the requested point in time.
    pub progress: Option<(u64, u64)>,
    /// The shown frame, and the newest one.
    pub(super) frame: Option<Arc<Frame>>,
    pub(super) newest: Option<Arc<Frame>>,
    /// The point in time that is shown or being read; `None`: the newest, or the one at which the view was paused.
    pub(super) spot: Option<Spot>,
    /// The request for the page on the screen, and the page.
    pub(super) wanted: Option<Request>,
    pub(super) page: Option<Arc<Page>>,
    /// The request whose answer is shown.
    answered: Option<Request>,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// The first row on the screen, and how many fit. Drawing sets them.
    pub(super) first: usize,
    pub(super) fit: usize,
    /// The same for a page's lines.
    pub(super) page_first: usize,
    pub(super) page_fit: usize,
    /// The index of the selected failure in the frame.
    pub(super) failure: usize,
    /// The screen's line of the first row, its width, and the chart's position and time axis. Drawing sets them.
    pub(super) rows_at: u16,
    pub(super) columns: u16,
    pub(super) chart: Rect,
    pub(super) axis: TimeAxis,
}

impl App {
    /// Starts with a request.
    pub fn new(ask: Ask) -> Self {
        Self {
            ask,
            columns: 80,
            ..Self::default()
        }
    }

    /// The same, opened from another view, to which Esc returns.
    pub(super) fn within(ask: Ask) -> Self {
        Self {
            is_within: true,
            ..Self::new(ask)
        }
    }

    /// Takes in a new frame; returns whether the screen changes.
    pub fn take(&mut self, frame: Arc<Frame>) -> bool {
        let newest = self.newest.as_ref();
        if newest.is_some_and(|newest| Arc::ptr_eq(newest, &frame)) {
            return false;
        }
        if self.is_paused && self.spot.is_none() {
            return false;
        }
        let is_first = newest.is_none_or(|of| matches!(of.state, State::CatchingUp(..)));
        if let Some(newest) = newest.filter(|_| self.failure > 0) {
            // The selected failure stays selected when new ones come before it in the list.
            let more = frame.failures.len().saturating_sub(newest.failures.len());
            self.failure += more;
        }
        self.newest = Some(frame.clone());
        if self.spot.is_none() {
            self.show(frame.clone());
            let has_ended = matches!(frame.state, State::Ended(_) | State::Killed(_));
            if is_first && has_ended {
                // At its end, most memory is freed.
                self.spot = Spot::peak(&frame, self.ask.device, frame.table.level);
            }
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

    /// The request about the past; `None` if nothing is needed.
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

    /// Whether the view waits for an answer.
    pub fn is_waiting(&self) -> bool {
        let request = self.request();
        request.is_some() && request != self.answered
    }

    /// Takes in an answer; returns whether it is the one that the view waits for.
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

    /// Scrolls so that the selected row is on the screen.
    pub(super) fn keep_in_sight(&mut self) {
        let fit = self.fit.max(1);
        let last = self.rows.len().saturating_sub(fit);
        let least = (self.selected + 1).saturating_sub(fit);
        self.first = self.first.clamp(least, self.selected).min(last);
    }

    /// Scrolls a page, at most to its last lines.
    pub(super) fn scroll(&mut self, first: usize) {
        let lines = self.page.as_ref().map_or(0, |page| page.lines.len());
        self.page_first = first.min(lines.saturating_sub(self.page_fit));
    }

    /// Shows a past point in time.
    pub(super) fn go_to(&mut self, spot: Spot) {
        if let Some(wanted) = &mut self.wanted {
            wanted.then = spot.then;
        }
        self.spot = Some(spot);
    }

    /// Returns to the newest frame.
    pub(super) fn follow(&mut self) {
        (self.spot, self.is_paused, self.answered) = (None, false, None);
        if let Some(newest) = self.newest.clone() {
            if let Some(wanted) = &mut self.wanted {
                wanted.then = Then::Event(newest.seq);
            }
            self.show(newest);
        }
    }

    /// The point in time on the screen, as a request has it.
    pub(super) fn then(&self, seq: Seq) -> Then {
        self.spot
            .as_ref()
            .map_or(Then::Event(seq), |spot| spot.then)
    }

    /// The time of the point on the screen.
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

    /// Returns to the table.
    pub(super) fn close(&mut self) {
        (self.mode, self.page, self.wanted) = (Mode::Table, None, None);
    }
}
