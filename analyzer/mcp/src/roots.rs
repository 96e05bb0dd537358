//! The folders whose files may be named; files outside are refused.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::refusal::{Refusal, refused};

/// One folder.
#[derive(Clone, Debug)]
struct Root {
    /// Its name as given, made absolute, because clients may use it.
    named: PathBuf,
    /// Its path without symbolic links.
    real: PathBuf,
}

/// The server's folders.
#[derive(Clone, Debug)]
pub struct Roots(Vec<Root>);

impl Roots {
    /// These folders; if empty, the current folder.
    ///
    /// # Errors
    /// One of them cannot be read, or is not a folder.
    pub fn new(named: &[PathBuf]) -> Result<Self, Refusal> {
        let here = [PathBuf::from(".")];
        let named = if named.is_empty() { &here[..] } else { named };
        let root = |folder: &PathBuf| {
            let failed = |error| refused!("{}: {error}: name a folder", folder.display());
            let real = folder.canonicalize().map_err(failed)?;
            if !real.is_dir() {
                return Err(refused!("{}: it is not a folder", folder.display()));
            }
            let named = plain(&std::path::absolute(folder).map_err(failed)?);
            // A `..` after a link means another folder in the text than in the file system.
            let is_it = named.canonicalize().is_ok_and(|named| named == real);
            let named = if is_it { named } else { real.clone() };
            Ok(Root { named, real })
        };
        named.iter().map(root).collect::<Result<_, _>>().map(Self)
    }

    /// The folders, without symbolic links.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|root| root.real.as_path())
    }

    /// The folders, for a message.
    pub fn said(&self) -> String {
        let folders = self.folders().map(|folder| folder.display().to_string());
        folders.collect::<Vec<_>>().join(", ")
    }

    /// A file's name in answers: relative to the only folder, or absolute.
    pub fn shown(&self, path: &Path) -> String {
        let relative = match &self.0[..] {
            [only] => path.strip_prefix(&only.real).ok(),
            _ => None,
        };
        relative.unwrap_or(path).display().to_string()
    }

    /// A capture by the name that a client uses.
    ///
    /// # Errors
    /// It is outside the folders, or does not exist.
    pub fn capture(&self, named: &str) -> Result<PathBuf, Refusal> {
        self.file(Path::new(named))?.ok_or_else(|| {
            let folders = self.said();
            refused!("no capture {named} below {folders}: call captures for a list")
        })
    }

    /// The real path of a file below a folder; `None` if the file does not exist. Whether a file exists outside the
    /// folders is never revealed.
    ///
    /// # Errors
    /// It is outside the folders.
    pub fn file(&self, named: &Path) -> Result<Option<PathBuf>, Refusal> {
        let outside = || {
            let folders = self.said();
            refused!(
                "{}: outside the folders of this server: name a file in {folders}",
                named.display()
            )
        };
        let absolute = |root: &Root| {
            let path = plain(&root.real.join(named));
            let below = path
                .strip_prefix(&root.named)
                .map(|rest| root.real.join(rest));
            below.unwrap_or(path)
        };
        let mut is_inside = false;
        for path in self.0.iter().map(absolute) {
            // Paths that are textually outside are refused without a query of the file system.
            if !self.0.iter().any(|root| path.starts_with(&root.real)) {
                continue;
            }
            is_inside = true;
            let real = match path.canonicalize() {
                Ok(real) => real,
                Err(error) if is_absent(error.kind()) => continue,
                Err(error) => return Err(refused!("{}: {error}", named.display())),
            };
            if !self.0.iter().any(|root| real.starts_with(&root.real)) {
                return Err(outside());
            }
            if real.is_file() {
                return Ok(Some(real));
            }
        }
        if is_inside { Ok(None) } else { Err(outside()) }
    }
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A path without `.` and `..`, by its text only.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn folders() -> (tempfile::TempDir, PathBuf) {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().join("given");
        fs::create_dir_all(root.join("runs")).unwrap();
        fs::write(root.join("runs/a.bin"), "a").unwrap();
        fs::write(all.path().join("secret.bin"), "s").unwrap();
        (all, root)
    }

    fn refusal(roots: &Roots, named: &str) -> String {
        roots.capture(named).unwrap_err().to_string()
    }

    #[test]
    fn files_below_a_folder_are_named_relative_or_absolute() {
        let (_all, root) = folders();
        let roots = Roots::new(std::slice::from_ref(&root)).unwrap();
        let real = root.canonicalize().unwrap().join("runs/a.bin");
        for named in ["runs/a.bin", "./runs/../runs/a.bin", real.to_str().unwrap()] {
            assert_eq!(roots.capture(named), Ok(real.clone()), "{named}");
        }
        assert_eq!(roots.shown(&real), "runs/a.bin");
        assert!(refusal(&roots, "runs").starts_with("no capture runs below"));
    }

    #[test]
    fn dots_do_not_lead_outside_and_existence_is_not_said() {
        let (all, root) = folders();
        let roots = Roots::new(std::slice::from_ref(&root)).unwrap();
        let secret = all.path().join("secret.bin");
        let absent = all.path().join("absent.bin");
        for named in ["../secret.bin", "runs/../../secret.bin", "../absent.bin"] {
            let said = refusal(&roots, named);
            assert!(
                said.contains("outside the folders of this server"),
                "{said}"
            );
        }
        for named in [&secret, &absent] {
            let said = refusal(&roots, named.to_str().unwrap());
            assert!(
                said.contains("outside the folders of this server"),
                "{said}"
            );
        }
    }

    #[test]
    fn symbolic_links_do_not_lead_outside() {
        let (all, root) = folders();
        let roots = Roots::new(std::slice::from_ref(&root)).unwrap();
        symlink(all.path().join("secret.bin"), root.join("link.bin")).unwrap();
        symlink(all.path(), root.join("up")).unwrap();
        symlink(root.join("runs/a.bin"), root.join("inside.bin")).unwrap();
        for named in ["link.bin", "up/secret.bin", "up/given/../secret.bin"] {
            let said = refusal(&roots, named);
            assert!(
                said.contains("outside the folders of this server"),
                "{named}: {said}"
            );
        }
        assert!(roots.capture("inside.bin").is_ok());
        // A `..` after a link is the folder above the link in the text, and above its target in the file system.
        symlink(root.join("runs"), all.path().join("back")).unwrap();
        assert!(refusal(&roots, "../back/a.bin").contains("outside"));
    }

    #[test]
    fn a_folder_may_be_named_by_a_link() {
        let (all, root) = folders();
        let link = all.path().join("link");
        symlink(&root, &link).unwrap();
        let roots = Roots::new(std::slice::from_ref(&link)).unwrap();
        for named in [link.join("runs/a.bin"), root.join("runs/a.bin")] {
            assert!(roots.capture(named.to_str().unwrap()).is_ok(), "{named:?}");
        }
        assert!(roots.capture("runs/a.bin").is_ok());
        // In the text this is `root`, in the file system the folder above the link's target.
        symlink(root.join("runs"), all.path().join("below")).unwrap();
        let roots = Roots::new(&[all.path().join("below/..")]).unwrap();
        assert!(roots.capture("runs/a.bin").is_ok());
        assert!(refusal(&roots, "secret.bin").starts_with("no capture"));
    }
}
