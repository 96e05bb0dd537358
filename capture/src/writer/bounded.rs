//! A bounded capture's areas, as the drain writes them.
//!
//! Whenever the process dies, each record is in a whole state (it comes before the state's seq), or in a
//! whole page of the log, or still in the ring: a page is only overwritten once a state that holds its
//! records is whole, and a state only overwrites the older of the two.

use std::collections::VecDeque;
use std::io;

use crate::bounded_layout::BoundedLayout;
use crate::reader::Record;

/// Keeps the state of a bounded capture: what a replay of all its records knows.
pub trait StateSink {
    /// Takes in a record. Each comes once, in order.
    fn take(&mut self, record: Record<'_>);

    /// Writes the state after the records so far, in at most `limit` bytes, to `out`, which is empty.
    fn state(&mut self, limit: usize, out: &mut Vec<u8>);
}

/// A state is written each time that so much of the log was: so the older of the two states also has all
/// records that follow it in the log.
const STATES_A_LAP: u64 = 3;

/// A page in the log.
struct PageAt {
    start: u64,
    end: u64,
    /// The seq after its last record.
    next: u64,
}

/// Where the drain stands in the areas.
pub(super) struct Log {
    pub(super) layout: BoundedLayout,
    /// Where the areas start in the file.
    pub(super) start: u64,
    /// Pages that are in the log, the oldest first.
    pages: VecDeque<PageAt>,
    /// Where the next page goes, if it fits there.
    at: u64,
    /// The newest whole state holds all records before this.
    pub(super) kept: u64,
    /// The area of the next state.
    pub(super) which: usize,
    /// Bytes of pages, and of definitions as they came, since the newest state.
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

    /// Gives the sink a record of `slots` slots, unless it has it from a page that could not be written.
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

    /// Makes room for a page of so many bytes: where it goes. What would be lost with the pages in its way is in the
    /// state that `write_state` writes.
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
        // The oldest pages lie next in the way; those before a jump to the start are older still.
        while let Some(page) = self.pages.front()
            && (overlaps(page) || at < self.at && page.start >= self.at)
        {
            self.pages.pop_front();
        }
        Ok(at)
    }

    /// A page was written there.
    pub(super) fn wrote(&mut self, start: u64, bytes: u64, next: u64) {
        let end = start + bytes;
        self.pages.push_back(PageAt { start, end, next });
        self.at = end;
        self.pages_since += bytes;
    }

    /// Whether it is time for a state.
    pub(super) fn is_due(&self) -> bool {
        self.pages_since >= self.layout.log / STATES_A_LAP
            || self.definitions_since >= self.layout.state
    }
}
