//! Arguments as the driver receives them and as a transcript shows them.

use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuArray3dDescriptorV1, CuArrayDescriptor, CuArrayDescriptorV1,
    CuExternalMemoryBufferDesc, CuExternalMemoryHandleDesc, CuExternalMemoryMipmappedArrayDesc,
    CuGraphInstantiateParams, CuGraphNodeParams, CuGraphNodeType, CuIpcMemHandle, CuMemAccessDesc,
    CuMemAllocNodeParams, CuMemAllocationProp, CuMemLocation, CuMemPoolProps,
    CuMulticastObjectProp,
};
use std::fmt::Write;

use crate::names::Names;

/// An address that may differ from run to run; the transcript shows the block that contains it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addr(pub u64);

/// The address of a block that a call has just allocated; the transcript shows the block's new number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made(pub u64);

/// A number that differs from run to run and is not compared: a descriptor, the address of a text.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Private<T>(pub T);

/// A variable that a call writes; `None` is a null pointer.
pub type Out<'a, T> = Option<&'a mut T>;
/// A value that a call reads; `None` is a null pointer.
pub type In<'a, T> = Option<&'a T>;

/// `CUdevResource`: 144 bytes, passed back to the driver unchanged.
pub type DeviceResource = [u64; 18];

/// `CUlaunchConfig`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: usize,
    /// The address of the attributes: 0.
    pub attributes: usize,
    /// The number of attributes: 0.
    pub attribute_count: u32,
}

/// A value that a transcript can show.
pub trait Tell {
    /// Appends the value to a line of the transcript.
    fn tell(&self, names: &mut Names, line: &mut String);
}

/// An argument.
pub trait Pass {
    /// The type that the driver takes.
    type Raw: Copy;
    /// The value for the driver.
    fn raw(&mut self) -> Self::Raw;
    /// Appends the argument to a line of the transcript; of a failed call's results, nothing.
    fn tell(&self, succeeded: bool, names: &mut Names, line: &mut String);
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Tell for $type {
            fn tell(&self, _: &mut Names, line: &mut String) {
                let _ = write!(line, "{self}");
            }
        }
    )*};
}
numbers!(u8 i32 u32 u64 usize);

impl Tell for Addr {
    fn tell(&self, names: &mut Names, line: &mut String) {
        line.push_str(&names.of(self.0));
    }
}

impl Tell for Made {
    fn tell(&self, names: &mut Names, line: &mut String) {
        line.push_str(&names.made(self.0));
    }
}

impl<T> Tell for Private<T> {
    fn tell(&self, _: &mut Names, line: &mut String) {
        line.push('*');
    }
}

impl<T: Tell, const N: usize> Tell for [T; N] {
    fn tell(&self, names: &mut Names, line: &mut String) {
        for item in self {
            item.tell(names, line);
            line.push(' ');
        }
    }
}

macro_rules! structures {
    ($($type:ty)*) => {$(
        impl Tell for $type {
            fn tell(&self, _: &mut Names, line: &mut String) {
                let _ = write!(line, "{self:?}");
            }
        }
    )*};
}
structures!(
    CuArrayDescriptor CuArray3dDescriptor CuArrayDescriptorV1 CuArray3dDescriptorV1
    CuMemAccessDesc CuMemAllocationProp CuMemLocation CuMemPoolProps
    CuExternalMemoryMipmappedArrayDesc LaunchConfig
);

macro_rules! private {
    ($($type:ty)*) => {$(
        impl Tell for $type {
            fn tell(&self, _: &mut Names, line: &mut String) {
                line.push('*');
            }
        }
    )*};
}
// Process numbers, descriptors.
private!(CuIpcMemHandle CuExternalMemoryHandleDesc CuExternalMemoryBufferDesc CuMulticastObjectProp);

/// The result of a graph's update. Drivers may write any value into the padding between its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Updated {
    code: u32,
    between: u32,
    nodes: [u64; 2],
}

impl Tell for Updated {
    fn tell(&self, names: &mut Names, line: &mut String) {
        Tell::tell(&self.code, names, line);
        line.push(' ');
        Tell::tell(&self.nodes, names, line);
    }
}

impl Tell for CuMemAllocNodeParams {
    fn tell(&self, names: &mut Names, line: &mut String) {
        let _ = write!(line, "{} bytes: ", self.bytesize);
        Made(self.dptr.0).tell(names, line);
    }
}

impl Tell for CuGraphNodeParams {
    fn tell(&self, names: &mut Names, line: &mut String) {
        match self.kind {
            CuGraphNodeType::MEM_ALLOC => {
                // SAFETY: the kind names the member.
                let alloc = unsafe { self.parameters.alloc };
                Tell::tell(&alloc, names, line);
            }
            CuGraphNodeType::MEM_FREE => {
                // SAFETY: as above.
                let free = unsafe { self.parameters.free };
                Tell::tell(&Addr(free.0), names, line);
            }
            CuGraphNodeType(kind) => {
                let _ = write!(line, "kind {kind}");
            }
        }
    }
}

impl Tell for CuGraphInstantiateParams {
    fn tell(&self, _: &mut Names, line: &mut String) {
        let _ = write!(line, "flags {}: {}", self.flags, self.result);
    }
}

macro_rules! by_value {
    ($($type:ty)*) => {$(
        impl Pass for $type {
            type Raw = Self;
            fn raw(&mut self) -> Self {
                *self
            }
            fn tell(&self, _: bool, names: &mut Names, line: &mut String) {
                Tell::tell(self, names, line);
            }
        }
    )*};
}
by_value!(u8 i32 u32 u64 usize Addr Private<u32> Private<usize> CuIpcMemHandle);

impl<T: Tell> Pass for Option<&mut T> {
    type Raw = *mut T;
    fn raw(&mut self) -> *mut T {
        self.as_deref_mut()
            .map_or(std::ptr::null_mut(), |place| place)
    }
    fn tell(&self, succeeded: bool, names: &mut Names, line: &mut String) {
        match self {
            Some(value) if succeeded => {
                line.push('>');
                value.tell(names, line);
            }
            Some(_) => line.push('>'),
            None => line.push_str("null"),
        }
    }
}

impl<T: Tell> Pass for Option<&T> {
    type Raw = *const T;
    fn raw(&mut self) -> *const T {
        self.map_or(std::ptr::null(), |place| place)
    }
    fn tell(&self, _: bool, names: &mut Names, line: &mut String) {
        match self {
            Some(value) => value.tell(names, line),
            None => line.push_str("null"),
        }
    }
}

impl<T: Tell> Pass for Option<&[T]> {
    type Raw = *const T;
    fn raw(&mut self) -> *const T {
        self.map_or(std::ptr::null(), <[T]>::as_ptr)
    }
    fn tell(&self, _: bool, names: &mut Names, line: &mut String) {
        match self {
            Some(list) => list.iter().for_each(|item| item.tell(names, line)),
            None => line.push_str("null"),
        }
    }
}
