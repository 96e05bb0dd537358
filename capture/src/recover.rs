//! Merges the ring that a process left into its capture, after the process has ended.
//!
//! The ring is removed only once its capture has all of it, even if this is interrupted; repeating it is harmless.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::header::StaticHeader;
use crate::layout::{self, STATIC_BYTES, dynamic};
use crate::reader::ring_file::{self, Ring};
use crate::reader::{Input, Queue, is_closed};
use crate::ring_file::{NAME_PREFIX, Op};
use crate::slot::SLOT_BYTES;
use crate::{index, procfs};

/// How long a ring's file without an owner is kept, because its process may be about to write the owner.
const YOUNG: Duration = Duration::from_secs(3600);

/// Why a ring could not be merged.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {action}: {source}", path.display())]
#[non_exhaustive]
pub struct MergeError {
    /// The file.
    pub path: PathBuf,
    /// What failed.
    pub action: &'static str,
    /// Why.
    pub source: io::Error,
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merged {
    /// There is nothing to merge: the capture holds its ring or was closed, or the ring is gone, or belongs to another
    /// file of which this one is a copy.
    Nothing,
    /// Its process still exists, or another process is merging it.
    InUse,
    /// The capture or its ring belongs to another user: neither is written to.
    OfAnotherUser,
    /// The capture now has what the ring had, and the ring was removed.
    Done,
}

/// Converts the system's error into the error of `action`.
fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> MergeError {
    move |source| MergeError {
        path: path.to_owned(),
        action,
        source,
    }
}

/// Merges the ring of the capture at `path` into it, if its process has ended.
///
/// # Errors
/// [`MergeError`]: the capture cannot be written to, for example. The ring then stays, and readers of the capture find
/// it.
pub fn merge(path: &Path) -> Result<Merged, MergeError> {
    merge_open(path, &File::open(path).map_err(failed(path, "open"))?)
}

/// The same for an open capture.
pub(crate) fn merge_open(path: &Path, capture: &File) -> Result<Merged, MergeError> {
    let found = capture.metadata().map_err(failed(path, "examine"))?;
    let Some(header) = header_of(capture).filter(|_| found.is_file()) else {
        return Ok(Merged::Nothing);
    };
    match ring_file::find(&header, found.uid()) {
        Ok(Some(ring)) if is_of_another_file(&ring, &found) => Ok(Merged::Nothing),
        Ok(Some(ring)) => into(path, (capture, &found), &header, ring),
        // Reading the capture reports the reason.
        Ok(None) | Err(_) => Ok(Merged::Nothing),
    }
}

/// Merges `ring`, which another process has held open, into the capture at `path`, if its process has ended.
///
/// # Errors
/// [`MergeError`]: as [`merge`]; and if it is not this capture's ring.
pub fn merge_held(path: &Path, ring: File) -> Result<Merged, MergeError> {
    let error = |action| failed(path, action);
    let capture = File::open(path).map_err(error("open"))?;
    let found = capture.metadata().map_err(error("examine"))?;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let header = header_of(&capture)
        .filter(|_| found.is_file())
        .ok_or_else(|| invalid("it is no capture".into()))
        .map_err(error("read"))?;
    let ring = ring_file::held(ring, &header, found.uid())
        .map_err(invalid)
        .map_err(error("take the ring over into"))?;
    into(path, (&capture, &found), &header, ring)
}

/// Removes the rings in `folder` that this user's ended processes have left, after merging them into their captures.
/// `except` stays. Returns how many were merged.
///
/// The process may end meanwhile. So what needs no merge is removed first, and a merge that was interrupted after its
/// last write is not repeated.
pub fn sweep(folder: &Path, except: Option<&Path>) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let rings = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_bytes().starts_with(NAME_PREFIX.as_bytes()) && Some(&*entry.path()) != except
    });
    let captures: Vec<_> = rings.filter_map(|entry| left_for(&entry.path())).collect();
    let merged = captures
        .iter()
        .filter(|capture| matches!(merge(capture), Ok(Merged::Done)));
    merged.count()
}

