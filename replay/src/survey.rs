//! Collects what rows of all events depend on and is known only at a capture's end.

use gpumem_capture::{Event, EventKind, Level, Record};

use crate::replay::Replay;

impl Replay {
    /// Takes in only what gives other events their meaning: names, marks, and whether a module was called. Figures stay
    /// empty. The records may be those of [`gpumem_capture::Reader::read_sites`]. After all records, the names,
    /// [`Replay::has_modules`], and whether there are steps and phases are those of a replay of the capture. No event up
    /// to [`Replay::last_seq`] was left out.
    pub fn survey(&mut self, record: Record<'_>) {
        match record {
            Record::Event(seq, event) => {
                self.last_seq = self.last_seq.max(seq);
                if !self.spans.mark(event) {
                    self.survey_module(event);
                }
            }
            Record::Definition(..) | Record::State(..) => {
                self.feed(record);
            }
        }
    }

    /// As in [`Replay::tensor_made`].
    fn survey_module(&mut self, event: &Event) {
        let is_made = (event.kind, event.level) == (EventKind::ALLOC, Level::TENSOR);
        if is_made && !self.has_modules() {
            let place = self.place(event.py_stack);
            self.categories.has_modules = place.is_python && place.in_module;
        }
    }
}
