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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Event, Options, Record};

    /// A sink that looks at what producers know of the drain while it works.
    struct Looks {
        writer: &'static Writer,
        taken: u64,
        states: u64,
        wrong: u64,
    }

    impl Looks {
        fn expect(&mut self, busy_and_writing: (bool, bool)) {
            let backpressure = &self.writer.backpressure;
            self.wrong += u64::from(backpressure.busy_and_writing() != busy_and_writing);
        }
    }

    impl StateSink for Looks {
        fn take(&mut self, _: Record<'_>) {
            self.taken += 1;
            self.expect((false, false));
        }

        fn state(&mut self, _: usize, out: &mut Vec<u8>) {
            self.states += 1;
            self.expect((true, false));
            out.push(0);
        }
    }

    /// So producers wait for both as long as a drain that does not write is waited for, and longer for a state.
    #[test]
    fn while_a_state_is_made_the_drain_is_busy_and_a_sink_is_not_taken_for_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::default().ring_slots(1024);
        let options = options.stall(std::time::Duration::from_secs(300));
        let least = options.least_bounded();
        let path = folder.path().join("report.bin");
        let writer = Writer::create(&path, &options.bounded(Some(least))).unwrap();
        let drain = std::thread::spawn(move || {
            let mut sink = Looks {
                writer,
                taken: 0,
                states: 0,
                wrong: 0,
            };
            writer.drain_bounded(&mut sink);
            sink
        });
        for n in 0..200_000_u64 {
            let noise = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let event = Event {
                ptr: noise,
                bytes: noise.rotate_left(31) >> 16,
                ..Event::default()
            };
            writer.event(&event).unwrap();
        }
        writer.stop_drain();
        let sink = drain.join().unwrap();
        assert_eq!((sink.taken, sink.wrong), (200_000, 0));
        assert!(sink.states > 0);
    }
}
