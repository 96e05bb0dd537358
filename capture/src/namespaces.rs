//! The namespaces of a process, which determine whether another process's ids and paths have the same meaning for it.
//!
//! Containers may share a folder in memory (the containers of a Kubernetes pod share /dev/shm) without sharing process
//! ids or files.

use std::os::unix::fs::MetadataExt as _;

/// The namespaces of a process, and its root folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// Inode numbers, from /proc; 0 if unknown, or if the kernel has no namespace of that kind.
    pids: u32,
    time: u32,
    mounts: u32,
    /// Device and inode number of the root folder.
    root: (u64, u64),
}

impl Namespaces {
    pub(crate) const BYTES: usize = 32;

    /// The namespaces of this process. None if /proc is not available.
    pub(crate) fn own() -> Option<Self> {
        let inode = |kind: &str| {
            let found = std::fs::metadata(format!("/proc/self/ns/{kind}")).ok()?;
            u32::try_from(found.ino()).ok()
        };
        let root = std::fs::metadata("/").ok()?;
        Some(Self {
            pids: inode("pid")?,
            // Linux 5.6.
            time: inode("time").unwrap_or(0),
            mounts: inode("mnt")?,
            root: (root.dev(), root.ino()),
        })
    }

    /// Whether a process has the same number and the same time of start in both.
    pub(crate) fn share_processes(&self, other: &Self) -> bool {
        (self.pids, self.time) == (other.pids, other.time)
    }

    /// Whether an absolute path leads to the same file in both.
    pub(crate) fn share_paths(&self, other: &Self) -> bool {
        (self.mounts, self.root) == (other.mounts, other.root)
    }

    /// | offset | size | what |
    /// |---|---|---|
    /// | 0 | 4 | PID namespace |
    /// | 4 | 4 | time namespace |
    /// | 8 | 4 | mount namespace |
    /// | 12 | 4 | zero |
    /// | 16 | 16 | root folder: device, inode number |
    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let words = [
            u64::from(self.pids) | u64::from(self.time) << 32,
            u64::from(self.mounts),
            self.root.0,
            self.root.1,
        ];
        let mut out = [0; Self::BYTES];
        for (to, word) in out.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(word))
        };
        let numbers = word(0)?;
        Some(Self {
            pids: numbers as u32,
            time: (numbers >> 32) as u32,
            mounts: word(8)? as u32,
            root: (word(16)?, word(24)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let own = Namespaces::own().unwrap();
        assert_eq!(Namespaces::decode(&own.encode()), Some(own));
        assert!(own.pids != 0 && own.mounts != 0 && own.root.1 != 0);
        assert_eq!(Namespaces::decode(&own.encode()[1..]), None);
    }

    #[test]
    fn each_namespace_counts_for_what_it_changes() {
        let own = Namespaces::own().unwrap();
        let changed = |change: fn(&mut Namespaces)| {
            let mut other = own;
            change(&mut other);
            (own.share_processes(&other), own.share_paths(&other))
        };
        assert_eq!(changed(|_| ()), (true, true));
        assert_eq!(changed(|other| other.pids += 1), (false, true));
        assert_eq!(changed(|other| other.time += 1), (false, true));
        assert_eq!(changed(|other| other.mounts += 1), (true, false));
        assert_eq!(changed(|other| other.root.0 += 1), (true, false));
        assert_eq!(changed(|other| other.root.1 += 1), (true, false));
    }
}
