//! What is asked of a moment that has passed, and the answer.

use std::sync::Arc;

use gpumem_capture::{Level, Seq};

use crate::ask::{Ask, Then};
use crate::frame::Frame;
use crate::page::Page;
use crate::which::Which;

/// A question about a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When.
    pub then: Then,
    /// What the frame's table is to have.
    pub ask: Ask,
    /// What else is wanted.
    pub want: Want,
}

/// What is wanted beside the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing.
    Frame,
    /// The stacks and the source of a row of this level.
    Stacks(Level, Box<Which>),
    /// The ledgers, for a screen of so many columns.
    Account(u16),
    /// Why the allocation at this event failed, for a screen of so many columns.
    Cause(Seq, u16),
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The question.
    pub request: Request,
    /// What there is; else why there is nothing, in one line.
    pub given: Result<Given, String>,
}

/// What a moment has.
#[derive(Clone, Debug)]
pub struct Given {
    /// The frame of the moment.
    pub frame: Arc<Frame>,
    /// What else was wanted.
    pub page: Option<Arc<Page>>,
}
