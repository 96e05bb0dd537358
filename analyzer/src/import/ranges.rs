//! Ranges that the program named with PyTorch's `record_function`, as far as the snapshot has them.

use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Nanos};
use rustc_hash::FxHashMap;

use super::capture::{CaptureError, Out, cut};
use super::snapshot::{Annotation, Snapshot};

/// The name of an optimizer's range.
const STEP: &[u8] = b"Optimizer.step#";
/// The name of a mark for a snapshot that was taken during the trace.
const SNAPSHOT: &str = "snapshot";

/// Writes ranges, and a step at the end of each optimizer's range.
#[derive(Default)]
pub(super) struct Ranges {
    numbers: FxHashMap<String, u32>,
    /// Handles of open ranges, by name, the newest last.
    open: FxHashMap<u32, Vec<u64>>,
    handles: u64,
    pub steps: u64,
}

impl Ranges {
    /// Writes the start or the end of a range. An end without a start is ignored.
    pub fn annotation(
        &mut self,
        snapshot: &Snapshot<'_>,
        annotation: &Annotation,
        time: Nanos,
        out: &mut Out,
    ) -> Result<(), CaptureError> {
        let name = snapshot.text(annotation.name);
        let number = self.number(&name, out)?;
        if annotation.begins {
            return self.begin(number, time, out);
        }
        self.end(number, time, out)?;
        if snapshot.bytes(annotation.name).starts_with(STEP) {
            self.steps += 1;
            out.event(&mark(EventKind::STEP, self.steps, 0, time))?;
        }
        Ok(())
    }

    /// Writes a mark for a snapshot.
    pub fn snapshot(&mut self, time: Nanos, out: &mut Out) -> Result<(), CaptureError> {
        let number = self.number(SNAPSHOT, out)?;
        self.begin(number, time, out)?;
        self.end(number, time, out)
    }

    fn begin(&mut self, number: u32, time: Nanos, out: &mut Out) -> Result<(), CaptureError> {
        self.handles += 1;
        self.open.entry(number).or_default().push(self.handles);
        let number = u64::from(number);
        out.event(&mark(EventKind::RANGE_BEGIN, number, self.handles, time))
    }

    fn end(&mut self, number: u32, time: Nanos, out: &mut Out) -> Result<(), CaptureError> {
        let newest = self.open.get_mut(&number).and_then(Vec::pop);
        newest.map_or(Ok(()), |handle| {
            out.event(&mark(EventKind::RANGE_END, 0, handle, time))
        })
    }

    fn number(&mut self, name: &str, out: &mut Out) -> Result<u32, CaptureError> {
        if let Some(known) = self.numbers.get(name) {
            return Ok(*known);
        }
        let id = self.numbers.len() as u32 + 1;
        let text = cut(name);
        out.define(&Definition::Range { id, name: text })?;
        self.numbers.insert(name.to_owned(), id);
        Ok(id)
    }
}

fn mark(kind: EventKind, aux: u64, ptr: u64, time: Nanos) -> Event {
    Event {
        time,
        kind,
        aux,
        ptr,
        device: DeviceOrdinal::NONE,
        ..Event::default()
    }
}
