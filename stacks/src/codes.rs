//! Python code objects: each gets an id and is defined once.

use core::sync::atomic::{AtomicU32, Ordering};

use gpumem_capture::{Attempt, CodeId, DefKind, Lost, Refused};
use gpumem_python_frames::{CodeText, Frame, Runtime, hash};

use super::id_table::IdTable;
use super::sink::{DefinitionSink, length};

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

    /// The id of a frame's code object. A new code object is defined first. None if that failed.
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
        let hash = hash::code(frame);
        if let Some(id) = self.ids.get(hash) {
            return Some(CodeId(id));
        }
        // SAFETY: promised by the caller.
        let text = unsafe { runtime.code(frame, names) }?;
        runtime.note_module_call(frame, &text);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut line_table = text.line_table;
        let mut define = |attempt| {
            let mut recorded = record(sink, attempt, id, &text, line_table)?;
            if recorded == Err(Lost::TooLarge) && !line_table.is_empty() {
                // The names and the first line are useful without the line table.
                line_table = &[];
                recorded = record(sink, attempt, id, &text, line_table)?;
            }
            Ok(recorded.ok().map(|()| id))
        };
        sink.in_order(|attempt| self.ids.get_or_define(hash, || define(attempt)))
            .map(CodeId)
    }
}

fn record<S: DefinitionSink + ?Sized>(
    sink: &S,
    attempt: Attempt,
    id: u32,
    text: &CodeText<'_>,
    line_table: &[u8],
) -> Result<Result<(), Lost>, Refused> {
    sink.definition_without_waiting(
        attempt,
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
