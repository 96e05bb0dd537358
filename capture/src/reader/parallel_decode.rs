//! Decodes pages on other threads, ahead of the thread that passes on their records.
//!
//! Only pages that the header states as published are decoded in parallel, because these do not change while
//! the process runs. The other threads follow the pages from one valid header to the next, and queue the
//! decoded pages. They skip damaged pages: the thread that passes on the records reads these again and reports
//! the damage. So the records and the reported damage do not depend on the number of threads.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::input::Input;
use crate::page::{Decoded, Decoder, HEADER_BYTES, Header, Part};

/// More threads would be idle: consuming records costs more than decoding them.
const MOST_THREADS: usize = 3;
/// With fewer bytes of pages, threads are not worth their start.
const WORTH_BYTES: u64 = 1 << 20;

/// The number of additional threads for that many bytes of pages.
pub(super) fn threads_for(bytes: u64) -> usize {
    if bytes < WORTH_BYTES {
        return 0;
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    (cores - 1).min(MOST_THREADS)
}

/// Pages that threads have decoded and that are not consumed yet.
pub(super) struct ParallelDecode<'a> {
    input: &'a Input,
    nonce: u64,
    part: Part,
    /// Nothing is read from this offset on.
    end: u64,
    /// The maximum number of queued pages.
    room: usize,
    queue: Mutex<Queue>,
    /// A page was decoded, or the pages ended.
    decoded: Condvar,
    /// There is a page to decode, or there will be no more.
    wanted: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The offset of the next page that no thread has taken; `None` if it is unknown, or there are no more
    /// pages.
    next: Option<u64>,
    /// The offset without a valid header.
    broken: Option<u64>,
    /// Pages in order, including those that are being decoded.
    pages: VecDeque<Page>,
    /// The number of the first page.
    first: u64,
    /// Buffers for reuse.
    spare: Vec<Decoded>,
    /// Decoding threads. Without any, there is no wait for them.
    at_work: usize,
    is_over: bool,
}

struct Page {
    offset: u64,
    state: State,
}

enum State {
    InWork,
    Whole(Header, Box<Decoded>),
    /// Its content is damaged or unreadable.
    Unfit,
}

/// A page that one thread decodes. It never stays in this state, not even after a panic.
struct Work<'a, 'b> {
    parallel: &'a ParallelDecode<'b>,
    number: u64,
    offset: u64,
    header: Header,
    to: Decoded,
    is_whole: bool,
}

impl Drop for Work<'_, '_> {
    fn drop(&mut self) {
        let (header, to) = (self.header, std::mem::take(&mut self.to));
        let mut queue = self.parallel.queue();
        let at = self.number.checked_sub(queue.first);
        let at = at.and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| queue.pages.get_mut(at)) {
            Some(page) if self.is_whole => page.state = State::Whole(header, Box::new(to)),
            Some(page) => page.state = State::Unfit,
            // It is no longer wanted.
            None => queue.spare.push(to),
        }
        drop(queue);
        self.parallel.decoded.notify_all();
    }
}

/// A decoding thread; dropped when the thread ends, also by a panic.
struct AtWork<'a, 'b>(&'a ParallelDecode<'b>);

impl Drop for AtWork<'_, '_> {
    fn drop(&mut self) {
        self.0.queue().at_work -= 1;
        self.0.decoded.notify_all();
    }
}

/// Stops the threads when dropped.
struct Over<'a, 'b>(&'a ParallelDecode<'b>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.queue().is_over = true;
        self.0.wanted.notify_all();
    }
}

