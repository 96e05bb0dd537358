//! Writes the state of a bounded capture.

use std::io;

use super::bounded::{Log, StateSink};
use super::shared::Writer;
use crate::bounded_layout::{STATE_HEADER_BYTES, StateHeader};

impl Writer {
    /// Writes the state into the older area.
    pub(super) fn write_state(
        &self,
        log: &mut Log,
        sink: &mut dyn StateSink,
        pages_end: u64,
    ) -> io::Result<()> {
        let mut body = std::mem::take(&mut log.state);
        body.clear();
        self.backpressure.set_busy(true);
        sink.state(log.layout.state_limit(), &mut body);
        if body.len() > log.layout.state_limit() {
            self.backpressure.set_busy(false);
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let header = StateHeader {
            nonce: self.nonce(),
            seq: log.taken,
            events: log.events,
            definitions: log.definitions,
            bytes: body.len() as u64,
            crc: crc32fast::hash(&body),
        };
        let offset = log.layout.state_offset(log.start, log.which);
        let next = self.ring.tail();
        let behind = offset + STATE_HEADER_BYTES as u64;
        // The header last, so that a complete header implies a complete state.
        let written = self
            .put(&[&body], behind, pages_end, next)
            .and_then(|()| self.put(&[&header.encode()], offset, pages_end, next));
        log.state = body;
        self.backpressure.set_busy(false);
        written?;
        log.kept = log.taken;
        log.which = 1 - log.which;
        (log.pages_since, log.definitions_since) = (0, 0);
        Ok(())
    }
}
