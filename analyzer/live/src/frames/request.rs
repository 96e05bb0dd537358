//! A request about a past point in time, and its answer.

use std::sync::Arc;

use gpumem_capture::{Level, Seq};

use super::ask::{Ask, Then};
use super::frame::Frame;
use super::page::Page;
use super::which::Which;

/// A request about a point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The point in time.
    pub then: Then,
    /// The requested table of the frame.
    pub ask: Ask,
    /// The requested page.
    pub want: Want,
}

/// A page that is requested with the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// No page.
    Frame,
    /// The stacks and the source of a row of this level.
    Stacks(Level, Box<Which>),
    /// The ledgers, for a screen of so many columns.
    Account(u16),
    /// The cause of the failure at this event, for a screen of so many columns.
    Cause(Seq, u16),
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request.
    pub request: Request,
    /// The result, or the error in one line.
    pub given: Result<Given, String>,
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Given {
    /// The frame at the point in time.
    pub frame: Arc<Frame>,
    /// The requested page.
    pub page: Option<Arc<Page>>,
}
