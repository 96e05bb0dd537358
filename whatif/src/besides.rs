//! What was on the recorded card beside the pool, taken up on this one.

use crate::ballast::Ballast;
use crate::foreign::Foreign;

/// One device's.
pub(crate) struct Besides {
    pub(crate) foreign: Foreign,
    ballast: Ballast,
    was: u64,
    /// The most that it was.
    pub(crate) most: u64,
}

impl Besides {
    pub(crate) fn new(foreign: Foreign, ballast: Ballast) -> Self {
        Self {
            foreign,
            ballast,
            was: 0,
            most: 0,
        }
    }

    /// Takes up what is there by now. Err: there is no room for so many bytes of it.
    pub(crate) fn hold(&mut self) -> Result<(), u64> {
        let bytes = self.foreign.bytes();
        if bytes == self.was {
            return Ok(());
        }
        let before = core::mem::replace(&mut self.was, bytes);
        self.most = self.most.max(bytes);
        match self.ballast.set(bytes) {
            true => Ok(()),
            false => Err(bytes.saturating_sub(before)),
        }
    }
}
