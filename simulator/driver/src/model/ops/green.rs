//! Operations on the state: green contexts.

use crate::ffi::{Answer, CuError};
use crate::model::State;
use crate::model::context::Ending;
use crate::model::green::*;

impl State {
    /// `cuGreenCtxCreate`: retains the primary context.
    pub fn create_green(&mut self, descriptor: usize, device: usize) -> Answer<usize> {
        let resource = self.greens.descriptors.get(descriptor);
        let resource = *resource.ok_or(CuError::INVALID_VALUE)?;
        if resource.device()? != device {
            return Err(INVALID_CONFIGURATION);
        }
        self.retain_primary(device)?;
        self.greens.made += 1;
        let id = FIRST_ID + self.greens.made;
        Ok(self.greens.live.insert(Green {
            device,
            id,
            resource,
        }))
    }

    /// `cuGreenCtxDestroy`: releases the primary context. Streams that were created in it stay.
    pub fn destroy_green(&mut self, handle: usize) -> Answer<Ending> {
        let gone = self.greens.live.remove(handle);
        let gone = gone.ok_or(CuError::INVALID_CONTEXT)?;
        self.greens.streams.retain(|_, green| *green != handle);
        self.release_primary(gone.device)
    }
}
