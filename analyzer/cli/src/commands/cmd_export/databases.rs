//! Exports to SQLite and Parquet.

use std::io::{self, Write};

use gpumem_analyzer::export::{Parquet, Sqlite};

use super::task::Task;
use crate::commands::read::symbols;

impl Task<'_> {
    /// SQLite writes to a temporary file, which is then copied.
    pub(super) fn sqlite(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut database = Sqlite::create(file.path())?;
        let said = self.rows(&mut |row| Ok(database.row(&row)?))?;
        let (mut symbols, bar) = symbols(self.file, self.first, &self.args.symbols);
        database.finish(self.first, &mut symbols)?;
        drop(bar);
        io::copy(&mut gpumem_files::read::open(file.path())?, out)?;
        Ok(said)
    }

    pub(super) fn parquet(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let mut table = Parquet::new(self.first, out)?;
        let said = self.rows(&mut |row| Ok(table.row(&row)?))?;
        table.finish()?;
        Ok(said)
    }
}
