//! Deferred releases: blocks that were freed while other streams still used them.
//!
//! A block that only its own stream used returns to the pool at once: its `free_completed` is the entry after its
//! `free_requested`. If `free_completed` comes later, the block was used on other streams (`record_stream`) and was
//! held until these had finished. A snapshot does not record which streams. Placeholder streams are assigned instead,
//! so that the blocks of each return to the pool in the order in which they were freed, like events of one stream.

use rustc_hash::{FxHashMap, FxHashSet};

use super::entry::{Action, Entry};

/// The maximum number of placeholder streams.
const STREAMS: usize = 64;
/// Handles of placeholder streams that are not in the snapshot, downwards from here.
const UNNAMED: u64 = u64::MAX - 1;

/// A deferred release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    requested: u64,
    /// `u64::MAX` if it is not complete.
    completed: u64,
    /// The block's own stream.
    own: u64,
}

/// Deferred releases of a device. Entries are identified by their index in the trace.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// The placeholder stream of each release, by the entry that requests the release.
    streams: FxHashMap<u64, u64>,
    completed: FxHashSet<u64>,
    /// Whether releases have separate entries for the request.
    requests: bool,
}

impl Deferred {
    /// From a trace. `waits` returns whether the release of the block at an address is pending at the end.
    pub fn of<E>(
        entries: impl Iterator<Item = Result<Entry, E>>,
        waits: impl Fn(u64) -> bool,
    ) -> Result<Self, E> {
        let mut deferred = Self::default();
        let mut open: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
        let mut releases = Vec::new();
        let mut known = Vec::new();
        for (number, entry) in (0_u64..).zip(entries) {
            let entry = entry?;
            let stream = entry.stream.unwrap_or(0);
            match entry.action {
                Action::Alloc => {
                    if known.len() < STREAMS / 2 && !known.contains(&stream) {
                        known.push(stream);
                    }
                    // Its completion is missing from the trace.
                    open.remove(&entry.address);
                }
                Action::FreeRequested => {
                    deferred.requests = true;
                    open.insert(entry.address, (number, stream));
                }
                Action::FreeCompleted => {
                    let request = open.remove(&entry.address);
                    if let Some((requested, own)) = request.filter(|(at, _)| at + 1 != number) {
                        deferred.completed.insert(number);
                        releases.push(Release {
                            requested,
                            completed: number,
                            own,
                        });
                    }
                }
                _ => {}
            }
        }
        let still = open.into_iter().filter(|(address, _)| waits(*address));
        releases.extend(still.map(|(_, (requested, own))| Release {
            requested,
            completed: u64::MAX,
            own,
        }));
        releases.sort_unstable_by_key(|release| release.requested);
        deferred.assign(&releases, &known);
        Ok(deferred)
    }

    /// Assigns to each release a stream other than its own whose earlier releases are all completed earlier.
    fn assign(&mut self, releases: &[Release], known: &[u64]) {
        // For each stream, the completion of its newest release.
        let mut streams: Vec<(u64, u64)> = known.iter().map(|stream| (*stream, 0)).collect();
        let mut unnamed = 0;
        for release in releases {
            let fits = |of: &&mut (u64, u64)| of.0 != release.own && of.1 <= release.completed;
            // The fitting stream with the latest completion; of equal ones, the first.
            let fitting = streams.iter_mut().rev().filter(fits);
            if let Some(stream) = fitting.max_by_key(|of| of.1) {
                stream.1 = release.completed;
                self.streams.insert(release.requested, stream.0);
                continue;
            }
            let stream = UNNAMED - unnamed;
            if streams.len() < STREAMS {
                unnamed += 1;
                streams.push((stream, release.completed));
            }
            self.streams.insert(release.requested, stream);
        }
    }

    /// The placeholder stream for the block that this entry frees; `None` if its release was not deferred.
    pub fn stream(&self, entry: u64) -> Option<u64> {
        self.streams.get(&entry).copied()
    }

    /// Whether a deferred release is completed at this entry.
    pub fn is_completed(&self, entry: u64) -> bool {
        self.completed.contains(&entry)
    }

    /// The number of deferred releases.
    pub fn count(&self) -> u64 {
        self.streams.len() as u64
    }

    /// Whether the trace has separate entries for requests of releases.
    pub fn has_requests(&self) -> bool {
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(Action, u64, u64)], waiting: &[u64]) -> Deferred {
        let entries = entries
            .iter()
            .map(|(action, address, stream)| {
                Ok::<_, ()>(Entry {
                    action: *action,
                    address: *address,
                    bytes: 512,
                    stream: Some(*stream),
                    pool: None,
                    time_us: 0,
                    frames: None,
                })
            })
            .collect::<Vec<_>>();
        Deferred::of(entries.into_iter(), |address| waiting.contains(&address)).expect("entries")
    }

    const ALLOC: Action = Action::Alloc;
    const ASKED: Action = Action::FreeRequested;
    const DONE: Action = Action::FreeCompleted;

    #[test]
    fn a_release_whose_completion_comes_next_has_not_waited() {
        let deferred = of(&[(ALLOC, 1, 0), (ASKED, 1, 0), (DONE, 1, 0)], &[]);
        assert_eq!((deferred.count(), deferred.has_requests()), (0, true));
        assert_eq!(deferred.stream(1), None);
    }

    #[test]
    fn a_release_that_waited_is_charged_to_another_stream() {
        let entries = [
            (ALLOC, 1, 7),
            (ALLOC, 2, 0),
            (ASKED, 1, 7),
            (ASKED, 2, 0),
            (DONE, 1, 7),
            (DONE, 2, 0),
        ];
        let deferred = of(&entries, &[]);
        assert_eq!((deferred.stream(2), deferred.stream(3)), (Some(0), Some(7)));
        assert!(deferred.is_completed(4) && deferred.is_completed(5));
    }

    #[test]
    fn releases_that_overtake_one_another_are_of_several_streams() {
        let entries = [
            (ALLOC, 1, 0),
            (ALLOC, 2, 0),
            (ASKED, 1, 0),
            (ASKED, 2, 0),
            (ASKED, 3, 0),
            (DONE, 2, 0),
            (DONE, 3, 0),
            (DONE, 1, 0),
        ];
        let deferred = of(&entries, &[]);
        let [first, second, third] = [2, 3, 4].map(|entry| deferred.stream(entry));
        assert_ne!(first, second);
        assert_eq!(second, third);
        assert!(first.is_some() && first != Some(0) && second.is_some() && second != Some(0));
    }

    #[test]
    fn a_completion_that_is_missing_is_a_wait_only_where_the_block_waits_at_the_end() {
        let entries = [(ASKED, 1, 0), (ASKED, 2, 0), (ALLOC, 1, 0), (ASKED, 3, 0)];
        let deferred = of(&entries, &[2]);
        assert_eq!(deferred.count(), 1);
        assert!(deferred.stream(1).is_some());
    }
}
