//! Lines of source code: which files may be read, and their text.
//!
//! A capture names the files. One from elsewhere could name the viewer's keys, so without `--source-root` only files
//! below the folder of a run or of its script are read, and only for runs of this user on this machine since it was
//! started. Who does not use this machine does not know the id of that boot.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use gpumem_capture::{Header, text};
use gpumem_files::foreign;

use crate::names::Names;

/// Larger files are not read.
const LARGEST_BYTES: u64 = 8 << 20;
/// The maximum length of a line of source in a table.
const COLUMNS: usize = 48;

/// What the user permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// No line of source is shown (`--no-source`, `GPUMEM_NO_SOURCE`).
    pub none: bool,
    /// Files below this folder are read for any capture (`--source-root`).
    pub root: Option<PathBuf>,
}

static PERMISSION: RwLock<Permission> = RwLock::new(Permission {
    none: false,
    root: None,
});

/// Sets what the user permits, for all captures that this process reads from now on.
pub fn permit(permission: Permission) {
    *PERMISSION.write().unwrap_or_else(PoisonError::into_inner) = permission;
}

/// What the user permits.
#[must_use]
pub fn permission() -> Permission {
    let permission = PERMISSION.read().unwrap_or_else(PoisonError::into_inner);
    permission.clone()
}

/// Whether the user wants no line of source to be shown.
#[must_use]
pub fn is_unwanted() -> bool {
    PERMISSION
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .none
}

/// Why no line of source is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The user does not want it.
    Unwanted,
    /// The capture is not one of this user, of this machine, or since it was started.
    Foreign,
    /// The capture has no folder, or the root folder.
    NoFolder,
    /// The files are outside the folder, or have changed since the run.
    Outside,
}

impl Withheld {
    /// What the user can do about it, as a line; `None` if that is what the user wants.
    #[must_use]
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::Unwanted => None,
            Self::Foreign => {
                Some("No source lines: recorded elsewhere, or before a restart. See --source-root.")
            }
            Self::NoFolder | Self::Outside => {
                Some("No source lines: outside the run's folders, or changed. See --source-root.")
            }
        }
    }
}

/// Which files of a capture's run may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readable(Result<Files, Withheld>);

/// The source files of a run, or of the ranks of a job.
#[derive(Debug)]
pub struct Source {
    /// Relative names start here.
    directory: Option<PathBuf>,
    readable: Readable,
    files: HashMap<String, Option<Vec<String>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
    /// Files are below one of these, which have no links.
    folders: Vec<PathBuf>,
    /// Whether the user named the folder. Files below the run's folder are then searched for below it, too.
    is_root: bool,
    /// Files that were changed later may not be the code that ran.
    unchanged_since: Option<SystemTime>,
}

impl Source {
    /// Source files of a run.
    #[must_use]
    pub fn new(names: &Names, header: &Header) -> Self {
        Self {
            directory: names.directory().map(PathBuf::from),
            readable: Readable::of(names, header),
            files: HashMap::new(),
        }
    }

    /// Source files below the folder that the user named, if they have not changed since the run; no others. The same
    /// on every machine that has these files, and at any time: for results that are compared with others.
    #[must_use]
    pub fn below_root(names: &Names, header: &Header) -> Self {
        let mut readable = Readable::of(names, header);
        readable.0 = readable.0.and_then(|files| match files.is_root {
            true => Ok(Files {
                unchanged_since: Some(started(header)),
                ..files
            }),
            false => Err(Withheld::Foreign),
        });
        Self {
            directory: names.directory().map(PathBuf::from),
            readable,
            files: HashMap::new(),
        }
    }

    /// Source files that the ranks of a job name by absolute paths.
    #[must_use]
    pub fn of_job(readable: &Readable) -> Self {
        Self {
            directory: None,
            readable: readable.clone(),
            files: HashMap::new(),
        }
    }

