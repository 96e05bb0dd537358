//! An SQLite database: a row for each event, and tables that the rows refer to.

use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Level};
use rusqlite::{Connection, params};
use rustc_hash::FxHashMap;

use super::events::{EventRow, Whose};
use super::samples::Places;
use crate::replay::{Replay, StackKey};
use crate::session::Session;
use crate::symbols::Symbols;

/// docs/commands/export.md describes the columns.
const TABLES: &str = "
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE devices (ordinal INTEGER PRIMARY KEY, name TEXT, uuid TEXT, pci TEXT, total_bytes INTEGER);
CREATE TABLE lines (id INTEGER PRIMARY KEY, file TEXT, line INTEGER, function TEXT, node TEXT, library TEXT,
  phase TEXT);
CREATE TABLE frames (id INTEGER PRIMARY KEY, name TEXT, file TEXT, line INTEGER, module TEXT, address INTEGER);
CREATE TABLE stacks (id INTEGER, depth INTEGER, frame INTEGER REFERENCES frames, PRIMARY KEY (id, depth))
  WITHOUT ROWID;
CREATE TABLE events (seq INTEGER PRIMARY KEY, time_ns INTEGER, kind TEXT, level TEXT, device INTEGER,
  ptr INTEGER, bytes INTEGER, live_bytes INTEGER, block_seq INTEGER, thread INTEGER, api TEXT,
  line INTEGER REFERENCES lines, stack INTEGER, step INTEGER, range TEXT, category TEXT);
";
const PRAGMAS: &str =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN";
const CATEGORY: &str = "UPDATE events SET category = ? WHERE seq = ?";
const EVENT: &str = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// A database under construction, in one transaction: readers never see a part of it.
pub struct Sqlite {
    database: Connection,
    lines: FxHashMap<Whose, i64>,
    stacks: FxHashMap<StackKey, i64>,
}

/// SQLite's integers are signed: larger numbers keep their bits.
fn signed(number: u64) -> i64 {
    number as i64
}

