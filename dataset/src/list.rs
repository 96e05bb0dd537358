//! The list of parts: files in `_parts/`, numbered in the order in which captures were claimed.
//!
//! An entry is made only if there is none of its number, by who knows all entries before it. So of two ingests that want
//! the same capture one comes first, and the other sees it. A mark beside an entry says what became of it later.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::keys::Key;
use crate::layout::{PARTS, entry_path, parse_entry};
use crate::part::Entry;
use crate::store::{Created, Store, StoreError};

/// Its captures may be taken in by another part.
pub const RELEASED: &str = "released";
/// It is removed, and its captures are not taken in again.
pub const PRUNED: &str = "pruned";

/// A part as the list has it.
#[derive(Clone, Debug)]
pub struct Part {
    /// What was said when it was begun.
    pub entry: Entry,
    /// [`RELEASED`], [`PRUNED`], or `pruned-` and a table.
    pub marks: BTreeSet<String>,
}

impl Part {
    /// Whether its captures are free.
    pub fn is_released(&self) -> bool {
        self.marks.contains(RELEASED)
    }

    /// Whether it is removed.
    pub fn is_pruned(&self) -> bool {
        self.marks.contains(PRUNED)
    }

    /// Whether its rows of a table are wanted.
    pub fn wants(&self, table: &str) -> bool {
        let marks = &self.marks;
        !self.is_released() && !self.is_pruned() && !marks.contains(&pruned_table(table))
    }
}

/// The mark of a table that is removed.
pub fn pruned_table(table: &str) -> String {
    format!("{PRUNED}-{table}")
}

/// The whole list.
#[derive(Default)]
pub struct List {
    /// By number.
    pub parts: BTreeMap<u64, Part>,
    owners: HashMap<Key, u64>,
}

impl List {
    /// Reads what is new since the last time.
    ///
    /// # Errors
    /// The store's, and that an entry is damaged.
    pub fn refresh(&mut self, store: &Store) -> Result<(), StoreError> {
        let mut marks: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for found in store.list(PARTS)? {
            match parse_entry(&found.path) {
                Some((number, "json")) if !self.parts.contains_key(&number) => {
                    let contents = store.get(&found.path)?;
                    let entry = serde_json::from_slice(&contents);
                    let entry = entry.map_err(|error| StoreError::Other {
                        place: store.name_of(&found.path),
                        said: format!("damaged: {error}"),
                    })?;
                    self.parts.insert(
                        number,
                        Part {
                            entry,
                            marks: BTreeSet::new(),
                        },
                    );
                }
                Some((number, mark)) if mark != "json" => {
                    marks.entry(number).or_default().insert(mark.into());
                }
                _ => {}
            }
        }
        for (number, part) in &mut self.parts {
            part.marks = marks.remove(number).unwrap_or_default();
        }
        self.owners.clear();
        for (number, part) in &self.parts {
            if !part.is_released() {
                for source in &part.entry.captures {
                    self.owners.entry(source.capture).or_insert(*number);
                }
            }
        }
        Ok(())
    }

    /// The number of the part that a capture belongs to.
    pub fn owner(&self, capture: Key) -> Option<u64> {
        self.owners.get(&capture).copied()
    }

    /// Claims the captures of a part; `None`: another part came first with one of them.
    ///
    /// # Errors
    /// The store's.
    pub fn claim(&mut self, store: &Store, entry: &Entry) -> Result<Option<u64>, StoreError> {
        let contents = serde_json::to_vec(entry).map_err(|error| StoreError::Other {
            place: store.name_of(PARTS),
            said: error.to_string(),
        })?;
        loop {
            let is_taken = |source: &crate::part::Source| self.owner(source.capture).is_some();
            if entry.captures.iter().any(is_taken) {
                return Ok(None);
            }
            let last = self.parts.last_key_value().map_or(0, |(number, _)| *number);
            let number = last + 1;
            let created = store.create(&entry_path(number), &contents)?;
            self.refresh(store)?;
            if created == Created::New {
                return Ok(Some(number));
            }
        }
    }

    /// Marks a part.
    ///
    /// # Errors
    /// The store's.
    pub fn mark(&mut self, store: &Store, number: u64, mark: &str) -> Result<(), StoreError> {
        let path = format!("{PARTS}{number:08}.{mark}");
        store.create(&path, b"")?;
        self.refresh(store)
    }
}
