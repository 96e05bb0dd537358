//! The capture's path: patterns, and names that are already taken.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::launcher::Rank;

/// The path for a pattern.
pub(crate) fn path(pattern: Option<&OsStr>, rank: Option<&Rank>, pid: u32, host: &str) -> PathBuf {
    let Some(pattern) = pattern else {
        return match rank {
            Some(rank) => PathBuf::from(format!("report.rank{}.bin", rank.rank)),
            None => PathBuf::from("report.bin"),
        };
    };
    let mut expanded = Vec::new();
    let mut bytes = pattern.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied();
        let value = match (byte, next) {
            (b'%', Some(b'p')) => pid.to_string(),
            (b'%', Some(b'r')) => rank.map_or(0, |rank| rank.rank).to_string(),
            (b'%', Some(b'h')) => host.to_owned(),
            (b'%', Some(b'%')) => "%".to_owned(),
            _ => {
                expanded.push(byte);
                continue;
            }
        };
        bytes.next();
        expanded.extend_from_slice(value.as_bytes());
    }
    PathBuf::from(OsString::from_vec(expanded))
}

/// Where a capture of the path `wanted` goes: to `name` in it, if it is a folder or ends with `/`. Folders that are
/// missing are created. The reason, if it cannot go there.
pub(crate) fn place(wanted: &Path, name: &Path) -> Result<PathBuf, String> {
    let is_folder = wanted.as_os_str().as_bytes().ends_with(b"/") || wanted.is_dir();
    let path = match is_folder {
        true => wanted.join(name),
        false => wanted.to_owned(),
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: cannot create the folder: {error}", folder.display()))?;
    }
    match path.metadata() {
        Ok(found) if !found.is_file() => Err(format!("{}: not a regular file", path.display())),
        _ => Ok(path),
    }
}

/// The `n`th name to try: report.bin, report-2.bin, report-3.bin …
pub(crate) fn numbered(path: &Path, n: u32) -> PathBuf {
    if n < 2 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{n}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Adds the capture's absolute path to the list, with a NUL at its end. One write at the file's end, so
/// that the entries of several processes do not mix. A list that does not exist (any more) is not created.
pub(crate) fn add_to_list(list: &Path, capture: &Path) -> std::io::Result<()> {
    let mut entry = std::path::absolute(capture)?.into_os_string().into_vec();
    entry.push(0);
    match std::fs::OpenOptions::new().append(true).open(list) {
        Ok(mut file) => file.write_all(&entry),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded() {
        let rank = Rank {
            rank: 2,
            world_size: None,
        };
        assert_eq!(path(None, None, 7, "h"), Path::new("report.bin"));
        assert_eq!(
            path(None, Some(&rank), 7, "h"),
            Path::new("report.rank2.bin")
        );
        let pattern = OsStr::new("out/%h-%r-%p-100%%-%x.bin");
        assert_eq!(
            path(Some(pattern), Some(&rank), 7, "h"),
            Path::new("out/h-2-7-100%-%x.bin")
        );
    }

    #[test]
    fn a_folder_gets_the_capture_and_a_device_gets_nothing() {
        let folder = std::env::temp_dir().join(format!("gpumem-output-{}", std::process::id()));
        let name = Path::new("report.rank1.bin");
        let missing = folder.join("a/b.bin");
        assert_eq!(place(&missing, name).as_ref(), Ok(&missing));
        assert!(folder.join("a").is_dir() && !missing.exists());
        assert_eq!(place(&folder, name), Ok(folder.join(name)));
        let mut slash = folder.join("c").into_os_string();
        slash.push("/");
        assert_eq!(
            place(Path::new(&slash), name),
            Ok(folder.join("c").join(name))
        );
        assert_eq!(place(Path::new("x.bin"), name), Ok("x.bin".into()));
        let refused = place(Path::new("/dev/null"), name).expect_err("a device");
        assert_eq!(refused, "/dev/null: not a regular file");
        let below = place(Path::new("/dev/null/x.bin"), name).expect_err("no folder");
        assert!(
            below.starts_with("/dev/null: cannot create the folder: "),
            "{below}"
        );
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn taken_names_are_numbered() {
        assert_eq!(
            numbered(Path::new("a/report.bin"), 1),
            Path::new("a/report.bin")
        );
        assert_eq!(
            numbered(Path::new("a/report.bin"), 2),
            Path::new("a/report-2.bin")
        );
        assert_eq!(
            numbered(Path::new("report.rank0.bin"), 3),
            Path::new("report.rank0-3.bin")
        );
        assert_eq!(numbered(Path::new("trace"), 2), Path::new("trace-2"));
    }
}
