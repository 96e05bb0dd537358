//! Finds captures at the given places.

use std::path::Path;
use std::time::SystemTime;

use gpumem_capture::{Identity, OpenError, Reader};
use gpumem_dataset::{Found, Key, Store};

use super::places::StoreArgs;

/// A file that may be a capture.
#[derive(Clone)]
pub struct Candidate {
    /// The number of its store.
    pub store: usize,
    /// The file there.
    pub found: Found,
    /// Its full name.
    pub name: String,
}

/// The kind of a file.
pub enum Is {
    /// A capture with this key.
    Capture(Key),
    /// Not a capture.
    Foreign,
    /// It cannot be read.
    Unreadable(String),
}

/// The stores with captures, and the files in them.
pub struct Sources {
    stores: Vec<Store>,
    /// Candidates, by name.
    pub candidates: Vec<Candidate>,
    /// Places that could not be read, and why.
    pub unreadable: Vec<String>,
}

impl Sources {
    /// Lists places. Files in the dataset's own place are skipped.
    pub fn list(places: &[String], args: StoreArgs, dataset: &str) -> anyhow::Result<Self> {
        let mut sources = Self {
            stores: Vec::new(),
            candidates: Vec::new(),
            unreadable: Vec::new(),
        };
        let own = format!("{}/", absolute(dataset)?.trim_end_matches('/'));
        for place in places {
            match sources.add(place, args) {
                Ok(()) => {}
                Err(error) => sources.unreadable.push(format!("{error:#}")),
            }
        }
        sources.candidates.retain(|of| !of.name.starts_with(&own));
        sources.candidates.sort_by(|a, b| a.name.cmp(&b.name));
        sources.candidates.dedup_by(|a, b| a.name == b.name);
        Ok(sources)
    }

    fn add(&mut self, place: &str, args: StoreArgs) -> anyhow::Result<()> {
        let is_file = !Store::is_remote(place) && Path::new(place).is_file();
        if !Store::is_remote(place) && !Path::new(place).exists() {
            anyhow::bail!("{place}: no such file or folder");
        }
        // A part that is made again finds its captures from any working directory.
        let whole = absolute(place)?;
        let (folder, file) = match whole.rsplit_once('/') {
            Some((folder, file)) if is_file || named_as_capture(place) => (folder, file),
            _ => (&*whole, ""),
        };
        let store = args.store(folder)?;
        // A single object is listed by its name; a place with such a name may still be a folder.
        let found = match file {
            "" => store.list("")?,
            file if is_file => vec![local(&store, file)?],
            file => {
                let mut found = store.list(&format!("{file}/"))?;
                found.extend(
                    store
                        .list("")?
                        .into_iter()
                        .filter(|found| found.path == file),
                );
                found
            }
        };
        let number = self.stores.len();
        for found in found {
            let name = store.name_of(&found.path);
            let is_data = found.path.split('/').any(|part| part.starts_with('_'))
                || found.path.ends_with(".parquet");
            if !is_data {
                self.candidates.push(Candidate {
                    store: number,
                    found,
                    name,
                });
            }
        }
        self.stores.push(store);
        Ok(())
    }

    /// The store of a candidate.
    pub fn store(&self, of: &Candidate) -> anyhow::Result<&Store> {
        let store = self.stores.get(of.store);
        store.ok_or_else(|| anyhow::anyhow!("{}: no store", of.name))
    }

    /// The kind of a candidate, from its first bytes.
    pub fn is(&self, of: &Candidate) -> Is {
        let read = || -> anyhow::Result<Is> {
            if of.found.bytes < Identity::BYTES as u64 {
                return Ok(Is::Foreign);
            }
            let store = self.store(of)?;
            let head = store.get_range(&of.found.path, 0..of.found.bytes.min(4096))?;
            Ok(match gpumem_analyzer::fleet::identity_of(&head) {
                Some(key) => Is::Capture(key),
                None => Is::Foreign,
            })
        };
        match read() {
            Ok(Is::Foreign) if named_as_capture(&of.name) => why_not(of),
            Ok(is) => is,
            Err(error) => Is::Unreadable(format!("{error:#}")),
        }
    }
}

/// Files named `….bin` that are not captures are reported, unless their contents identify them as something else.
fn why_not(of: &Candidate) -> Is {
    if Store::is_remote(&of.name) {
        return Is::Unreadable(format!(
            "{}: not a capture, or its header is damaged",
            of.name
        ));
    }
    match Reader::open(Path::new(&of.name)) {
        Err(OpenError::Foreign { .. }) | Ok(_) => Is::Foreign,
        Err(error) => Is::Unreadable(error.to_string()),
    }
}

/// The absolute path of a folder or file; an object store's place is unchanged.
fn absolute(place: &str) -> anyhow::Result<String> {
    if Store::is_remote(place) {
        return Ok(place.to_owned());
    }
    let path = std::path::absolute(place)?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => anyhow::bail!("{}: its name is not UTF-8", path.display()),
    }
}

fn named_as_capture(name: &str) -> bool {
    name.ends_with(".bin")
}

fn local(store: &Store, file: &str) -> anyhow::Result<Found> {
    let name = store.name_of(file);
    let facts = std::fs::metadata(&name)?;
    Ok(Found {
        path: file.into(),
        bytes: facts.len(),
        modified: facts.modified().unwrap_or(SystemTime::UNIX_EPOCH),
    })
}
