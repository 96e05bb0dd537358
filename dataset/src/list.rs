//! The list of parts: files in `_parts/`, numbered in the order in which captures were claimed.
//!
//! An entry is written only if its number is free, by a process that knows all earlier entries. So if two ingests claim
//! the same capture, one is first and the other sees the entry. A mark beside an entry records a later release or
//! pruning.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::keys::Key;
use crate::layout::{PARTS, entry_path, parse_entry};
use crate::part::Entry;
use crate::store::{Created, Store, StoreError};

/// Its captures may be ingested into another part.
pub const RELEASED: &str = "released";
/// It is removed, and its captures are not ingested again.
pub const PRUNED: &str = "pruned";

/// A part in the list.
#[derive(Clone, Debug)]
pub struct Part {
    /// The entry that was written when it was begun.
    pub entry: Entry,
    /// [`RELEASED`], [`PRUNED`], or `pruned-` followed by a table.
    pub marks: BTreeSet<String>,
}

impl Part {
    /// Whether its captures may be ingested again.
    pub fn is_released(&self) -> bool {
        self.marks.contains(RELEASED)
    }

    /// Whether it is removed.
    pub fn is_pruned(&self) -> bool {
        self.marks.contains(PRUNED)
    }

    /// Whether its rows of a table are kept.
    pub fn wants(&self, table: &str) -> bool {
        let marks = &self.marks;
        !self.is_released() && !self.is_pruned() && !marks.contains(&pruned_table(table))
    }
}

/// The mark for a removed table.
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
    /// Reads the entries and marks that are new.
    ///
    /// # Errors
    /// Those of the store, and if an entry is damaged.
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

    /// Claims the captures of a part; `None` if another part already has one of them.
    ///
    /// # Errors
    /// Those of the store.
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
    /// Those of the store.
    pub fn mark(&mut self, store: &Store, number: u64, mark: &str) -> Result<(), StoreError> {
        let path = format!("{PARTS}{number:08}.{mark}");
        store.create(&path, b"")?;
        self.refresh(store)
    }
}
