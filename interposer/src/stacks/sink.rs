//! Where definitions go.

use gpumem_capture::{DefKind, Lost, Writer};

/// Takes definitions: the capture's writer, or a collector in tests.
pub trait DefinitionSink {
    /// Whether definitions can be recorded at all by this process. One load.
    fn is_open(&self) -> bool;

    /// Records a definition whose payload is the concatenation of `parts`.
    ///
    /// # Errors
    /// As [`Writer::definition`]'s.
    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost>;
}

impl DefinitionSink for Writer {
    #[inline]
    fn is_open(&self) -> bool {
        self.is_own_process()
    }

    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost> {
        Writer::definition(self, kind, parts).map(|_| ())
    }
}

/// The length of a `str` or `bytes` field, as definitions have it.
pub(super) fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}
