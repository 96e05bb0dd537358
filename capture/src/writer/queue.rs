//! Data that is not yet written to the capture: operations in order, in memory that outlives a kill like the ring.
//!
//! The drain adds operations and never waits. The thread that writes the file removes them, and may wait for a disk as
//! long as necessary. The bookkeeping is in this process's own memory; the shared memory has copies for readers after
//! the process has ended.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::head::Checked;
use super::memory::Memory;
use crate::checksum::Checks;
use crate::layout::dynamic;
use crate::ring_file::{OP_BYTES, Op};

/// Memory after this many bytes is returned to the system when no more are in use.
const KEPT: usize = 1 << 20;

/// The queue.
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Operations and their positions, the oldest first.
    ops: VecDeque<(usize, Op)>,
    next_number: u64,
    /// Memory is allocated up to here.
    committed: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an operation: `parts` go to `offset`, after which pages end at `pages_end` and hold the records before
    /// `next`.
    ///
    /// # Errors
    /// ENOSPC: there is no room, and nothing was added.
    pub(super) fn push(
        &self,
        memory: &Memory,
        checks: &Checks,
        parts: &[&[u8]],
        (offset, pages_end, next): (u64, u64, u64),
    ) -> io::Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        parts.iter().for_each(|part| hasher.update(part));
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut state = self.state();
        let op = Op {
            number: state.next_number,
            offset,
            bytes: bytes as u32,
            crc: hasher.finalize(),
            pages_end,
            next,
        };
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let place = state
            .room(op.length(), memory.queue_bytes)
            .ok_or_else(full)?;
        let end = place + op.length();
        if end > state.committed {
            memory.commit(state.committed, end - state.committed)?;
            state.committed = end.next_multiple_of(4096);
        }
        let to = memory.queue().wrapping_add(place);
        let words = op.words(place as u64, checks);
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // The bytes come first, so that a complete header implies complete bytes.
        let mut at = to.wrapping_add(OP_BYTES);
        for part in parts {
            // SAFETY: room was found for header and bytes within the queue, in an unused part.
            unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
            at = at.wrapping_add(part.len());
        }
        core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(header.as_ptr(), to, header.len()) };
        state.ops.push_back((place, op));
        state.next_number += 1;
        Ok(())
    }

    /// The oldest operation and its bytes; no bytes if they are damaged.
    pub(super) fn front(&self, memory: &Memory) -> Option<(Op, Option<Vec<u8>>)> {
        let (place, op) = *self.state().ops.front()?;
        let from = memory.queue().wrapping_add(place + OP_BYTES);
        let mut bytes = vec![0; op.bytes as usize];
        // SAFETY: the operation's bytes lie in the queue, where nothing is put before it is taken out. Others may store
        // there all the same: what is copied then is checked.
        unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        let is_whole = crc32fast::hash(&bytes) == op.crc;
        Some((op, is_whole.then_some(bytes)))
    }

    /// Removes the oldest operation, which is done.
    pub(super) fn pop(&self, memory: &Memory, done: &Checked, checks: &Checks) {
        let mut state = self.state();
        let Some((_, op)) = state.ops.pop_front() else {
            return;
        };
        let next = state.ops.front().map_or(0, |(place, _)| *place);
        done.store(checks, dynamic::QUEUE, [op.number + 1, next as u64, 0]);
        if state.ops.is_empty() && state.committed > KEPT {
            memory.discard(KEPT);
            state.committed = KEPT;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().ops.is_empty()
    }
}

impl State {
    /// A position for an operation of that many bytes.
    fn room(&self, bytes: usize, size: usize) -> Option<usize> {
        let (Some((first, _)), Some((last, op))) = (self.ops.front(), self.ops.back()) else {
            return (bytes <= size).then_some(0);
        };
        let end = last + op.length();
        // One byte stays free between the newest and the oldest.
        if end > *first {
            if end + bytes <= size {
                Some(end)
            } else {
                (bytes < *first).then_some(0)
            }
        } else {
            (end + bytes < *first).then_some(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::options::RingPlace;

    #[test]
    fn operations_come_out_in_order_whatever_their_sizes() {
        let memory = Memory::create(&RingPlace::Private, 64, 64 << 10).unwrap();
        let (queue, checks) = (Queue::new(), Checks::new(7));
        // SAFETY: all zeros are facts that were never written.
        let done: Checked = unsafe { core::mem::zeroed() };
        let (mut pushed, mut popped, mut seed) = (0_u64, 0_u64, 1_u64);
        let bytes_of = |number: u64| vec![number as u8; (number * 7919 % 9000) as usize];
        while popped < 2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if seed >> 62 != 0 {
                let bytes = bytes_of(pushed);
                let (head, tail) = bytes.split_at(bytes.len() / 2);
                let place = (pushed * 3, pushed * 5, pushed + 1);
                match queue.push(&memory, &checks, &[head, tail], place) {
                    Ok(()) => pushed += 1,
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSPC)),
                }
            } else if let Some((op, bytes)) = queue.front(&memory) {
                assert_eq!(
                    (op.number, op.offset, op.next),
                    (popped, popped * 3, popped + 1)
                );
                assert_eq!(bytes, Some(bytes_of(popped)));
                queue.pop(&memory, &done, &checks);
                popped += 1;
            }
        }
    }
}
