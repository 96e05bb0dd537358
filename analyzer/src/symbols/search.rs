//! Finds the files with a module's names. A file is used only if its build id is the module's, regardless of its path
//! and name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::elf::{self, Elf};
use crate::names::Module;

/// Folder of separate debug files on distributions.
const DEBUG_DIR: &str = "/usr/lib/debug";
/// The maximum number of files below one folder that the user names.
const FILES_LIMIT: usize = 200_000;

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// The folder that replaces this machine's root in recorded paths.
    pub sysroot: Option<PathBuf>,
    /// Folders of separate debug files, searched before the distribution's.
    pub debug_dirs: Vec<PathBuf>,
    /// debuginfod's caches on this machine. Nothing is fetched.
    pub debuginfod: Vec<PathBuf>,
    /// Folders of files copied from another machine.
    pub copied: Vec<PathBuf>,
}

impl Places {
    /// The folders in environment variables: `GPUMEM_DEBUG_DIR`, and the cache of debuginfod's client.
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let debug_dirs = set("GPUMEM_DEBUG_DIR")
            .map(|folders| std::env::split_paths(&folders).collect())
            .unwrap_or_default();
        let home = set("HOME").map(PathBuf::from);
        let below_home = |folder| home.as_ref().map(|home| home.join(folder));
        let debuginfod = match set("DEBUGINFOD_CACHE_PATH") {
            Some(cache) => vec![PathBuf::from(cache)],
            None => set("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| below_home(".cache"))
                .map(|cache| cache.join("debuginfod_client"))
                .into_iter()
                // The folder of clients before 0.180.
                .chain(below_home(".debuginfod_client_cache"))
                .collect(),
        };
        Self {
            debug_dirs,
            debuginfod,
            ..Self::default()
        }
    }

    /// The path on this machine of a recorded path.
    fn here(&self, path: &Path) -> PathBuf {
        match &self.sysroot {
            Some(root) => below(root, path),
            None => path.to_owned(),
        }
    }

    fn all_debug_dirs(&self) -> Vec<PathBuf> {
        let mut folders = self.debug_dirs.clone();
        folders.push(self.here(Path::new(DEBUG_DIR)));
        folders
    }
}

/// `path` with `root` as its root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A file with names of a module, opened once.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) elf: Rc<Elf>,
}

/// Finds files. Each folder that the user named is traversed at most once.
#[derive(Debug)]
pub(super) struct Search {
    places: Places,
    /// Files in [`Places::copied`] by build id.
    copied: Option<BTreeMap<Vec<u8>, Vec<PathBuf>>>,
}

impl Search {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places,
            copied: None,
        }
    }

    /// The files with names of a module, the most informative first; none for a module without a build id, because
    /// its builds cannot be distinguished.
    pub(super) fn files(&mut self, module: &Module) -> Vec<Found> {
        if module.build_id.is_empty() {
            return Vec::new();
        }
        let mut wanted = Wanted {
            build_id: &module.build_id,
            seen: Vec::new(),
            found: Vec::new(),
        };
        let path = Path::new(&module.path);
        wanted.add_with_link(&self.places.here(path), &self.places);
        for folder in self.places.all_debug_dirs() {
            wanted.add(&debug_file(&folder, &module.build_id));
        }
        let hexadecimal = hexadecimal(&module.build_id);
        for cache in &self.places.debuginfod {
            wanted.add(&cache.join(&hexadecimal).join("debuginfo"));
            wanted.add(&cache.join(&hexadecimal).join("executable"));
        }
        for folder in &self.places.copied {
            wanted.add_with_link(&below(folder, path), &self.places);
            wanted.add(&debug_file(folder, &module.build_id));
        }
        let is_complete = wanted.found.iter().any(|found| found.elf.has_dwarf);
        if !is_complete && !self.places.copied.is_empty() {
            let copied = self
                .copied
                .get_or_insert_with(|| by_build_id(&self.places.copied));
            for path in copied.get(&module.build_id).into_iter().flatten() {
                wanted.add_with_link(path, &self.places);
            }
        }
        let mut found = wanted.found;
        found.sort_by_key(|found| (!found.elf.has_dwarf, found.elf.symtab.is_none()));
        found
    }
}

/// The path of the debug file for a build id below a folder.
fn debug_file(folder: &Path, build_id: &[u8]) -> PathBuf {
    let (first, rest) = build_id.split_at(1);
    folder
        .join(".build-id")
        .join(hexadecimal(first))
        .join(hexadecimal(rest) + ".debug")
}

/// Bytes as two digits each.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The result of a search so far.
struct Wanted<'a> {
    build_id: &'a [u8],
    seen: Vec<PathBuf>,
    found: Vec<Found>,
}