    /// Why no line was shown, if that is so for all lines that a view wanted.
    #[must_use]
    pub fn withheld(&self) -> Option<Withheld> {
        let mut files = self.files.values();
        let is_none = !self.files.is_empty() && files.all(Option::is_none);
        is_none.then(|| {
            self.readable
                .0
                .as_ref()
                .err()
                .copied()
                .unwrap_or(Withheld::Outside)
        })
    }

    /// A line's text, trimmed and cut to a readable length; empty if it is not available.
    pub fn line(&mut self, file: &str, line: u32) -> String {
        let text = self.whole_line(file, line);
        if text.chars().count() <= COLUMNS {
            return text.to_owned();
        }
        text.chars().take(COLUMNS - 1).chain(['…']).collect()
    }

    /// The same without the cut.
    pub fn whole_line(&mut self, file: &str, line: u32) -> &str {
        self.text(file)
            .and_then(|lines| lines.get(line.checked_sub(1)? as usize))
            .map_or("", |line| line.trim())
    }

    /// All lines of a file; `None` if it is not available. Tabs are four blanks.
    pub fn text(&mut self, file: &str) -> Option<&[String]> {
        if file.starts_with('<') {
            return None;
        }
        let (readable, directory) = (&self.readable.0, self.directory.as_deref());
        let lines = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| readable.as_ref().ok()?.read(directory, file));
        lines.as_deref()
    }
}

impl Default for Readable {
    fn default() -> Self {
        Self::NONE
    }
}

impl Readable {
    /// No files.
    pub const NONE: Self = Self(Err(Withheld::NoFolder));

    /// The files of a run.
    #[must_use]
    pub fn of(names: &Names, header: &Header) -> Self {
        Self(Files::of(names, header))
    }

    /// The files of all ranks of a job, if they may be read for each of them.
    #[must_use]
    pub fn of_all<'a>(ranks: impl Iterator<Item = &'a Self>) -> Self {
        let all = ranks.map(|rank| rank.0.clone());
        let all = all.reduce(|one, other| {
            let (mut one, other) = (one?, other?);
            one.folders.extend(other.folders);
            one.folders.sort();
            one.folders.dedup();
            one.unchanged_since = one.unchanged_since.min(other.unchanged_since);
            Ok(one)
        });
        all.map_or(Self::NONE, Self)
    }
}

impl Files {
    fn of(names: &Names, header: &Header) -> Result<Self, Withheld> {
        let permission = PERMISSION.read().unwrap_or_else(PoisonError::into_inner);
        if permission.none {
            return Err(Withheld::Unwanted);
        }
        if let Some(root) = &permission.root {
            return Ok(Self {
                folders: vec![root.canonicalize().map_err(|_| Withheld::NoFolder)?],
                is_root: true,
                unchanged_since: None,
            });
        }
        if !header.is_of_this_user() || !header.is_of_this_boot() {
            return Err(Withheld::Foreign);
        }
        let directory = Path::new(names.directory().unwrap_or_default());
        let script = script(names.command().unwrap_or_default());
        let script = script.map(|script| directory.join(script));
        let folders = [Some(directory), script.as_deref().and_then(Path::parent)];
        let folders: Vec<PathBuf> = folders
            .into_iter()
            .flatten()
            .filter(|folder| folder.is_absolute())
            .filter_map(|folder| folder.canonicalize().ok())
            .filter(|folder| folder.parent().is_some())
            .collect();
        match folders.is_empty() {
            true => Err(Withheld::NoFolder),
            false => Ok(Self {
                folders,
                is_root: false,
                unchanged_since: Some(started(header)),
            }),
        }
    }

    fn read(&self, directory: Option<&Path>, file: &str) -> Option<Vec<String>> {
        let of_run = directory.unwrap_or(Path::new(""));
        let path = of_run.join(file);
        let below = path.strip_prefix(of_run).ok();
        let below = below.filter(|below| self.is_root && below.is_relative());
        let moved = below.and_then(|below| {
            let root = self.folders.first()?;
            foreign::open(&root.join(below)).ok()
        });
        let opened = match moved {
            Some(opened) => opened,
            None => path.is_absolute().then(|| foreign::open(&path).ok())??,
        };
        let real = foreign::real_path(&opened).ok()?;
        if !self.folders.iter().any(|folder| is_below(&real, folder)) {
            return None;
        }
        if let Some(started) = self.unchanged_since
            && opened.metadata().ok()?.modified().ok()? > started
        {
            return None;
        }
        let contents = foreign::read(&opened, LARGEST_BYTES).ok()?;
        let contents = String::from_utf8_lossy(&contents);
        let line = |line: &str| text::clean(&line.replace('\t', "    ")).into_owned();
        Some(contents.lines().map(line).collect())
    }
}

