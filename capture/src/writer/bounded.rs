//! A bounded capture's areas, as written by the drain.
//!
//! Whenever the process dies, each record is in a complete state (it comes before the state's seq), in a complete
//! page of the log, or still in the ring. A page is only overwritten once a state with its records is complete, and
//! a state only overwrites the older of the two.

use std::collections::VecDeque;
use std::io;

use crate::bounded_layout::BoundedLayout;
use crate::reader::Record;

/// Keeps the state of a bounded capture: the result of a replay of all its records.
pub trait StateSink {
    /// Applies a record. Each comes once, in order.
    fn take(&mut self, record: Record<'_>);

    /// Writes the state after the records so far, in at most `limit` bytes, to `out`, which is empty.
    fn state(&mut self, limit: usize, out: &mut Vec<u8>);
}

/// The number of states written per lap of the log. With this many, all records after the older of the two states
/// are still in the log.
const STATES_A_LAP: u64 = 3;

/// A page in the log.
struct PageAt {
    start: u64,
    end: u64,
    /// The seq after its last record.
    next: u64,
}

/// The drain's position in the areas.
pub(super) struct Log {
    pub(super) layout: BoundedLayout,
    /// The offset of the areas in the file.
    pub(super) start: u64,
    /// Pages that are in the log, the oldest first.
    pages: VecDeque<PageAt>,
    /// The offset of the next page, if it fits there.
    at: u64,
    /// The newest complete state holds all records before this.
    pub(super) kept: u64,
    /// The area of the next state.
    pub(super) which: usize,
    /// Bytes of pages, and of uncompressed definitions, since the newest state.
    pub(super) pages_since: u64,
    pub(super) definitions_since: u64,
    /// The sink has all records before this.
    pub(super) taken: u64,
    pub(super) events: u64,
    pub(super) definitions: u64,
    pub(super) state: Vec<u8>,
}

impl Log {
    pub(super) fn new(layout: BoundedLayout, start: u64) -> Self {
        Self {
            layout,
            start,
            pages: VecDeque::new(),
            at: layout.log_offset(start),
            kept: 0,
            which: 0,
            pages_since: 0,
            definitions_since: 0,
            taken: 0,
            events: 0,
            definitions: 0,
            state: Vec::new(),
        }
    }

    /// Passes a record of `slots` slots to the sink, unless the sink already has it from a page that could not be
    /// written.
    pub(super) fn take(&mut self, sink: &mut dyn StateSink, record: Record<'_>, slots: u64) {
        let (Record::Event(seq, _) | Record::Definition(seq, _) | Record::State(seq, _)) = record;
        if seq.0 < self.taken {
            return;
        }
        self.taken = seq.0 + slots;
        match record {
            Record::Event(..) => self.events += 1,
            Record::Definition(..) | Record::State(..) => {
                self.definitions += 1;
                self.definitions_since += 64 * slots;
            }
        }
        sink.take(record);
    }

    /// Makes room for a page of that many bytes; returns its offset. Records of the pages that it overwrites are in
    /// the state that `write_state` writes.
    pub(super) fn room(
        &mut self,
        bytes: u64,
        write_state: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<u64> {
        let (start, end) = (
            self.layout.log_offset(self.start),
            self.layout.end(self.start),
        );
        if bytes > end - start {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let at = if bytes > end - self.at {
            start
        } else {
            self.at
        };
        let overlaps = |page: &PageAt| page.start < at + bytes && page.end > at;
        let newest = self.pages.iter().rev().find(|page| overlaps(page));
        if newest.is_some_and(|page| page.next > self.kept) {
            write_state(self)?;
        }
        // The oldest pages are overwritten first; those before a jump to the start are older.
        while let Some(page) = self.pages.front()
            && (overlaps(page) || at < self.at && page.start >= self.at)
        {
            self.pages.pop_front();
        }
        Ok(at)
    }

    /// Records that a page was written there.
    pub(super) fn wrote(&mut self, start: u64, bytes: u64, next: u64) {
        let end = start + bytes;
        self.pages.push_back(PageAt { start, end, next });
        self.at = end;
        self.pages_since += bytes;
    }

    /// Whether the next state is due.
    pub(super) fn is_due(&self) -> bool {
        self.pages_since >= self.layout.log / STATES_A_LAP
            || self.definitions_since >= self.layout.state
    }
}
