//! A dataset: which captures are part of it, and how a part becomes one (`docs/dataset.md`).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;

use crate::keys::Key;
use crate::layout::{DataFile, RANKS, parse_staged};
use crate::list::{List, PRUNED, Part, RELEASED, pruned_table};
use crate::part::{Contents, Entry, Made};
use crate::rows::TABLES;
use crate::store::{Found, Store, StoreError};

/// A dataset at a store.
pub struct Dataset {
    store: Store,
    list: List,
    files: BTreeMap<DataFile, Found>,
    staged: Vec<Found>,
    /// Captures of files that the list does not know.
    unlisted: HashSet<Key>,
}

impl Dataset {
    /// Looks at a dataset; a place without files is an empty one.
    ///
    /// # Errors
    /// The store's.
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

    /// Looks again. The files are listed before the parts: so no file is there whose part is not known.
    ///
    /// # Errors
    /// The store's.
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

    /// Where its files lie.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its parts, by number.
    pub fn parts(&self) -> &BTreeMap<u64, Part> {
        &self.list.parts
    }

    /// Its files with rows that queries see.
    pub fn files(&self) -> &BTreeMap<DataFile, Found> {
        &self.files
    }

    /// Files of captures that wait for [`Dataset::publish`].
    pub fn staged(&self) -> &[Found] {
        &self.staged
    }

    /// Whether a capture was taken in, is being taken in, or was pruned.
    pub fn knows(&self, capture: Key) -> bool {
        self.list.owner(capture).is_some() || self.unlisted.contains(&capture)
    }

    /// Whether a part is one: its file of `ranks` is there.
    pub fn is_complete(&self, part: &Part) -> bool {
        self.files.contains_key(&part.entry.file(RANKS))
    }

    /// Parts that were begun and neither completed nor given up.
    pub fn unfinished(&self) -> Vec<(u64, Entry)> {
        let parts = self.list.parts.iter();
        parts
            .filter(|(_, part)| part.wants(RANKS) && !self.is_complete(part))
            .map(|(number, part)| (*number, part.entry.clone()))
            .collect()
    }

    /// When an entry was made.
    ///
    /// # Errors
    /// The store's.
    pub fn begun(&self, number: u64) -> Result<Option<std::time::SystemTime>, StoreError> {
        let path = crate::layout::entry_path(number);
        let found = self.store.list(crate::layout::PARTS)?;
        let entry = found.into_iter().find(|found| found.path == path);
        Ok(entry.map(|found| found.modified))
    }

    /// Makes a part of the dataset. `false`: another came first with one of its captures, and nothing was written.
    ///
    /// # Errors
    /// The store's: the part is then unfinished, if it was begun.
    pub fn publish(&mut self, made: &Made) -> Result<bool, StoreError> {
        match self.list.claim(&self.store, &made.entry)? {
            Some(number) => self.complete(number, made).map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes what files of a part are not there, `ranks` last.
    ///
    /// # Errors
    /// The store's.
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
        // Who waited long may have been given up meanwhile.
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

    /// Gives a part up: its captures may be taken in again.
    ///
    /// # Errors
    /// The store's.
    pub fn release(&mut self, number: u64) -> Result<(), StoreError> {
        self.list.mark(&self.store, number, RELEASED)?;
        self.remove_unwanted().map(|_| ())
    }

    /// Marks a part, or some of its tables, as removed. [`Dataset::remove_unwanted`] removes the files.
    ///
    /// # Errors
    /// The store's.
    pub fn prune(&mut self, number: u64, tables: &[&'static str]) -> Result<(), StoreError> {
        if tables.is_empty() {
            return self.list.mark(&self.store, number, PRUNED);
        }
        for table in tables {
            self.list.mark(&self.store, number, &pruned_table(table))?;
        }
        Ok(())
    }

    /// Has captures of a pruned part be taken in again by the next ingest that finds them.
    ///
    /// # Errors
    /// The store's.
    pub fn forget(&mut self, number: u64) -> Result<(), StoreError> {
        self.list.mark(&self.store, number, RELEASED)
    }

    /// Removes the files of parts and tables that were given up or pruned, `ranks` first. Returns how many.
    ///
    /// # Errors
    /// The store's.
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

/// The captures of a file of `ranks`: one column is read.
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
