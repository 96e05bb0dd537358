//! Operations on the state: contexts.

use crate::ffi::{Answer, CuError};
use crate::model::State;
use crate::model::context::*;
use crate::model::kind::Holding;

impl State {
    /// `cuCtxCreate`: a new context, which costs device memory.
    pub fn create_context(&mut self, device: usize, flags: u32) -> Answer<usize> {
        let handle = self.contexts.live.reserve();
        self.begin_context(handle, device, flags)?;
        Ok(handle)
    }

    /// `cuCtxDestroy`.
    pub fn destroy_context(&mut self, handle: usize) -> Answer<Ending> {
        self.contexts.get(handle)?;
        if self.contexts.primary_of(handle).is_some() {
            return Err(CuError::INVALID_CONTEXT);
        }
        Ok(self.end_context(handle))
    }

    /// `cuCtxDetach`: drops a reference. The last one ends a context that `cuCtxCreate` made.
    pub fn detach_context(&mut self, handle: usize) -> Answer<Ending> {
        let context = self.contexts.get_mut(handle)?;
        if context.attached == 0 {
            return self.destroy_context(handle);
        }
        context.attached -= 1;
        Ok(Ending::default())
    }

    /// `cuDevicePrimaryCtxRetain`.
    pub fn retain_primary(&mut self, device: usize) -> Answer<usize> {
        let Primary { handle, flags, .. } = self.contexts.primary[device];
        if self.contexts.live.get(handle).is_none() {
            self.begin_context(handle, device, flags)?;
        }
        self.contexts.primary[device].references += 1;
        Ok(handle)
    }

    /// `cuDevicePrimaryCtxRelease`: the last one ends the context.
    pub fn release_primary(&mut self, device: usize) -> Answer<Ending> {
        let primary = &mut self.contexts.primary[device];
        if primary.references == 0 {
            return Err(CuError::INVALID_CONTEXT);
        }
        primary.references -= 1;
        let handle = primary.handle;
        if primary.references > 0 || self.contexts.live.get(handle).is_none() {
            return Ok(Ending::default());
        }
        Ok(self.end_context(handle))
    }

    /// `cuDevicePrimaryCtxReset`: everything in it is destroyed. Its references stay. If there is
    /// one, the next use creates the context again, empty.
    pub fn reset_primary(&mut self, device: usize) -> Ending {
        let handle = self.contexts.primary_handle(device);
        if self.contexts.live.get(handle).is_none() {
            return Ending::default();
        }
        self.end_context(handle)
    }

    /// A context that may be made current: a live one, or a primary one with a reference, which its
    /// first use creates.
    pub fn bindable(&self, handle: usize) -> Answer<Current> {
        let device = match self.contexts.live.get(handle) {
            Some(context) => Some(context.device),
            None => {
                let device = self.contexts.primary_of(handle);
                device.filter(|device| self.contexts.primary[*device].references > 0)
            }
        };
        let device = device.ok_or(CuError::CONTEXT_IS_DESTROYED)?;
        Ok(Current {
            context: handle,
            device,
        })
    }

    pub(crate) fn context_or_revive(&mut self, handle: usize) -> Answer<Current> {
        let found = self.bindable(handle)?;
        if self.contexts.live.get(handle).is_none() {
            let flags = self.contexts.primary[found.device].flags;
            self.begin_context(handle, found.device, flags)?;
        }
        Ok(found)
    }

    pub(crate) fn begin_context(&mut self, handle: usize, device: usize, flags: u32) -> Answer {
        let cost = self.books.device(device).context_bytes();
        self.take_held(device, Holding::Context, cost)?;
        self.contexts.insert(handle, device, flags);
        Ok(())
    }

    /// Ends a context and everything in it. With the last context of a device its pools and
    /// physical handles are freed, too, so no memory of the device is left.
    pub(crate) fn end_context(&mut self, handle: usize) -> Ending {
        self.free_allocations_of_context(handle);
        let Some(context) = self.contexts.live.remove(handle) else {
            return Ending::default();
        };
        let device = context.device;
        self.captures.drop_context(handle);
        self.streams.retain(|stream| stream.context != handle);
        self.events.retain(|event| event.context != handle);
        self.forget_arrays_of(handle);
        self.drop_modules_of(handle);
        let books = self.books.device_mut(device);
        books.give_held(
            Holding::Context,
            books.context_bytes() + context.stack_bytes + context.stream_bytes,
        );
        books.give_held(Holding::Touched, context.managed_bytes);
        if !self.contexts.any_on(device) {
            self.free_everything_on(device);
        }
        Ending {
            context: handle,
            stored: context.storage,
        }
    }
}
