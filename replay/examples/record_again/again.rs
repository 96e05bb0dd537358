//! Records the records of a capture again, with another writer.

use std::collections::HashMap;
use std::path::Path;

use gpumem_capture::{Definition, Event, EventKind, Reader, Record, Seq, Writer};
use gpumem_replay::BoundedReplay;

/// The target of the records, and their numbers in it.
pub struct Again {
    writer: &'static Writer,
    drain: std::thread::JoinHandle<()>,
    numbers: HashMap<u64, u64>,
}

impl Again {
    /// Starts the drain of `writer`. `bounded`: whether its capture is bounded.
    pub fn into(writer: &'static Writer, bounded: bool) -> Self {
        let drain = std::thread::spawn(move || match bounded {
            false => writer.drain(),
            true => writer.drain_bounded(&mut BoundedReplay::default()),
        });
        Self {
            writer,
            drain,
            numbers: HashMap::new(),
        }
    }

    /// Records everything in `from`. `before` is called before each record with the number of records so far.
    pub fn all_of(&mut self, from: &Path, before: &mut dyn FnMut(usize, &Self)) {
        let mut count = 0;
        let read = Reader::open(from).expect("a capture").read(&mut |record| {
            before(count, self);
            count += 1;
            match record {
                Record::Event(seq, event) => self.event(seq, *event),
                Record::Definition(_, definition) => self.define(definition),
                Record::State(..) => panic!("a bounded capture has not all records"),
            }
        });
        assert!(read.expect("a whole capture").is_whole());
    }

    /// Records everything in `from`, with definitions as `change` leaves them.
    #[allow(dead_code, reason = "not every includer of this file calls it")]
    pub fn changing(&mut self, from: &Path, change: &mut dyn FnMut(&mut Definition)) {
        let read = Reader::open(from)
            .expect("a capture")
            .read(&mut |record| match record {
                Record::Event(seq, event) => self.event(seq, *event),
                Record::Definition(_, definition) => {
                    let mut definition = definition.clone();
                    change(&mut definition);
                    self.define(&definition);
                }
                Record::State(..) => panic!("a bounded capture has not all records"),
            });
        assert!(read.expect("a whole capture").is_whole());
    }

    fn event(&mut self, seq: Seq, mut event: Event) {
        // A cancelled free names the free by its number.
        if event.kind == EventKind::CANCEL {
            event.aux = self.numbers.get(&event.aux).copied().unwrap_or(event.aux);
        }
        let now = self.writer.event(&event).expect("room in the ring");
        if event.kind == EventKind::FREE {
            self.numbers.insert(seq.0, now.0);
        }
    }

    /// Records a definition.
    pub fn define(&self, definition: &Definition) {
        self.writer
            .definition(definition.kind(), &[&definition.payload()])
            .expect("room in the ring");
    }

    /// Ends the capture.
    pub fn finish(self) {
        self.writer.stop_drain();
        self.drain.join().expect("the drain");
        self.writer.finish();
    }
}
