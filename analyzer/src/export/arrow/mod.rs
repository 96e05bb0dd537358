//! Arrow's stream format: a row for each event, in batches of [`BATCH`], texts by dictionary.
//!
//! The capture has been surveyed, so all names are known: each dictionary is written once, before the first batch. Whose
//! an event is, is looked up once for each distinct pair of stacks.

mod column;
mod columns;
mod dictionary;
mod owners;

use std::collections::HashMap;
use std::io::Write;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};

use super::events::Numbers;
use super::facts::facts;
use crate::session::Survey;
use columns::{Columns, fields};
use owners::Owners;

/// Rows of a batch: what is kept until it is written.
const BATCH: usize = 1 << 16;

/// Writes rows as they come, a batch at a time.
pub struct Arrow<'a> {
    file: StreamWriter<&'a mut dyn Write>,
    columns: Columns,
    owners: Owners<'a>,
}

impl<'a> Arrow<'a> {
    /// Begins a stream of a capture.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(survey: &'a Survey, out: &'a mut dyn Write) -> Result<Self, ArrowError> {
        let facts = facts(&survey.replay.names, &survey.header);
        let facts: HashMap<String, String> = facts.into_iter().collect();
        let schema = Schema::new_with_metadata(fields(), facts);
        Ok(Self {
            file: StreamWriter::try_new(out, &schema)?,
            columns: Columns::new(schema.into(), &survey.replay.names)?,
            owners: Owners::new(&survey.replay),
        })
    }

    /// Takes in a row.
    ///
    /// # Errors
    /// The writer's.
    pub fn row(&mut self, row: &Numbers) -> Result<(), ArrowError> {
        self.columns.push(row, &mut self.owners)?;
        match self.columns.rows() {
            BATCH => self.batch(),
            _ => Ok(()),
        }
    }

    fn batch(&mut self) -> Result<(), ArrowError> {
        let batch = self.columns.batch()?;
        self.file.write(&batch)
    }

    /// Writes the rest, and the stream's end.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> Result<(), ArrowError> {
        if self.columns.rows() > 0 {
            self.batch()?;
        }
        self.file.finish()
    }
}
