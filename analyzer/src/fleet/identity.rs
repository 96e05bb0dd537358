//! The key of a capture.

use std::path::Path;

use gpumem_capture::{Identity, OpenError, Reader};
use gpumem_dataset::{Key, Keyed};

/// A capture's key, from its header alone.
///
/// # Errors
/// If the file cannot be opened as a capture.
pub fn identity(path: &Path) -> Result<Key, OpenError> {
    Ok(key(Reader::open(path)?.header().into()))
}

/// A capture's key, from its first bytes: see [`Identity::of_head`]. `None` if they are damaged or not a capture's.
pub fn identity_of(head: &[u8]) -> Option<Key> {
    Identity::of_head(head).map(key)
}

/// The nonce is random and different in every capture. It distinguishes captures of one process, which may write
/// several, and those of processes on two machines with the same number and start time. It cannot be guessed, so no
/// secret is needed.
pub(super) fn key(of: Identity) -> Key {
    Keyed::new("capture")
        .with(&of.nonce.to_string())
        .with(&of.pid.to_string())
        .with(&of.started_wall_ns.to_string())
        .key()
}
