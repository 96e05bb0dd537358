//! What tools work with.

use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::gpumem::Gpumem;
use crate::refusal::Refusal;
use crate::roots::Roots;
use crate::sessions::Sessions;

/// The folders, the captures that were read, and Python's package if there is one.
#[derive(Debug)]
pub struct Context {
    /// Folders whose files may be named.
    pub roots: Roots,
    /// Captures that were read.
    pub sessions: Sessions,
    /// The command `gpumem`.
    pub gpumem: Option<Gpumem>,
    /// Of the question that is being answered.
    pub cancel: Cancel,
}

impl Context {
    /// The capture that a client names.
    ///
    /// # Errors
    /// There is none, or it is outside the folders.
    pub fn capture(&self, name: &str) -> Result<Capture, Refusal> {
        Capture::named(&self.roots, name)
    }
}
