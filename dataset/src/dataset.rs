//! A dataset: its captures and parts, and how a part is added (`docs/dataset.md`).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;

use crate::keys::Key;
use crate::layout::{DataFile, RANKS, parse_staged};
use crate::list::{List, PRUNED, Part, RELEASED, pruned_table};
use crate::part::{Contents, Entry, Made};
use crate::rows::TABLES;
use crate::store::{Found, Store, StoreError};

/// A dataset in a store.
pub struct Dataset {
    store: Store,
    list: List,
    files: BTreeMap<DataFile, Found>,
    staged: Vec<Found>,
    /// Captures of files whose part is not in the list.
    unlisted: HashSet<Key>,
}

impl Dataset {
    /// Opens a dataset; a place without files is an empty dataset.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(store: Store) -> Result<Self, StoreError> {
        let mut dataset = Self {
            store,
            list: List::default(),
            files: BTreeMap::new(),
            staged: Vec::new(),
            unlisted: HashSet::new(),
        };
        dataset.look()?;
        Ok(dataset)
    }

    /// Reads the dataset again. The files are listed before the parts, so that each listed file's part is known.
    ///
    /// # Errors
    /// Those of the store.
    pub fn look(&mut self) -> Result<(), StoreError> {
        (self.files, self.staged) = (BTreeMap::new(), Vec::new());
        for found in self.store.list("")? {
            if let Some(file) = DataFile::parse(&found.path) {
                self.files.insert(file, found);
            } else if parse_staged(&found.path).is_some() {
                self.staged.push(found);
            }
        }
        self.list.refresh(&self.store)?;
        let parts = self.list.parts.values();
        let listed: HashSet<DataFile> = parts.map(|part| part.entry.file(RANKS)).collect();
        self.unlisted.clear();
        for (file, found) in &self.files {
            if file.table == RANKS && !listed.contains(file) {
                let captures = captures_of(self.store.get(&found.path)?);
                self.unlisted
                    .extend(captures.map_err(|error| StoreError::Other {
                        place: self.store.name_of(&found.path),
                        said: error.to_string(),
                    })?);
            }
        }
        Ok(())
    }

    /// The store with its files.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its parts, by number.
    pub fn parts(&self) -> &BTreeMap<u64, Part> {
        &self.list.parts
    }

    /// Its files whose rows queries see.
    pub fn files(&self) -> &BTreeMap<DataFile, Found> {
        &self.files
    }

    /// Files of captures that wait for [`Dataset::publish`].
    pub fn staged(&self) -> &[Found] {
        &self.staged
    }

    /// Whether a capture was ingested, is being ingested, or was pruned.
    pub fn knows(&self, capture: Key) -> bool {
        self.list.owner(capture).is_some() || self.unlisted.contains(&capture)
    }

    /// Whether a part is complete: its file of `ranks` exists.
    pub fn is_complete(&self, part: &Part) -> bool {
        self.files.contains_key(&part.entry.file(RANKS))
    }

    /// Parts that were begun and neither completed nor released.
    pub fn unfinished(&self) -> Vec<(u64, Entry)> {
        let parts = self.list.parts.iter();
        parts
            .filter(|(_, part)| part.wants(RANKS) && !self.is_complete(part))
            .map(|(number, part)| (*number, part.entry.clone()))
            .collect()
    }

    /// When an entry was written.
    ///
    /// # Errors
    /// Those of the store.
    pub fn begun(&self, number: u64) -> Result<Option<std::time::SystemTime>, StoreError> {
        let path = crate::layout::entry_path(number);
        let found = self.store.list(crate::layout::PARTS)?;
        let entry = found.into_iter().find(|found| found.path == path);
        Ok(entry.map(|found| found.modified))
    }

    /// Adds a part to the dataset. Returns `false`, and writes nothing, if another part already has one of its
    /// captures.
    ///
    /// # Errors
    /// Those of the store; the part is then unfinished, if it was begun.
    pub fn publish(&mut self, made: &Made) -> Result<bool, StoreError> {
        match self.list.claim(&self.store, &made.entry)? {
            Some(number) => self.complete(number, made).map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes the missing files of a part, `ranks` last.
    ///
    /// # Errors
    /// Those of the store.
    pub fn complete(&mut self, number: u64, made: &Made) -> Result<(), StoreError> {
        for (file, contents) in &made.files {
            let path = file.path();
            let part = self.list.parts.get(&number);
            let is_wanted = part.is_none_or(|part| part.wants(file.table));
            if !is_wanted || self.files.contains_key(file) {
                continue;
            }
            match contents {
                Contents::Memory(bytes) => self.store.put(&path, bytes)?,
                Contents::File(file) => self.store.put_file(&path, file.path())?,
            }
        }
        // The part may have been released while this process waited.
        self.list.refresh(&self.store)?;
        if self
            .list
            .parts
            .get(&number)
            .is_some_and(|part| !part.wants(RANKS))
        {
            self.look()?;
            self.remove_unwanted()?;
        }
        Ok(())
    }

    /// Releases a part: its captures may be ingested again.
    ///
    /// # Errors
    /// Those of the store.
    pub fn release(&mut self, number: u64) -> Result<(), StoreError> {
        self.list.mark(&self.store, number, RELEASED)?;
        self.remove_unwanted().map(|_| ())
    }

    /// Marks a part, or some of its tables, as removed. [`Dataset::remove_unwanted`] removes the files.
    ///
    /// # Errors
    /// Those of the store.
    pub fn prune(&mut self, number: u64, tables: &[&'static str]) -> Result<(), StoreError> {
        if tables.is_empty() {
            return self.list.mark(&self.store, number, PRUNED);
        }
        for table in tables {
            self.list.mark(&self.store, number, &pruned_table(table))?;
        }
        Ok(())
    }

    /// Lets the next ingest that finds the captures of a pruned part ingest them again.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget(&mut self, number: u64) -> Result<(), StoreError> {
        self.list.mark(&self.store, number, RELEASED)
    }

    /// Removes the files of released or pruned parts and tables, `ranks` first. Returns their number.
    ///
    /// # Errors
    /// Those of the store.
    pub fn remove_unwanted(&mut self) -> Result<usize, StoreError> {
        let (mut wanted, mut unwanted) = (HashSet::new(), BTreeSet::new());
        for part in self.list.parts.values() {
            for table in TABLES {
                let file = part.entry.file(table.name);
                match part.wants(table.name) {
                    true => wanted.insert(file),
                    false => unwanted.insert((table.name != RANKS, file)),
                };
            }
        }
        let mut removed = 0;
        for (_, file) in unwanted {
            if !wanted.contains(&file) && self.files.remove(&file).is_some() {
                self.store.delete(&file.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// The captures in a file of `ranks`; reads only one column.
fn captures_of(contents: Vec<u8>) -> parquet::errors::Result<Vec<Key>> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(contents))?;
    let schema = reader.metadata().file_metadata().schema();
    let capture = schema
        .get_fields()
        .iter()
        .filter(|field| field.name() == "capture");
    let only = parquet::schema::types::Type::group_type_builder(schema.name())
        .with_fields(capture.cloned().collect())
        .build()?;
    let rows = reader.get_row_iter(Some(only))?;
    rows.map(|row| Ok(Key(row?.get_long(0)?))).collect()
}