/// The script of a command line: `train.py` of `python -u train.py --epochs 2`.
fn script(command: &str) -> Option<&str> {
    let words = command.split(' ').map(|word| word.trim_matches('\''));
    words.skip(1).find(|word| word.ends_with(".py"))
}

fn started(header: &Header) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(header.started_wall_ns)
}

/// Whether a file is below a folder, and in no hidden folder there, such as `.ssh`.
#[must_use]
pub fn is_below(file: &Path, folder: &Path) -> bool {
    let Ok(below) = file.strip_prefix(folder) else {
        return false;
    };
    below.components().all(|component| match component {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path, unchanged_since: Option<SystemTime>) -> Files {
        Files {
            folders: vec![folder.canonicalize().unwrap()],
            is_root: unchanged_since.is_none(),
            unchanged_since,
        }
    }

    #[test]
    fn only_files_below_the_folder_are_read() {
        let all = tempfile::tempdir().unwrap();
        let run = all.path().join("run");
        std::fs::create_dir_all(run.join(".ssh")).unwrap();
        std::fs::create_dir_all(run.join("src")).unwrap();
        let write =
            |name: &str| std::fs::write(run.join(name), "first\n\tsecond \x1b[2J\n").unwrap();
        ["src/train.py", ".ssh/id", "../secret.py", ".netrc"]
            .into_iter()
            .for_each(write);
        std::os::unix::fs::symlink("../secret.py", run.join("link.py")).unwrap();
        let later = SystemTime::now() + Duration::from_secs(3600);
        let of_run = files(&run, Some(later));
        let read = |name: &str| of_run.read(Some(&run), name);
        let expected = vec!["first".to_owned(), "    second \u{fffd}[2J".to_owned()];
        assert_eq!(read("src/train.py").as_ref(), Some(&expected));
        let absolute = run.join("src/train.py");
        assert_eq!(read(absolute.to_str().unwrap()), Some(expected));
        for refused in [
            "../secret.py",
            "link.py",
            ".ssh/id",
            ".netrc",
            "src/../../secret.py",
            "/etc/passwd",
            "/proc/self/environ",
            "src",
            "none.py",
        ] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_command_line_names_its_script() {
        for (command, expected) in [
            (
                "python /srv/me/train.py --config b.py",
                Some("/srv/me/train.py"),
            ),
            ("/usr/bin/python3.12 -u train.py", Some("train.py")),
            ("train.py", None),
            ("python -m pkg.train", None),
        ] {
            assert_eq!(script(command), expected, "{command}");
        }
    }

    #[test]
    fn a_file_that_changed_since_the_run_is_shown_only_under_a_root_that_the_user_names() {
        let all = tempfile::tempdir().unwrap();
        let here = all.path();
        std::fs::write(here.join("train.py"), "x\n").unwrap();
        let recorded = Some(Path::new("/srv/they/run"));
        let then = files(here, Some(SystemTime::UNIX_EPOCH));
        assert_eq!(then.read(Some(here), "train.py"), None);
        let root = files(here, None);
        let expected = Some(vec!["x".to_owned()]);
        assert_eq!(root.read(recorded, "train.py"), expected);
        assert_eq!(root.read(recorded, "/srv/they/run/train.py"), expected);
        assert_eq!(root.read(recorded, "/srv/they/other/train.py"), None);
        assert_eq!(root.read(recorded, "/srv/they/run/../../etc/passwd"), None);
        assert_eq!(
            root.read(None, here.join("train.py").to_str().unwrap()),
            expected
        );
    }
}