impl Wanted<'_> {
    /// Adds the file if it has the build id. Returns its facts.
    fn add(&mut self, path: &Path) -> Option<Rc<Elf>> {
        // One file may have several paths.
        let path = path.canonicalize().ok()?;
        if self.seen.contains(&path) {
            return None;
        }
        let elf = elf::open(&path).filter(|elf| elf.build_id == self.build_id)?;
        let elf = Rc::new(elf);
        self.seen.push(path.clone());
        if elf.has_dwarf || elf.symtab.is_some() || elf.dynsym.is_some() {
            let elf = Rc::clone(&elf);
            self.found.push(Found { path, elf });
        }
        Some(elf)
    }

    /// Adds the file, and the separate file with its debug information.
    fn add_with_link(&mut self, path: &Path, places: &Places) {
        let elf = self.add(path);
        let Some(link) = elf.as_ref().and_then(|elf| elf.debug_link.as_ref()) else {
            return;
        };
        // The link's checksum is not needed: the file is used only if the build ids are equal.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        for folder in [path.parent(), real.parent()].into_iter().flatten() {
            self.add(&folder.join(link));
            self.add(&folder.join(".debug").join(link));
            for debug_dir in places.all_debug_dirs() {
                let inside = match &places.sysroot {
                    Some(root) => folder.strip_prefix(root).unwrap_or(folder),
                    None => folder,
                };
                self.add(&below(&debug_dir, inside).join(link));
                self.add(&debug_dir.join(link));
            }
        }
    }
}

/// All ELF files below the folders by their build ids. Symbolic links to folders are not followed.
fn by_build_id(folders: &[PathBuf]) -> BTreeMap<Vec<u8>, Vec<PathBuf>> {
    let mut found: BTreeMap<Vec<u8>, Vec<PathBuf>> = BTreeMap::new();
    for folder in folders {
        let (mut waiting, mut files) = (vec![folder.clone()], 0);
        while let Some(folder) = waiting.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            let mut entries: Vec<_> = entries.flatten().collect();
            entries.sort_by_key(std::fs::DirEntry::path);
            for entry in entries {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push(entry.path());
                    continue;
                }
                files += 1;
                if files > FILES_LIMIT {
                    return found;
                }
                if let Some(elf) = elf::open(&entry.path())
                    && !elf.build_id.is_empty()
                {
                    found.entry(elf.build_id).or_default().push(entry.path());
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Places {
        Places::of_environment(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn debuginfods_cache_is_where_its_client_keeps_it() {
        let caches = |variables| places(variables).debuginfod;
        assert_eq!(
            caches(&[("HOME", "/home/me")]),
            [
                Path::new("/home/me/.cache/debuginfod_client"),
                Path::new("/home/me/.debuginfod_client_cache"),
            ]
        );
        assert_eq!(
            caches(&[("XDG_CACHE_HOME", "/var/x"), ("HOME", "")]),
            [Path::new("/var/x/debuginfod_client")]
        );
        assert_eq!(
            caches(&[("DEBUGINFOD_CACHE_PATH", "/var/d"), ("HOME", "/home/me")]),
            [Path::new("/var/d")]
        );
        assert!(caches(&[]).is_empty());
    }

    #[test]
    fn several_folders_of_debug_files_can_be_named() {
        assert_eq!(
            places(&[("GPUMEM_DEBUG_DIR", "/a:/b")]).debug_dirs,
            [Path::new("/a"), Path::new("/b")]
        );
    }

    #[test]
    fn a_sysroot_takes_the_roots_place() {
        let mut places = Places::default();
        assert_eq!(places.here(Path::new("/lib/a.so")), Path::new("/lib/a.so"));
        places.sysroot = Some("/other".into());
        assert_eq!(
            places.here(Path::new("/lib/a.so")),
            Path::new("/other/lib/a.so")
        );
        assert_eq!(places.all_debug_dirs(), [Path::new("/other/usr/lib/debug")]);
    }

    #[test]
    fn a_debug_file_lies_under_its_build_id() {
        assert_eq!(
            debug_file(Path::new("/d"), &[0xab, 0x01, 0xff]),
            Path::new("/d/.build-id/ab/01ff.debug")
        );
    }

    /// Copies of this test's own program are found by build id under any name, and not if the build id differs.
    #[test]
    fn a_file_is_found_wherever_it_is_and_only_with_the_modules_build_id() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = std::env::current_exe().expect("path of the test");
        let build_id = elf::open(&own).expect("an ELF file").build_id;
        let module = |build_id: &[u8]| Module {
            id: gpumem_capture::ModuleId(1),
            bias: 0,
            start: 0,
            end: 1,
            path: "/gone/app".into(),
            build_id: build_id.to_vec(),
        };
        let places = |copied: &Path| Places {
            copied: vec![copied.to_owned()],
            ..Places::default()
        };
        let mut other = build_id.clone();
        other[3] ^= 1;
        for place in ["gone/app", "deep/in/there/renamed.so.7"] {
            let copied = folder.path().join(place.replace('/', "-"));
            let file = copied.join(place);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::copy(&own, &file).expect("copied");
            let mut search = Search::new(places(&copied));
            let found = search.files(&module(&build_id));
            assert_eq!(found.len(), 1, "{place}");
            assert_eq!(found[0].path, file.canonicalize().expect("it is there"));
            assert!(found[0].elf.symtab.is_some());
            assert!(search.files(&module(&other)).is_empty());
            assert!(search.files(&module(&[])).is_empty());
        }
    }
}