/// The capture that the ring at `path` must be merged into. A ring without one is removed, if it is this user's and its
/// process has ended.
fn left_for(path: &Path) -> Option<PathBuf> {
    let own = procfs::effective_user();
    let found = std::fs::symlink_metadata(path).ok()?;
    if found.uid() != own || !found.is_file() {
        return None;
    }
    let ring = match ring_file::open(path, own) {
        Ok(ring) => ring?,
        Err(_) => {
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > YOUNG) {
                let _ = std::fs::remove_file(path);
            }
            return None;
        }
    };
    if ring.is_in_use() {
        return None;
    }
    let capture = PathBuf::from(OsStr::from_bytes(&ring.capture));
    let is_its = File::open(&capture)
        .ok()
        .and_then(|file| header_of(&file))
        .is_some_and(|header| header == ring.header);
    // Otherwise the capture is gone, was never created, or is in another container.
    if !is_its && ring.shares_paths() {
        let _ = std::fs::remove_file(path);
    }
    is_its.then_some(capture)
}

/// Whether the ring's capture is at its original path, and is not this file, which has the same header: then the ring
/// stays with that capture. A capture that was moved has none at that path.
fn is_of_another_file(ring: &Ring, this: &Metadata) -> bool {
    let path = Path::new(OsStr::from_bytes(&ring.capture));
    let made = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path);
    made.is_ok_and(|made| {
        let is_other = |found: Metadata| identity(&found) != identity(this);
        made.metadata().is_ok_and(is_other) && header_of(&made).as_ref() == Some(&ring.header)
    })
}

fn header_of(capture: &File) -> Option<StaticHeader> {
    layout::STATIC_COPIES.iter().find_map(|offset| {
        let mut bytes = [0; STATIC_BYTES];
        capture.read_exact_at(&mut bytes, *offset).ok()?;
        StaticHeader::decode(&bytes).ok()
    })
}

