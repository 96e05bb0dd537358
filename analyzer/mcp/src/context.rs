//! The state that tools share.

use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::gpumem::Gpumem;
use crate::refusal::Refusal;
use crate::roots::Roots;
use crate::sessions::Sessions;

/// The folders, the captures that were read, and the Python package if there is one.
#[derive(Debug)]
pub struct Context {
    /// Folders whose files may be named.
    pub roots: Roots,
    /// Captures that were read.
    pub sessions: Sessions,
    /// The `gpumem` command.
    pub gpumem: Option<Gpumem>,
    /// The cancellation of the current request.
    pub cancel: Cancel,
}

impl Context {
    /// The capture that a client names.
    ///
    /// # Errors
    /// It does not exist, or is outside the folders.
    pub fn capture(&self, name: &str) -> Result<Capture, Refusal> {
        Capture::named(&self.roots, name)
    }
}
