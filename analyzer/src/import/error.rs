//! Why an import fails.

use gpumem_capture::OpenError;
use gpumem_capture::embedded::EmbedError;

use super::capture::CaptureError;
use super::snapshot::SnapshotError;

/// Why a snapshot could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It cannot be parsed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The names of native functions cannot be written into it.
    #[error(transparent)]
    Names(#[from] EmbedError),
    /// What was written cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
