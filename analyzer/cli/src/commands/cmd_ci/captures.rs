//! Finds the captures to compare: two files, or two folders whose files are matched by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpumem_analyzer::captures;

/// The captures of one workload.
pub struct Pair {
    /// The workload.
    pub name: String,
    /// Its capture before the change.
    pub base: Option<PathBuf>,
    /// Its capture after it.
    pub head: Option<PathBuf>,
}

/// All workloads of either side, by name. Two files are one workload, `name` or the head's file name.
pub fn pairs(base: Option<&Path>, head: &Path, name: Option<&str>) -> anyhow::Result<Vec<Pair>> {
    let is_file = |path: &Path| !path.is_dir();
    if name.is_some() && !is_file(head) {
        anyhow::bail!(
            "--workload names one capture, but --head {} is a folder: omit one of them",
            head.display()
        );
    }
    let name = name.map_or_else(|| stem(head), str::to_owned);
    if is_file(head) && base.is_none_or(is_file) {
        return Ok(vec![Pair {
            name,
            base: base.map(Path::to_owned),
            head: Some(head.to_owned()),
        }]);
    }
    let side = |path: &Path, named: Option<&str>| match is_file(path) {
        true => Ok([(
            named.map_or_else(|| stem(path), str::to_owned),
            path.to_owned(),
        )]
        .into()),
        false => below(path),
    };
    let mut heads = side(
        head,
        Some(&name).filter(|_| is_file(head)).map(String::as_str),
    )?;
    let mut bases = match base {
        Some(base) => side(base, None)?,
        None => BTreeMap::new(),
    };
    // With a single file, only its own workload is compared.
    if is_file(head) {
        bases.retain(|name, _| heads.contains_key(name));
    } else if base.is_some_and(is_file) {
        heads.retain(|name, _| bases.contains_key(name));
    }
    if heads.is_empty() {
        let base = base.unwrap_or(head).display();
        anyhow::bail!(
            "{}: no capture in this folder is named like {base}: name two files",
            head.display()
        );
    }
    let mut names: Vec<String> = heads.keys().chain(bases.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let pairs = names.into_iter().map(|name| Pair {
        base: bases.remove(&name),
        head: heads.remove(&name),
        name,
    });
    Ok(pairs.collect())
}

/// A capture's name as a workload.
fn stem(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    name.strip_suffix(".bin").unwrap_or(&name).to_owned()
}

/// The captures below a folder, by their names relative to it, without `.bin`.
fn below(folder: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let listing = captures::find(&[folder.to_owned()]);
    if let Some(why) = listing.unreadable.first() {
        anyhow::bail!("{why}: remove it from the captures, or copy it again");
    }
    if listing.captures.is_empty() {
        anyhow::bail!(
            "{}: this folder has no captures: set GPUMEM_OUTPUT to a path in it when you record",
            folder.display()
        );
    }
    let mut workloads = BTreeMap::new();
    for path in listing.captures {
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
        let name = name.strip_suffix(".bin").unwrap_or(&name).to_owned();
        if let Some(other) = workloads.insert(name, path) {
            let other = other.display();
            anyhow::bail!("{other}: another capture has the same name without .bin: rename one");
        }
    }
    Ok(workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURE: &[u8] = include_bytes!("../../../../../tests/data/captures/tiny.bin");

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let capture = name.ends_with(".bin").then_some(CAPTURE);
            std::fs::write(path, capture.unwrap_or_default()).expect("a file");
        }
        folder
    }

    fn said(pairs: &[Pair]) -> Vec<(&str, bool, bool)> {
        let said = pairs.iter();
        said.map(|of| (of.name.as_str(), of.base.is_some(), of.head.is_some()))
            .collect()
    }

    #[test]
    fn folders_are_matched_by_names() {
        let base = folder(&["train.bin", "sub/eval.bin", "old.bin", "notes.txt"]);
        let head = folder(&["train.bin", "sub/eval.bin", "new.bin"]);
        let found = pairs(Some(base.path()), head.path(), None).expect("captures");
        assert_eq!(
            said(&found),
            [
                ("new", false, true),
                ("old", true, false),
                ("sub/eval", true, true),
                ("train", true, true)
            ]
        );
        let one = pairs(Some(base.path()), &head.path().join("train.bin"), None);
        assert_eq!(said(&one.expect("captures")), [("train", true, true)]);
        let one = pairs(Some(&base.path().join("train.bin")), head.path(), None);
        assert_eq!(said(&one.expect("captures")), [("train", true, true)]);
        let none = pairs(Some(&base.path().join("old.bin")), head.path(), None);
        assert!(
            none.err()
                .expect("an error")
                .to_string()
                .contains("no capture in this folder is named like ")
        );
    }

    #[test]
    fn two_files_are_one_workload() {
        let (base, head) = (Path::new("a/base.bin"), Path::new("b/head.bin"));
        assert_eq!(
            said(&pairs(Some(base), head, None).expect("captures")),
            [("head", true, true)]
        );
        let named = pairs(Some(base), head, Some("train")).expect("captures");
        assert_eq!(said(&named), [("train", true, true)]);
    }

    #[test]
    fn a_folder_without_captures_is_an_error() {
        let empty = folder(&["notes.txt"]);
        let error = pairs(None, empty.path(), None).err().expect("an error");
        assert!(
            error.to_string().contains("this folder has no captures"),
            "{error}"
        );
        assert!(pairs(None, empty.path(), Some("train")).is_err());
    }
}
