//! Processes a request, from its arguments to a page of its answer.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cancel::Cancel;
use crate::catalog::Entry;
use crate::context::Context;
use crate::cursor::{Edition, cursor, offset};
use crate::fit::page;
use crate::found::Found;
use crate::refusal::{Refusal, refused};

/// The number of answers that are cached for their next pages.
const KEPT: usize = 8;
/// The most rows of a cached answer.
const ROWS: usize = 50_000;
/// Arguments that name captures.
const CAPTURES: [&str; 3] = ["capture", "before", "after"];

/// The cached answers, and the state for computing new ones.
#[derive(Debug)]
pub struct Questions {
    context: Context,
    kept: VecDeque<(String, Arc<Found>)>,
}

impl Questions {
    /// Without answers.
    pub fn new(context: Context) -> Self {
        Self {
            context,
            kept: VecDeque::new(),
        }
    }

    /// A page of the answer.
    ///
    /// # Errors
    /// Those of the tool, or the cursor belongs to another request.
    pub fn ask(
        &mut self,
        entry: &Entry,
        mut arguments: Map<String, Value>,
        cancel: Cancel,
    ) -> Result<Map<String, Value>, Refusal> {
        if cancel.is_cancelled() {
            // It was cancelled while it waited for other requests.
            return Err(refused!("{}: it was cancelled", entry.tool.name));
        }
        self.context.cancel = cancel;
        // Assistants send null for omitted arguments.
        arguments.retain(|_, value| !value.is_null());
        let at = match arguments.remove("cursor") {
            None => None,
            Some(Value::String(at)) => Some(at),
            Some(_) => {
                return Err(refused!(
                    "cursor: expected the next of an answer, which is a string"
                ));
            }
        };
        let question = self.question(entry, &arguments)?;
        let found = self.found(&question, entry, arguments)?;
        let edition: Edition = found.edition(&question);
        let start = at.map_or(Ok(0), |at| offset(&at, edition))?;
        Ok(page(&found.head_of(start), &found.rows, start, |offset| {
            cursor(offset, edition)
        }))
    }

    /// The tool, its arguments and the state of the captures that they name.
    fn question(&self, entry: &Entry, arguments: &Map<String, Value>) -> Result<String, Refusal> {
        let mut question = format!("{} {}", entry.tool.name, Value::Object(arguments.clone()));
        for name in CAPTURES
            .iter()
            .filter_map(|key| arguments.get(*key)?.as_str())
        {
            question.push('\n');
            question.push_str(&self.context.capture(name)?.identity());
        }
        Ok(question)
    }

    fn found(
        &mut self,
        question: &str,
        entry: &Entry,
        arguments: Map<String, Value>,
    ) -> Result<Arc<Found>, Refusal> {
        let kept = self.kept.iter().find(|(of, _)| of == question);
        if let Some((_, found)) = kept {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(entry.answer(&mut self.context, arguments)?);
        if found.is_settled && found.rows.len() <= ROWS {
            self.kept
                .push_back((question.to_owned(), Arc::clone(&found)));
            while self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
        Ok(found)
    }
}
