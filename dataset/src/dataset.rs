//! A dataset: its parts, and how one is added (`docs/dataset.md`).
//!
//! A part is in the dataset if its file of `ranks` is there, which is written last and removed first. Only a process
//! with the lock changes files. So for it, files of parts without `ranks` are those of a killed process.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Error, Lock, is_unfinished, list, remove, write};
use crate::keys::Key;
use crate::layout::{DataFile, PartName, RANKS};
use crate::part::{Contents, Made};
use crate::read::each_row;
use crate::rows::TABLES;

/// A dataset in a folder.
pub struct Dataset {
    root: PathBuf,
    parts: BTreeMap<PartName, Part>,
    captures: HashSet<Key>,
    /// The number of changes of which this process knows: see [`Lock::changes`].
    seen: Option<u64>,
}

/// A part of a dataset.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its captures.
    pub captures: Vec<Key>,
    /// When the last of them ended: microseconds since 1970.
    pub newest: i64,
    /// Its tables, and the bytes of their files.
    pub tables: BTreeMap<&'static str, u64>,
}

impl Dataset {
    /// Reads a dataset without changing it; a folder without files is an empty dataset.
    ///
    /// # Errors
    /// Those of the system, and damaged files of `ranks`.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let mut dataset = Self {
            root: root.to_owned(),
            parts: BTreeMap::new(),
            captures: HashSet::new(),
            seen: None,
        };
        dataset.look()?;
        Ok(dataset)
    }

    /// Reads a dataset to change it: removes what killed processes left.
    ///
    /// # Errors
    /// The same.
    pub fn open(root: &Path) -> Result<Self, Error> {
        if !root.is_dir() {
            return Self::read(root);
        }
        let lock = Lock::take(root)?;
        let mut dataset = Self::read(root)?;
        dataset.seen = Some(lock.changes()?);
        for path in dataset.look()? {
            remove(root, &path)?;
        }
        Ok(dataset)
    }

    /// Reads which files are there. Returns those that belong to no part.
    fn look(&mut self) -> Result<Vec<String>, Error> {
        let (mut left, mut found) = (Vec::new(), BTreeMap::<PartName, Part>::new());
        for (path, bytes) in list(&self.root)? {
            if let Some(file) = DataFile::parse(&path) {
                let part = found.entry(file.of).or_default();
                part.tables.insert(file.table, bytes);
            } else if is_unfinished(&path) {
                left.push(path);
            }
        }
        let mut before = std::mem::take(&mut self.parts);
        for (name, mut part) in found {
            if !part.tables.contains_key(RANKS) {
                left.extend(part.tables.keys().map(|table| file(&name, table).path()));
                continue;
            }
            (part.captures, part.newest) = match before.remove(&name) {
                Some(known) => (known.captures, known.newest),
                None => {
                    let path = self.root.join(file(&name, RANKS).path());
                    captures_of(&path)?
                }
            };
            self.parts.insert(name, part);
        }
        let captures = self.parts.values().flat_map(|part| &part.captures);
        self.captures = captures.copied().collect();
        Ok(left)
    }

    /// Its parts.
    pub fn parts(&self) -> &BTreeMap<PartName, Part> {
        &self.parts
    }

    /// Whether a capture is part of it.
    pub fn has(&self, capture: Key) -> bool {
        self.captures.contains(&capture)
    }

    /// Takes the lock, and reads what other processes have changed.
    fn lock(&mut self) -> Result<Lock, Error> {
        let lock = Lock::take(&self.root)?;
        if self.seen != Some(lock.changes()?) {
            self.look()?;
        }
        self.seen = Some(lock.count()?);
        Ok(lock)
    }

    /// Adds a part. Returns `false`, and writes nothing, if another process has added one of its captures.
    ///
    /// # Errors
    /// Those of the system; files of the part may then be left, without `ranks`.
    pub fn publish(&mut self, made: &Made) -> Result<bool, Error> {
        let _lock = self.lock()?;
        if made.captures.iter().any(|capture| self.has(*capture)) {
            return Ok(false);
        }
        let mut tables = BTreeMap::new();
        for (table, contents) in &made.files {
            let mut copy = |file: &mut File| match contents {
                Contents::Memory(bytes) => io::Write::write_all(file, bytes),
                Contents::File(from) => io::copy(&mut from.reopen()?, file).map(drop),
            };
            write(&self.root, &file(&made.name, table).path(), &mut copy)?;
            tables.insert(*table, contents.bytes().unwrap_or(0));
        }
        self.captures.extend(&made.captures);
        let part = Part {
            captures: made.captures.clone(),
            newest: made.newest,
            tables,
        };
        self.parts.insert(made.name.clone(), part);
        Ok(true)
    }

    /// Removes a part, `ranks` first; or only its files of these tables.
    ///
    /// # Errors
    /// Those of the system.
    pub fn prune(&mut self, name: &PartName, tables: &[&'static str]) -> Result<(), Error> {
        let _lock = self.lock()?;
        let mut of_part: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        of_part.sort_by_key(|table| *table != RANKS);
        of_part.retain(|table| tables.is_empty() || tables.contains(table));
        for table in &of_part {
            remove(&self.root, &file(name, table).path())?;
        }
        if of_part.contains(&RANKS) {
            let part = self.parts.remove(name).unwrap_or_default();
            for capture in &part.captures {
                self.captures.remove(capture);
            }
        } else if let Some(part) = self.parts.get_mut(name) {
            part.tables.retain(|table, _| !of_part.contains(table));
        }
        Ok(())
    }
}

fn file(part: &PartName, table: &'static str) -> DataFile {
    DataFile {
        of: part.clone(),
        table,
    }
}

/// The captures in a file of `ranks`, and when the last of them ended.
fn captures_of(path: &Path) -> Result<(Vec<Key>, i64), Error> {
    let (mut captures, mut newest) = (Vec::new(), i64::MIN);
    each_row(path, ["capture", "ended"], [], |[capture, ended], []| {
        let missing = || io::Error::from(io::ErrorKind::InvalidData);
        captures.push(Key(capture.ok_or_else(missing)?));
        newest = newest.max(ended.ok_or_else(missing)?);
        Ok(())
    })?;
    Ok((captures, newest))
}
