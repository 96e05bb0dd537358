//! The key of a capture.

use gpumem_capture::Identity;
use gpumem_dataset::{Key, Keyed};

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