/// Merges a ring into the open capture. The path is for errors, and to open the file for writing.
fn into(
    path: &Path,
    (capture, found): (&File, &Metadata),
    header: &StaticHeader,
    ring: Ring,
) -> Result<Merged, MergeError> {
    let error = |action| failed(path, action);
    if ring.is_in_use() {
        return Ok(Merged::InUse);
    }
    let owners = [found.uid(), ring.owner];
    if owners != [procfs::effective_user(); 2] {
        return Ok(Merged::OfAnotherUser);
    }
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    if unsafe { libc::flock(ring.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Ok(Merged::InUse);
    }
    let capture = for_writing(path, capture, found).map_err(error("write to"))?;
    let there = Input::of(path, capture.try_clone().map_err(error("examine"))?);
    // Another process may have merged it and removed it since it was opened.
    let is_whole = is_closed(&there, header).map_err(error("examine"))?;
    if !is_whole {
        write(&capture, header, &ring).map_err(error("take the ring over into"))?;
    }
    if let Some(at) = header.ring_path() {
        remove(&ring.file, at).map_err(error("remove the ring of"))?;
    }
    Ok(match is_whole {
        true => Merged::Nothing,
        false => Merged::Done,
    })
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// The same file, opened for writing. Another file may be at its path meanwhile, which is refused.
fn for_writing(path: &Path, capture: &File, found: &Metadata) -> io::Result<File> {
    let open = |path: &Path| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
    };
    let descriptor = format!("/proc/self/fd/{}", capture.as_raw_fd());
    let opened = match open(Path::new(&descriptor)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => open(path)?,
        opened => opened?,
    };
    match identity(&opened.metadata()?) == identity(found) {
        true => Ok(opened),
        false => Err(io::Error::other("another file took its place")),
    }
}

/// Removes a ring, if its file is still at this path and the name is one of a ring.
fn remove(ring: &File, at: &Path) -> io::Result<()> {
    let name = at.file_name().map_or(&[][..], OsStr::as_bytes);
    let Some(folder) = at
        .parent()
        .filter(|_| name.starts_with(NAME_PREFIX.as_bytes()))
    else {
        return Ok(());
    };
    // The folder cannot be replaced while the name is compared and removed.
    let Ok(folder) = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(folder)
    else {
        return Ok(());
    };
    let at = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
        .join(OsStr::from_bytes(name));
    match std::fs::symlink_metadata(&at) {
        Ok(there) if identity(&there) == identity(&ring.metadata()?) => std::fs::remove_file(&at),
        _ => Ok(()),
    }
}

fn write(capture: &File, header: &StaticHeader, ring: &Ring) -> io::Result<()> {
    let (checks, slots) = (header.checks(), header.ring_slots);
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the ring is damaged");
    let queue = Queue::new(ring.file.try_clone()?, checks, slots, ring.queue_bytes);
    queue.refresh()?;
    let start = header.pages_offset();
    let pages_end = pages_end(ring, header).ok_or_else(damaged)?;
    // What the queue has follows what the file has: a damaged ring chooses no place elsewhere, and no size. The file is
    // cut where pages end, so they cannot end in its head.
    let most = match header.bounded {
        Some(bounded) => bounded.end(start),
        None => (capture.metadata()?.len().max(start)).saturating_add(ring.queue_bytes),
    };
    if !(start..=most).contains(&pages_end) {
        return Err(damaged());
    }
    for (place, op) in queue.ops().iter() {
        if !is_within(op, start..most) {
            return Err(damaged());
        }
        let bytes = queue.bytes_of(*place, op)?.ok_or_else(damaged)?;
        capture.write_all_at(&bytes, op.offset)?;
    }
    let mut head = vec![0; (layout::RING_OFFSET - layout::DYNAMIC_OFFSET) as usize];
    ring.file.read_exact_at(&mut head, layout::DYNAMIC_OFFSET)?;
    let mut put = |place: u64, words: &[u64]| {
        let places = (place - layout::DYNAMIC_OFFSET..).step_by(8);
        for (place, word) in places.zip(words) {
            head[place as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
    };
    put(dynamic::QUEUE, &[0; 4]);
    let journal = match header.bounded {
        Some(bounded) => bounded.end(start),
        None => pages_end.next_multiple_of(4096),
    };
    let mut time = [0; 8];
    capture.read_exact_at(&mut time, dynamic::JOURNAL)?;
    let facts = [u64::from_le_bytes(time), journal, 1];
    let [time, offset, complete] = facts;
    let check = checks.words(dynamic::JOURNAL, &facts);
    put(dynamic::JOURNAL, &[time, offset, complete, check]);
    // The older journal can be removed: all its records are in the ring or in pages.
    capture.set_len(journal)?;
    capture.set_len(journal + u64::from(slots) * SLOT_BYTES as u64)?;
    let mut block = [0; 4096];
    let ring_bytes = u64::from(slots) * SLOT_BYTES as u64;
    for offset in (0..ring_bytes).step_by(block.len()) {
        let block = &mut block[..4096.min((ring_bytes - offset) as usize)];
        ring.file
            .read_exact_at(block, layout::RING_OFFSET + offset)?;
        if block.iter().any(|byte| *byte != 0) {
            capture.write_all_at(block, journal + offset)?;
        }
    }
    capture.write_all_at(&head, layout::DYNAMIC_OFFSET)?;
    capture.sync_data()
}

fn is_within(op: &Op, pages: Range<u64>) -> bool {
    let end = op.offset.checked_add(op.bytes.into());
    op.offset >= pages.start && end.is_some_and(|end| end <= pages.end)
}

/// The end of the pages once the queue is written.
fn pages_end(ring: &Ring, header: &StaticHeader) -> Option<u64> {
    let mut word = [0; 8];
    ring.file
        .read_exact_at(&mut word, dynamic::PAGES_END)
        .ok()?;
    index::open(u64::from_le_bytes(word), header.nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_chooses_no_place_outside_the_pages() {
        let op = |offset, bytes| Op {
            number: 0,
            offset,
            bytes,
            crc: 0,
            pages_end: 0,
            next: 0,
        };
        for (offset, bytes, expected) in [
            (100, 50, true),
            (150, 50, true),
            (99, 50, false),
            (0, 8, false),
            (151, 50, false),
            (u64::MAX, 1, false),
        ] {
            let found = is_within(&op(offset, bytes), 100..200);
            assert_eq!(found, expected, "{offset} {bytes}");
        }
    }

    #[test]
    fn the_file_that_was_examined_is_written_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (
            folder.path().join("report.bin"),
            folder.path().join("other"),
        );
        std::fs::write(&path, "capture").unwrap();
        std::fs::write(&other, "precious").unwrap();
        let capture = File::open(&path).unwrap();
        let found = capture.metadata().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        if let Ok(opened) = for_writing(&path, &capture, &found) {
            opened.write_all_at(b"changed!", 0).unwrap();
        }
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }

    #[test]
    fn only_the_rings_own_name_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [ring, other, link, plain] = ["gpumem-ring-1", "gpumem-ring-2", "gpumem-ring-3", "x"]
            .map(|name| folder.path().join(name));
        std::fs::write(&ring, "ring").unwrap();
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&ring, &link).unwrap();
        std::fs::hard_link(&ring, &plain).unwrap();
        let file = File::open(&ring).unwrap();
        for kept in [&other, &link, &plain] {
            remove(&file, kept).unwrap();
            assert!(kept.symlink_metadata().is_ok(), "{}", kept.display());
        }
        remove(&file, &ring).unwrap();
        assert!(!ring.exists());
    }
}
