//! Captures of CUDA graphs and active pools of the recorded run's threads.

use gpumem_capture::ThreadId;

/// A pool, by its number in the allocator.
type Pool = (u64, u64);

/// Captures of CUDA graphs, and pools that are active on a thread (see [`crate::active`]).
#[derive(Debug, Default)]
pub(crate) struct Threads {
    captures: Vec<ThreadId>,
    active: Vec<(ThreadId, Pool)>,
}

impl Threads {
    pub(crate) fn begin_capture(&mut self, thread: ThreadId) {
        self.captures.push(thread);
    }

    pub(crate) fn end_capture(&mut self) {
        self.captures.pop();
    }

    /// Whether a thread's allocation was made in a capture of a CUDA graph: by the capturing thread, or by another one
    /// (a backward) for the graph's pool.
    pub(crate) fn are_captured(&self, thread: ThreadId, is_of_pool: bool) -> bool {
        !self.captures.is_empty() && (is_of_pool || self.captures.contains(&thread))
    }

    pub(crate) fn begin_active(&mut self, thread: ThreadId, pool: Pool) {
        self.active.push((thread, pool));
    }

    pub(crate) fn end_active(&mut self, thread: ThreadId, pool: Pool) {
        if let Some(at) = self.active.iter().rposition(|of| *of == (thread, pool)) {
            self.active.remove(at);
        }
    }

    /// The pool that is active on a thread.
    pub(crate) fn active(&self, thread: ThreadId) -> Option<Pool> {
        let mut active = self.active.iter().rev();
        active.find_map(|(of, pool)| (*of == thread).then_some(*pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_its_threads_and_its_pools() {
        let mut threads = Threads::default();
        assert!(!threads.are_captured(ThreadId(1), true));
        threads.begin_capture(ThreadId(1));
        assert!(
            threads.are_captured(ThreadId(1), false) && threads.are_captured(ThreadId(2), true)
        );
        assert!(!threads.are_captured(ThreadId(2), false));
        threads.end_capture();
        assert!(!threads.are_captured(ThreadId(1), true));
    }

    #[test]
    fn the_innermost_pool_of_a_thread_is_active() {
        let (mut threads, one, two) = (Threads::default(), ThreadId(1), ThreadId(2));
        threads.begin_active(one, (0, 1));
        threads.begin_active(two, (0, 2));
        threads.begin_active(one, (0, 3));
        assert_eq!(
            (threads.active(one), threads.active(two)),
            (Some((0, 3)), Some((0, 2)))
        );
        threads.end_active(one, (0, 2));
        threads.end_active(one, (0, 3));
        assert_eq!(threads.active(one), Some((0, 1)));
        threads.end_active(one, (0, 1));
        assert_eq!(
            (threads.active(one), threads.active(ThreadId(3))),
            (None, None)
        );
    }
}
