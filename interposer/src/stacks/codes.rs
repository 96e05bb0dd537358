//! Code objects of Python: an id each, defined once.

use core::sync::atomic::{AtomicU32, Ordering};

use gpumem_capture::{CodeId, DefKind, Lost};

use super::hash;
use super::sink::{DefinitionSink, length};
use super::table::IdTable;
use crate::python::{CodeText, Frame, Runtime};

/// Ids of code objects.
pub(super) struct Codes {
    ids: IdTable,
    next: AtomicU32,
}

impl Codes {
    pub(super) const fn new() -> Self {
        Self {
            ids: IdTable::new(),
            next: AtomicU32::new(1),
        }
    }

    /// The id of a frame's code object, which is defined if it is new; None if that failed.
    ///
    /// # Safety
    /// As [`Runtime::code`].
    pub(super) unsafe fn id<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        runtime: &Runtime,
        frame: &Frame,
        names: &mut Vec<u8>,
    ) -> Option<CodeId> {
        let define = || {
            // SAFETY: promised by the caller.
            let text = unsafe { runtime.code(frame, names) };
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            match record(sink, id, &text, text.line_table) {
                // The names and the first line are worth having alone.
                Err(Lost::TooLarge) => record(sink, id, &text, &[]),
                recorded => recorded,
            }
            .ok()
            .map(|()| id)
        };
        self.ids
            .get_or_define(hash::code(frame), define)
            .map(CodeId)
    }
}

fn record<S: DefinitionSink + ?Sized>(
    sink: &S,
    id: u32,
    text: &CodeText<'_>,
    line_table: &[u8],
) -> Result<(), Lost> {
    sink.definition(
        DefKind::CODE,
        &[
            &id.to_le_bytes(),
            &text.first_line.to_le_bytes(),
            &0u32.to_le_bytes(),
            &length(text.file),
            text.file,
            &length(text.name),
            text.name,
            &length(line_table),
            line_table,
        ],
    )
}