/// Runs `work` while that many threads decode a part of the pages of `input` before `end`. Without threads, `work` gets
/// `None`.
pub(super) fn with<T>(
    input: &Input,
    nonce: u64,
    part: Part,
    end: u64,
    threads: usize,
    work: impl FnOnce(Option<&ParallelDecode<'_>>) -> T,
) -> T {
    if threads == 0 {
        return work(None);
    }
    let parallel = ParallelDecode {
        input,
        nonce,
        part,
        end,
        room: 2 * threads,
        queue: Mutex::default(),
        decoded: Condvar::new(),
        wanted: Condvar::new(),
    };
    thread::scope(|scope| {
        let _over = Over(&parallel);
        for _ in 0..threads {
            parallel.queue().at_work += 1;
            let at_work = AtWork(&parallel);
            let thread = thread::Builder::new().name("pages".into());
            // If the system cannot start a thread, there is one less.
            let _ = thread.spawn_scoped(scope, move || at_work.0.decode());
        }
        work(Some(&parallel))
    })
}

impl ParallelDecode<'_> {
    /// A thread that panicked has left the queue in a consistent state.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page at an offset, swapped with the records in `decoded`. `None` if there is no complete page.
    pub(super) fn take(&self, offset: u64, decoded: &mut Decoded) -> Option<Header> {
        if offset >= self.end {
            return None;
        }
        let mut guard = self.queue();
        loop {
            let queue = &mut *guard;
            match queue.pages.front() {
                Some(page) if page.offset == offset => {
                    let in_work = matches!(page.state, State::InWork);
                    if !in_work || queue.at_work == 0 {
                        break;
                    }
                }
                None if queue.broken == Some(offset) => return None,
                _ if queue.at_work == 0 => return None,
                None if queue.next == Some(offset) => {}
                _ => {
                    queue.begin_at(offset);
                    self.wanted.notify_all();
                }
            }
            guard = wait(&self.decoded, guard);
        }
        let page = guard.pages.pop_front()?;
        guard.first += 1;
        let State::Whole(header, records) = page.state else {
            return None;
        };
        guard.spare.push(std::mem::replace(decoded, *records));
        drop(guard);
        self.wanted.notify_one();
        Some(header)
    }

    /// Decodes pages until no more are wanted.
    fn decode(&self) {
        let Ok(mut decoder) = Decoder::new() else {
            return;
        };
        let mut payload = Vec::new();
        while let Some(mut work) = self.next() {
            // At most 16 MiB, by the header's limits.
            payload.resize(work.header.payload_bytes as usize, 0);
            let start = work.offset + HEADER_BYTES as u64;
            let have = self.input.read(start, &mut payload);
            work.is_whole = have.is_ok_and(|have| have == payload.len())
                && decoder
                    .decode_part(self.part, &work.header, &payload, &mut work.to)
                    .is_ok();
        }
    }

    /// Takes the next page, once there is one and room for it. `None` at the end.
    fn next(&self) -> Option<Work<'_, '_>> {
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return None;
            }
            let next = queue.next.filter(|_| queue.pages.len() < self.room);
            let Some(offset) = next else {
                queue = wait(&self.wanted, queue);
                continue;
            };
            let Some(header) = self.header(offset) else {
                (queue.next, queue.broken) = (None, Some(offset));
                self.decoded.notify_all();
                continue;
            };
            let behind = offset + HEADER_BYTES as u64 + u64::from(header.payload_bytes);
            queue.next = (behind < self.end).then_some(behind);
            let number = queue.first + queue.pages.len() as u64;
            let state = State::InWork;
            queue.pages.push_back(Page { offset, state });
            let to = queue.spare.pop().unwrap_or_default();
            return Some(Work {
                parallel: self,
                number,
                offset,
                header,
                to,
                is_whole: false,
            });
        }
    }

    fn header(&self, offset: u64) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES];
        let have = self.input.read(offset, &mut bytes).ok()?;
        Header::decode(&bytes, self.nonce)
            .ok()
            .filter(|_| have == HEADER_BYTES)
    }
}

impl Queue {
    /// Starts decoding at this offset.
    fn begin_at(&mut self, offset: u64) {
        self.first += self.pages.len() as u64;
        for page in self.pages.drain(..) {
            if let State::Whole(_, decoded) = page.state {
                self.spare.push(*decoded);
            }
        }
        (self.next, self.broken) = (Some(offset), None);
    }
}

fn wait<'a>(condition: &Condvar, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
    condition
        .wait(queue)
        .unwrap_or_else(PoisonError::into_inner)
}
