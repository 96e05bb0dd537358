//! Arrow's stream format: a row for each event, in batches of 65,536 rows, texts by dictionary.
//!
//! The capture has been surveyed, so all names are known: each dictionary is written once, before the first batch.
//! Owners are looked up once for each distinct pair of stacks.

mod column;
mod columns;
mod dictionary;
mod owners;
mod words;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::events::Numbers;
use super::facts::facts;
use crate::session::Survey;
use column::{BATCH, Chunk};
use columns::{Named, all, is_of_categories, is_of_owners};
use owners::Owners;
use words::OwnerWords;

/// Writes rows as they come, one batch at a time.
pub struct Arrow<'a> {
    file: StreamWriter<&'a mut dyn Write>,
    schema: SchemaRef,
    columns: Vec<Named>,
    owners: Owners<'a>,
    has_owners: bool,
    /// The owner of each row of the current chunk.
    places: Vec<u32>,
    rows: usize,
}

impl<'a> Arrow<'a> {
    /// The best number of rows to pass at once: a batch is a multiple of it.
    pub const CHUNK: usize = 1 << 11;

    /// Begins a stream of a capture with the columns of these names, in their usual order; without names, with all
    /// columns.
    ///
    /// # Errors
    /// The writer's, or if a column does not exist.
    pub fn new(
        survey: &'a Survey,
        names: &[String],
        out: &'a mut dyn Write,
    ) -> Result<Self, ArrowError> {
        let words = OwnerWords::of(&survey.replay.names);
        let mut columns = all(&survey.replay.names, &words)?;
        let is_known = |name: &&String| columns.iter().any(|of| of.field.name() == *name);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let known: Vec<&str> = columns.iter().map(|of| of.field.name().as_str()).collect();
            return Err(ArrowError::SchemaError(format!(
                "there is no column {name:?}: there are {}",
                known.join(", ")
            )));
        }
        columns.retain(|of| names.is_empty() || names.contains(of.field.name()));
        let facts: HashMap<String, String> = facts(&survey.replay.names, &survey.header)
            .into_iter()
            .collect();
        let fields: Vec<_> = columns.iter().map(|of| of.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, facts));
        Ok(Self {
            file: StreamWriter::try_new(out, &schema)?,
            schema,
            has_owners: columns.iter().any(|of| is_of_owners(of.field.name())),
            columns,
            owners: Owners::new(&survey.replay, words),
            places: Vec::new(),
            rows: 0,
        })
    }

    /// Whether these columns need a replay with categories; no names select all columns. See
    /// [`crate::replay::Query::no_categories`].
    pub fn needs_categories(names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| is_of_categories(name))
    }

    /// Appends rows. Each call except the last passes [`Arrow::CHUNK`] rows.
    ///
    /// # Errors
    /// The writer's.
    pub fn rows(&mut self, rows: &[Numbers]) -> Result<(), ArrowError> {
        self.places.clear();
        if self.has_owners {
            for row in rows {
                self.places.push(self.owners.place(row)?);
            }
        } else {
            self.places.resize(rows.len(), 0);
        }
        let chunk = Chunk {
            rows,
            places: &self.places,
            owners: &self.owners.all,
        };
        for of in &mut self.columns {
            of.column.extend(&chunk);
        }
        self.rows += rows.len();
        match self.rows >= BATCH {
            true => self.batch(),
            false => Ok(()),
        }
    }

    fn batch(&mut self) -> Result<(), ArrowError> {
        let columns = self.columns.iter_mut().map(|of| of.column.array());
        let columns = columns.collect::<Result<_, _>>()?;
        self.rows = 0;
        self.file
            .write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Writes the rest, and the stream's end.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> Result<(), ArrowError> {
        if self.rows > 0 {
            self.batch()?;
        }
        self.file.finish()
    }
}
