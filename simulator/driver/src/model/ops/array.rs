//! Operations on the state: arrays.

use crate::ffi::{Answer, CuError, require};
use crate::model::State;
use crate::model::array::*;
use crate::model::context::Current;
use crate::model::formats::planes;
use crate::model::kind::Kind;
use gpumem_cuda_abi::CuArray3dDescriptor;

impl State {
    /// `cuArrayCreate`, `cuMipmappedArrayCreate`.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for sparse arrays and those with deferred mapping.
    pub fn create_array(
        &mut self,
        at: Current,
        descriptor: CuArray3dDescriptor,
        count: u32,
    ) -> Answer<usize> {
        let levels = levels(&descriptor, count)?;
        let sizes = levels.iter().map(|(_, bytes)| *bytes);
        let total = sizes.fold(0u64, |sum, bytes| sum.saturating_add(bytes));
        if descriptor.flags & SPARSE != 0 {
            return Err(CuError::NOT_SUPPORTED);
        }
        let base = self.allocate_device(at, total, Kind::Array)?;
        Ok(self.keep_array(at, descriptor, base, levels))
    }

    /// Adds an array whose bytes are at `base`, with its levels if it has more than one.
    pub fn keep_array(
        &mut self,
        at: Current,
        descriptor: CuArray3dDescriptor,
        base: u64,
        levels: Vec<(CuArray3dDescriptor, u64)>,
    ) -> usize {
        let one = |descriptor, base, owns, levels| Array {
            context: at.context,
            descriptor,
            base,
            owns,
            levels,
            planes: Vec::new(),
        };
        let mut handles = Vec::new();
        if levels.len() > 1 {
            let mut base = base;
            for (descriptor, bytes) in levels {
                handles.push(self.arrays.insert(one(descriptor, base, false, Vec::new())));
                base += bytes;
            }
        }
        self.arrays.insert(one(descriptor, base, true, handles))
    }

    /// `cuArrayGetPlane`: an array over part of the bytes, which is destroyed with the whole one.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the format has no such plane.
    pub fn plane(&mut self, handle: usize, index: u32) -> Answer<usize> {
        let array = self.arrays.get(handle).ok_or(CuError::INVALID_HANDLE)?;
        let (context, whole, mut base) = (array.context, array.descriptor, array.base);
        if let Some(known) = array.planes.get(index as usize) {
            return Ok(*known);
        }
        let planes = planes(whole.format);
        require((index as usize) < planes.len() && array.owns && whole.depth == 0)?;
        let mut handles = Vec::new();
        for plane in planes {
            let descriptor = CuArray3dDescriptor {
                width: whole.width.div_ceil(plane.across as usize),
                height: whole.height.div_ceil(plane.down as usize),
                format: plane.format,
                num_channels: plane.channels,
                ..whole
            };
            let layout = Layout::of(&descriptor).and_then(|layout| layout.bytes());
            handles.push(self.arrays.insert(Array {
                context,
                descriptor,
                base,
                owns: false,
                levels: Vec::new(),
                planes: Vec::new(),
            }));
            base += layout.ok_or(CuError::INVALID_VALUE)?;
        }
        let found = handles[index as usize];
        if let Some(array) = self.arrays.get_mut(handle) {
            array.planes = handles;
        }
        Ok(found)
    }

    /// `cuArrayDestroy`, `cuMipmappedArrayDestroy`: fails for a part of another array.
    pub fn destroy_array(&mut self, handle: usize) -> Answer {
        let found = self.arrays.get(handle).filter(|array| array.owns);
        let base = found.ok_or(CuError::INVALID_HANDLE)?.base;
        self.forget_array(handle);
        self.free_allocation(base);
        Ok(())
    }

    /// Removes the arrays of a context, whose memory has been freed.
    pub(crate) fn forget_arrays_of(&mut self, context: usize) {
        let all = self.arrays.iter();
        let mine: Vec<usize> = all
            .filter(|(_, array)| array.context == context)
            .map(|(handle, _)| handle)
            .collect();
        for handle in mine {
            self.forget_array(handle);
        }
    }

    pub(crate) fn forget_array(&mut self, handle: usize) {
        let Some(gone) = self.arrays.remove(handle) else {
            return;
        };
        for part in gone.levels.into_iter().chain(gone.planes) {
            self.arrays.remove(part);
        }
    }
}
