//! The memory on the recorded card outside the pool, held on this card.

use crate::ballast::Ballast;
use crate::foreign::Foreign;

/// The memory of one device.
pub(crate) struct Besides {
    pub(crate) foreign: Foreign,
    ballast: Ballast,
    was: u64,
    /// The most bytes that it had.
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

    /// Holds as many bytes as the recorded card had at this point. The error is the number of bytes
    /// that did not fit.
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
