//! Operations on the state: memory of other interfaces.

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::model::State;
use crate::model::array::levels;
use crate::model::context::Current;
use crate::model::external::*;
use crate::model::memory::Import;
use gpumem_cuda_abi::CuArray3dDescriptor;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

impl State {
    /// `cuImportExternalMemory` of a file descriptor, which belongs to the driver from then on.
    pub fn import_external(&mut self, file: i32, bytes: u64) -> Answer<usize> {
        let identity = files::identity(file).ok_or(CuError::INVALID_VALUE)?;
        require(identity.mappable && bytes > 0 && bytes <= identity.bytes)?;
        // SAFETY: an open descriptor, as fstat has just shown; by CUDA's contract a successful
        // import takes ownership of it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(self.external.insert(External { file, bytes }))
    }

    /// `cuDestroyExternalMemory`. Mappings of it stay until they are freed.
    pub fn destroy_external(&mut self, handle: usize) -> Answer {
        let gone = self.external.remove(handle);
        gone.map(drop).ok_or(CuError::INVALID_HANDLE)
    }

    /// `cuExternalMemoryGetMappedBuffer`.
    pub fn map_external(&mut self, at: Current, handle: usize, part: (u64, u64)) -> Answer<u64> {
        let file = self.part_of_external(handle, part)?;
        self.map_alias(at, file, part, Import::External)
    }

    /// `cuExternalMemoryGetMappedMipmappedArray`: the levels are contiguous.
    pub fn map_external_array(
        &mut self,
        at: Current,
        handle: usize,
        offset: u64,
        descriptor: CuArray3dDescriptor,
        count: u32,
    ) -> Answer<usize> {
        let levels = levels(&descriptor, count)?;
        let sizes = levels.iter().map(|(_, bytes)| *bytes);
        let bytes = sizes.reduce(|sum, bytes| sum.saturating_add(bytes));
        let part = (offset, bytes.unwrap_or(0));
        let file = self.part_of_external(handle, part)?;
        let base = self.map_alias(at, file, part, Import::Array)?;
        Ok(self.keep_array(at, descriptor, base, levels))
    }

    pub(crate) fn part_of_external(&self, handle: usize, part: (u64, u64)) -> Answer<i32> {
        let external = self.external.get(handle);
        let external = external.ok_or(CuError::INVALID_HANDLE)?;
        let end = part.0.checked_add(part.1);
        require(part.1 > 0 && end.is_some_and(|end| end <= external.bytes))?;
        Ok(external.file.as_raw_fd())
    }
}
