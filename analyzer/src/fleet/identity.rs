//! Which capture it is.

use std::path::Path;

use gpumem_capture::{Identity, OpenError, Reader};
use gpumem_dataset::{Key, Keyed};

/// A capture's key, by its header alone.
///
/// # Errors
/// If the file cannot be opened as a capture.
pub fn identity(path: &Path) -> Result<Key, OpenError> {
    Ok(key(Reader::open(path)?.header().into()))
}

/// The same by a capture's first bytes: see [`Identity::of_head`]. `None`: they are no capture's, or damaged.
pub fn identity_of(head: &[u8]) -> Option<Key> {
    Identity::of_head(head).map(key)
}

/// The nonce is random and different in every capture: it tells those of a process apart, which may write several, and
/// those of processes of two machines with the same number that started at the same time. Nobody can guess it, so no secret
/// is needed.
pub(super) fn key(of: Identity) -> Key {
    Keyed::new("capture")
        .with(&of.nonce.to_string())
        .with(&of.pid.to_string())
        .with(&of.started_wall_ns.to_string())
        .key()
}
