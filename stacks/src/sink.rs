//! Where definitions go.

use gpumem_capture::{Attempt, DefKind, Lost, Refused, Writer};

/// Receives definitions: the capture's writer, or a collector in tests.
pub trait DefinitionSink {
    /// Whether this process can record definitions. Costs one load.
    fn is_open(&self) -> bool;

    /// Records a definition whose payload is the concatenation of `parts`.
    ///
    /// # Errors
    /// The errors of [`Writer::definition`].
    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost>;

    /// The same without waiting, for a caller that holds a lock: see [`DefinitionSink::in_order`].
    ///
    /// # Errors
    /// The errors of [`Writer::definition_without_waiting`].
    fn definition_without_waiting(
        &self,
        _attempt: Attempt,
        kind: DefKind,
        parts: &[&[u8]],
    ) -> Result<Result<(), Lost>, Refused> {
        Ok(self.definition(kind, parts))
    }

    /// Waits for room after a refusal and returns the next attempt.
    fn wait_for_room(&self, _refused: Refused) -> Attempt {
        Attempt::FIRST
    }

    /// Calls `attempt` until it is not refused, and waits for room in between. See [`Writer::in_order`].
    fn in_order<R>(&self, mut attempt: impl FnMut(Attempt) -> Result<R, Refused>) -> R {
        let mut next = Attempt::FIRST;
        loop {
            match attempt(next) {
                Ok(result) => return result,
                Err(refused) => next = self.wait_for_room(refused),
            }
        }
    }
}

impl DefinitionSink for Writer {
    #[inline]
    fn is_open(&self) -> bool {
        self.is_own_process()
    }

    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost> {
        Writer::definition(self, kind, parts).map(|_| ())
    }

    fn definition_without_waiting(
        &self,
        attempt: Attempt,
        kind: DefKind,
        parts: &[&[u8]],
    ) -> Result<Result<(), Lost>, Refused> {
        let recorded = Writer::definition_without_waiting(self, attempt, kind, parts)?;
        Ok(recorded.map(|_| ()))
    }

    fn wait_for_room(&self, refused: Refused) -> Attempt {
        Writer::wait_for_room(self, refused)
    }
}

/// The length of a `str` or `bytes` field, as encoded in definitions.
pub(super) fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}
