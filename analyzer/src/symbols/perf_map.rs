//! Names of code generated at run time, from the maps that just-in-time compilers write for perf:
//! `/tmp/perf-PID.map`. Each line has an address, a size (both hexadecimal) and a name.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpumem_capture::{Header, text};
use gpumem_files::foreign;

/// How long after the process was last seen a map may have been written.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Code by its first address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfMap {
    code: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// The maps of a capture's process. A map beside the capture was put there by a user. A map in /tmp is used only
    /// if the process wrote it: in this boot of this machine, while the process ran, with the capture's owner or root
    /// as its owner. Process numbers are reused, and all users may write to /tmp.
    pub fn of(capture: &Path, header: &Header) -> Self {
        let mut map = Self::default();
        let name = format!("perf-{}.map", header.pid);
        let temporary = Path::new("/tmp").join(&name);
        let is_trusted = header.is_of_this_boot()
            && has_owner_of(&temporary, capture)
            && was_written_by(&temporary, capture, header);
        if is_trusted {
            map.read_file(&temporary);
        }
        let beside = beside(capture, &name);
        // A link would show another file.
        if !beside.is_symlink() {
            map.read_file(&beside);
        }
        map
    }

    fn read_file(&mut self, path: &Path) {
        if let Ok(file) = foreign::open(path) {
            self.read(std::io::BufReader::new(file));
        }
    }

    /// Reads a map. If code overlaps, the later line counts.
    pub fn read(&mut self, mut lines: impl BufRead) {
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            if let Some((start, end, name)) = entry(&String::from_utf8_lossy(&line)) {
                self.insert(start, end, name);
            }
            line.clear();
        }
    }

    fn insert(&mut self, start: u64, end: u64, name: String) {
        let older: Vec<u64> = self
            .code
            .range(..end)
            .rev()
            .take_while(|(_, (older_end, _))| *older_end > start)
            .map(|(older, _)| *older)
            .collect();
        for older in older {
            self.code.remove(&older);
        }
        self.code.insert(start, (end, name));
    }

    /// The name of the code at an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.code.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

fn beside(capture: &Path, name: &str) -> PathBuf {
    capture.parent().unwrap_or(Path::new("")).join(name)
}

fn entry(line: &str) -> Option<(u64, u64, String)> {
    let (start, rest) = line.trim_end().split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    let end = start.checked_add(number(size)?)?;
    (start < end && !name.is_empty()).then(|| (start, end, text::clean(name).into_owned()))
}

/// Whether a map's owner is the capture's owner or root.
fn has_owner_of(map: &Path, capture: &Path) -> bool {
    let owner = |path: &Path| path.metadata().map(|facts| facts.uid()).ok();
    owner(map).is_some_and(|uid| uid == 0 || Some(uid) == owner(capture))
}

/// Whether a map was last written while the process ran: after the capture was opened, and before the process ended.
/// If it did not exit normally, before the capture was last written.
fn was_written_by(map: &Path, capture: &Path, header: &Header) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    let Some(written) = modified(map) else {
        return false;
    };
    let opened = SystemTime::UNIX_EPOCH + Duration::from_nanos(header.started_wall_ns);
    let ended = match header.ended {
        Some(ended) => Some(opened + Duration::from_nanos(ended.0)),
        None => modified(capture),
    };
    opened <= written && ended.is_some_and(|ended| written <= ended + AFTERWARDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_within_their_code_and_later_code_takes_the_place_of_older() {
        let mut map = PerfMap::default();
        let text = b"7f00 100 py::train:/home/me/train.py\n8000 80 old kernel\n\
            0x9000 0x10 numba_add\nnonsense\n9100 zz f\n9200 0 empty\n8040 80 new kernel\n\xff\n";
        map.read(&text[..]);
        for (address, name) in [
            (0x7eff, None),
            (0x7f00, Some("py::train:/home/me/train.py")),
            (0x7fff, Some("py::train:/home/me/train.py")),
            (0x8000, None),
            (0x8040, Some("new kernel")),
            (0x80bf, Some("new kernel")),
            (0x80c0, None),
            (0x9008, Some("numba_add")),
            (0x9100, None),
            (0x9200, None),
        ] {
            assert_eq!(map.name(address), name, "{address:#x}");
        }
    }

    #[test]
    fn a_map_lies_beside_its_capture() {
        assert_eq!(
            beside(Path::new("report.bin"), "perf-7.map"),
            Path::new("perf-7.map")
        );
        assert_eq!(
            beside(Path::new("/a/report.bin"), "perf-7.map"),
            Path::new("/a/perf-7.map")
        );
    }
}
