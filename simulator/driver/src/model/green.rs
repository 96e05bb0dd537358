//! Green contexts: part of a device's multiprocessors, with separate streams.
//!
//! A green context belongs to its device's primary context, which it retains, and costs no
//! additional memory. Memory that is allocated in it belongs to the primary context.

use super::handles::Handles;
use crate::ffi::{Answer, CuError, require};
use gpumem_cuda_abi::CuResult;
use std::collections::BTreeMap;

/// `CUdevResource`: 144 bytes. The driver stores the origin of a resource in the padding.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// `CUdevResourceType`.
    pub kind: u32,
    pub(crate) origin: Origin,
    pub(crate) padding: [u32; 21],
    /// The multiprocessors.
    pub multiprocessors: Multiprocessors,
    pub(crate) rest: [u32; 6],
    pub(crate) next: usize,
}

/// The origin of a resource.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) magic: u32,
    pub(crate) device: u32,
}

pub(crate) const MAGIC: u32 = u32::from_ne_bytes(*b"gsim");

/// `CU_DEV_RESOURCE_TYPE_SM`.
pub const MULTIPROCESSORS: u32 = 1;
/// `CUDA_ERROR_INVALID_RESOURCE_TYPE`.
pub const INVALID_TYPE: CuError = CuError::of(CuResult(914));
/// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION`.
pub(crate) const INVALID_CONFIGURATION: CuError = CuError::of(CuResult(915));

/// `CUdevSmResource`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multiprocessors {
    /// Their number.
    pub count: u32,
    /// The smallest group that they can be divided into.
    pub least: u32,
    /// Their number is a multiple of this.
    pub step: u32,
    /// 0.
    pub flags: u32,
}

impl Resource {
    /// A number of multiprocessors of a device.
    pub fn new(device: usize, multiprocessors: Multiprocessors) -> Self {
        Self {
            kind: MULTIPROCESSORS,
            origin: Origin {
                magic: MAGIC,
                device: device as u32,
            },
            padding: [0; 21],
            multiprocessors,
            rest: [0; 6],
            next: 0,
        }
    }

    /// An empty resource: the remainder when everything has been divided.
    pub fn nothing() -> Self {
        Self {
            kind: 0,
            origin: Origin::default(),
            ..Self::new(0, Multiprocessors::default())
        }
    }

    /// The device of the resource.
    ///
    /// # Errors
    /// `INVALID_RESOURCE_TYPE` for other resources than multiprocessors, `INVALID_VALUE` for one
    /// that is not from this driver.
    pub fn device(&self) -> Answer<usize> {
        if self.kind != MULTIPROCESSORS {
            return Err(INVALID_TYPE);
        }
        require(self.origin.magic == MAGIC)?;
        Ok(self.origin.device as usize)
    }

    /// The equal groups that it can be divided into, each of at least `least`.
    pub fn groups(&self, least: u32) -> (u32, Multiprocessors) {
        let own = self.multiprocessors;
        let count = least.max(own.least).next_multiple_of(own.step.max(1));
        let group = Multiprocessors { count, ..own };
        (own.count / count.max(1), group)
    }
}

/// A green context.
#[derive(Clone, Copy, Debug)]
pub struct Green {
    /// Its device.
    pub device: usize,
    /// Its number, which is never reused.
    pub id: u64,
    /// The multiprocessors that it may use.
    pub resource: Resource,
}

/// All green contexts, and the descriptors for them.
#[derive(Debug)]
pub struct Greens {
    pub(crate) live: Handles<Green>,
    pub(crate) descriptors: Handles<Resource>,
    /// The green contexts of streams that were created in one.
    pub(crate) streams: BTreeMap<usize, usize>,
    pub(crate) made: u64,
}

/// The first number of green contexts, far from those of other contexts.
pub(crate) const FIRST_ID: u64 = 1 << 32;

impl Greens {
    /// No green contexts.
    pub fn new() -> Self {
        Self {
            live: Handles::new(0x33),
            descriptors: Handles::new(0x34),
            streams: BTreeMap::new(),
            made: 0,
        }
    }

    /// The green context with a handle.
    pub fn get(&self, handle: usize) -> Answer<&Green> {
        self.live.get(handle).ok_or(CuError::INVALID_CONTEXT)
    }

    /// `cuDevResourceGenerateDesc`: the resources must be of one device.
    pub fn describe(&mut self, resources: &[Resource]) -> Answer<usize> {
        let (first, others) = resources.split_first().ok_or(CuError::INVALID_VALUE)?;
        let device = first.device()?;
        let mut sum = first.multiprocessors;
        for other in others {
            if other.device()? != device {
                return Err(INVALID_CONFIGURATION);
            }
            sum.count += other.multiprocessors.count;
        }
        Ok(self.descriptors.insert(Resource::new(device, sum)))
    }

    /// Records that a stream was created in a green context.
    pub fn add_stream(&mut self, stream: usize, green: usize) {
        self.streams.insert(stream, green);
    }

    /// The green context that a stream was created in.
    pub fn of_stream(&self, stream: usize) -> Option<usize> {
        let green = *self.streams.get(&stream)?;
        self.live.get(green).map(|_| green)
    }
}

impl Default for Greens {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_cudas_size_and_divide() {
        assert_eq!(size_of::<Resource>(), 144);
        assert_eq!(std::mem::offset_of!(Resource, multiprocessors), 96);
        let all = Resource::new(
            1,
            Multiprocessors {
                count: 132,
                least: 8,
                step: 8,
                flags: 0,
            },
        );
        assert_eq!(all.device(), Ok(1));
        let (groups, group) = all.groups(20);
        assert_eq!((groups, group.count), (5, 24));
        assert_eq!(all.groups(0).0, 16);
        assert_eq!(Resource::nothing().device(), Err(INVALID_TYPE));
    }
}