impl Sqlite {
    /// A new database in an empty file.
    ///
    /// # Errors
    /// SQLite's.
    pub fn create(path: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(path)?;
        // The file is moved to its path only when it is complete, so it needs no journal. Events are inserted before
        // the rows that they refer to.
        database.execute_batch(PRAGMAS)?;
        database.execute_batch(TABLES)?;
        Ok(Self {
            database,
            lines: FxHashMap::default(),
            stacks: FxHashMap::default(),
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// SQLite's.
    pub fn row(&mut self, row: &EventRow<'_>) -> rusqlite::Result<()> {
        let line = match *row.whose == Whose::default() {
            true => None,
            false => Some(self.line(&row.whose)?),
        };
        let next = self.stacks.len() as i64 + 1;
        let stack = row
            .stacks
            .map(|stacks| *self.stacks.entry(stacks).or_insert(next));
        let mut insert = self.database.prepare_cached(EVENT)?;
        insert.execute(params![
            signed(row.seq),
            signed(row.time_ns),
            row.kind,
            row.level,
            row.device,
            signed(row.ptr),
            signed(row.bytes),
            row.live_bytes.map(signed),
            row.block_seq.map(signed),
            row.thread,
            row.api,
            line,
            stack,
            row.step.map(signed),
            row.range,
            row.category,
        ])?;
        // A block's category is known at its end; it is added to the row of the allocation.
        if let (Some(category), Some(made)) = (row.category, row.block_seq) {
            let mut update = self.database.prepare_cached(CATEGORY)?;
            update.execute(params![category, signed(made)])?;
        }
        Ok(())
    }

    fn line(&mut self, whose: &Whose) -> rusqlite::Result<i64> {
        if let Some(known) = self.lines.get(whose) {
            return Ok(*known);
        }
        let id = self.lines.len() as i64 + 1;
        self.database
            .prepare_cached("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                whose.file,
                whose.line,
                whose.function,
                whose.node,
                whose.library,
                whose.phase,
            ])?;
        self.lines.insert(whose.clone(), id);
        Ok(id)
    }

    /// Writes the tables that rows refer to, and commits everything.
    ///
    /// # Errors
    /// SQLite's.
    pub fn finish(mut self, session: &Session, symbols: &mut Symbols) -> rusqlite::Result<()> {
        self.categories(&session.replay)?;
        self.stacks(session, symbols)?;
        self.facts(session)?;
        self.database
            .execute_batch("CREATE INDEX events_by_line ON events (line); COMMIT")?;
        self.database.close().map_err(|(_, error)| error)
    }

    /// Sets the categories of blocks that were never freed.
    fn categories(&mut self, replay: &Replay) -> rusqlite::Result<()> {
        let mut update = self.database.prepare_cached(CATEGORY)?;
        let tensors = replay
            .levels
            .iter()
            .filter(|((_, level), _)| *level == Level::TENSOR);
        for (_, block) in tensors.flat_map(|(_, state)| state.live_blocks()) {
            let category = replay.stacks(block.key).purpose.category();
            update.execute(params![category.name(), signed(block.seq.0)])?;
        }
        Ok(())
    }

    fn stacks(&mut self, session: &Session, symbols: &mut Symbols) -> rusqlite::Result<()> {
        let names = &session.replay.names;
        let mut stacks: Vec<(i64, StackKey)> = self
            .stacks
            .iter()
            .map(|(stacks, id)| (*id, *stacks))
            .collect();
        stacks.sort_unstable();
        let natives = stacks.iter().map(|(_, stacks)| stacks.native);
        let native = natives.filter_map(|native| names.native_stacks.get(&native));
        symbols.find(names, native.flat_map(|(frames, _)| frames));
        let mut places = Places::default();
        let mut insert = self
            .database
            .prepare("INSERT INTO stacks VALUES (?, ?, ?)")?;
        // A place with inlined functions is several frames.
        let mut first_frames = vec![1_i64];
        for (id, key) in stacks {
            let mut depth = 0_i64;
            let stack = places.stack(names, symbols, key);
            for location in &places.locations[first_frames.len() - 1..] {
                let last = first_frames.last().copied().unwrap_or(1);
                first_frames.push(last + location.functions.len() as i64);
            }
            for place in stack {
                let place = place as usize;
                for frame in first_frames[place]..first_frames[place + 1] {
                    insert.execute(params![id, depth, frame])?;
                    depth += 1;
                }
            }
        }
        let mut insert = self.database.prepare(
            "INSERT INTO frames (name, file, line, module, address) VALUES (?, ?, ?, ?, ?)",
        )?;
        for location in &places.locations {
            let module = location.module;
            let module = module.and_then(|index| names.modules.get(index as usize));
            let address = (location.address != 0).then(|| signed(location.address));
            for function in &location.functions {
                let file = (!function.file.is_empty()).then_some(&*function.file);
                let line = (function.line > 0).then_some(function.line);
                let path = module.map(|module| &module.path);
                insert.execute(params![&*function.name, file, line, path, address])?;
            }
        }
        Ok(())
    }

    fn facts(&self, session: &Session) -> rusqlite::Result<()> {
        let names = &session.replay.names;
        let mut insert = self
            .database
            .prepare("INSERT OR REPLACE INTO facts VALUES (?, ?)")?;
        for (key, value) in &names.process {
            insert.execute(params![key, value])?;
        }
        for (key, value) in [
            ("pid", u64::from(session.header.pid)),
            ("started_unix_ns", session.header.started_wall_ns),
            ("exact", u64::from(session.account.is_exact())),
            ("events", session.integrity.events),
            ("lost_events", session.integrity.events_lost),
            ("steps", session.replay.spans.steps),
        ] {
            insert.execute(params![key, value.to_string()])?;
        }
        let mut insert = self
            .database
            .prepare("INSERT INTO devices VALUES (?, ?, ?, ?, ?)")?;
        for (ordinal, device) in &names.devices {
            if *ordinal != DeviceOrdinal::NONE {
                let (uuid, total) = (device.uuid_text(), signed(device.total_bytes));
                insert.execute(params![ordinal.0, device.name, uuid, device.pci, total])?;
            }
        }
        Ok(())
    }
}
