//! Operations on the state: streams and events.

use crate::ffi::{Answer, CuError};
use crate::model::State;
use crate::model::context::Current;
use crate::model::stream::*;

impl State {
    /// The context and device of a stream; a default stream has the current ones.
    pub fn stream_at(&mut self, on: On) -> Answer<Current> {
        if on.is_default() {
            return self.current();
        }
        let found = self.streams.get(on.handle());
        let found = found.ok_or(CuError::INVALID_HANDLE)?;
        Ok(Current {
            context: found.context,
            device: found.device,
        })
    }

    /// Whether the legacy stream waits for this one, and this one for it.
    pub fn is_blocking(&self, on: On) -> bool {
        let made = self.streams.get(on.handle());
        on.is_default() || made.is_some_and(|stream| stream.flags & NON_BLOCKING == 0)
    }
}
