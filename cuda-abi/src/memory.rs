//! Structures of the driver's memory functions (cuda.h, CUDA 10.2 to 13.5).

use crate::CuDevicePtr;
use libc::{c_int, c_uchar, c_ushort, c_void};

/// `CUmemLocationType`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemLocationType(pub u32);

impl CuMemLocationType {
    /// Memory of a device; `id` is its ordinal.
    pub const DEVICE: Self = Self(1);
    /// Host memory.
    pub const HOST: Self = Self(2);
    /// Host memory of one NUMA node.
    pub const HOST_NUMA: Self = Self(3);
    /// Host memory of the calling thread's NUMA node.
    pub const HOST_NUMA_CURRENT: Self = Self(4);
    /// No preferred location (managed memory); also "invalid".
    pub const NONE: Self = Self(0);

    /// Whether it is host memory, of any NUMA node.
    pub const fn is_host(self) -> bool {
        matches!(self, Self::HOST | Self::HOST_NUMA | Self::HOST_NUMA_CURRENT)
    }
}

/// `CUmemAllocationType`: memory that stays where it was allocated.
pub const ALLOCATION_PINNED: u32 = 1;
/// `CUmemAllocationType`: memory that the driver moves between the host and devices.
pub const ALLOCATION_MANAGED: u32 = 2;

/// `CUmemLocation`: 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemLocation {
    /// The kind of location.
    pub kind: CuMemLocationType,
    /// The number of the location within its kind.
    pub id: c_int,
}

/// `CUmemAllocationProp.allocFlags`: 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAllocFlags {
    /// Compression hint.
    pub compression_type: c_uchar,
    /// RDMA capable.
    pub gpu_direct_rdma_capable: c_uchar,
    /// Usage hint.
    pub usage: c_ushort,
    /// Reserved by CUDA.
    pub reserved: [c_uchar; 4],
}

/// `CUmemAllocationProp`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAllocationProp {
    /// `CUmemAllocationType`: [`ALLOCATION_PINNED`] or [`ALLOCATION_MANAGED`].
    pub kind: u32,
    /// `CUmemAllocationHandleType` bits.
    pub requested_handle_types: u32,
    /// Where the memory is allocated.
    pub location: CuMemLocation,
    /// Win32 only.
    pub win32_handle_meta_data: *mut c_void,
    /// Further properties.
    pub alloc_flags: CuMemAllocFlags,
}

/// `CUmemAccessDesc`: 12 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAccessDesc {
    /// The device that gets access.
    pub location: CuMemLocation,
    /// `CUmemAccess_flags`: 0 none, 1 read, 3 read and write.
    pub flags: u32,
}

/// `CUmemPoolProps`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemPoolProps {
    /// `CUmemAllocationType`: [`ALLOCATION_PINNED`] or [`ALLOCATION_MANAGED`].
    pub alloc_type: u32,
    /// `CUmemAllocationHandleType` bits.
    pub handle_types: u32,
    /// Where the pool allocates memory.
    pub location: CuMemLocation,
    /// Win32 only.
    pub win32_security_attributes: *mut c_void,
    /// Maximum size of the pool in bytes; 0 for the system's limit.
    pub max_size: usize,
    /// `CUmemPool_usage`.
    pub usage: c_ushort,
    /// Reserved by CUDA.
    pub reserved: [c_uchar; 54],
}

/// `CUipcMemHandle`: 64 opaque bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CuIpcMemHandle {
    /// Opaque.
    pub reserved: [u8; 64],
}

/// `CUDA_ARRAY_DESCRIPTOR` (`_v2`): 24 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuArrayDescriptor {
    /// Elements across.
    pub width: usize,
    /// Elements down; 0 for one dimension.
    pub height: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub num_channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` (`_v2`): 40 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuArray3dDescriptor {
    /// Elements across.
    pub width: usize,
    /// Elements down.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element.
    pub num_channels: u32,
    /// Layered, cube map, sparse and so on.
    pub flags: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR_v1`: 16 bytes, before CUDA 3.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuArrayDescriptorV1 {
    /// Elements across.
    pub width: u32,
    /// Elements down; 0 for one dimension.
    pub height: u32,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element.
    pub num_channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v1`: 24 bytes, before CUDA 3.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuArray3dDescriptorV1 {
    /// Elements across.
    pub width: u32,
    /// Elements down.
    pub height: u32,
    /// Slices.
    pub depth: u32,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels of an element.
    pub num_channels: u32,
    /// Layered, cube map and so on.
    pub flags: u32,
}

/// `CUmulticastObjectProp`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMulticastObjectProp {
    /// Number of devices that will bind memory to it.
    pub num_devices: u32,
    /// Maximum number of bytes that each device may bind.
    pub size: usize,
    /// `CUmemAllocationHandleType` bits.
    pub handle_types: u64,
    /// Zero.
    pub flags: u64,
}

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`: 104 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuExternalMemoryHandleDesc {
    /// `CUexternalMemoryHandleType`.
    pub kind: u32,
    /// A file descriptor, or two pointers.
    pub handle: [u64; 2],
    /// Bytes of the object.
    pub size: u64,
    /// 1: the object is a dedicated resource.
    pub flags: u32,
    /// Reserved by CUDA.
    pub reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuExternalMemoryBufferDesc {
    /// The offset within the object.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Zero.
    pub flags: u32,
    /// Reserved by CUDA.
    pub reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuExternalMemoryMipmappedArrayDesc {
    /// The offset within the object.
    pub offset: u64,
    /// The descriptor of level 0.
    pub array: CuArray3dDescriptor,
    /// Number of levels.
    pub num_levels: u32,
    /// Reserved by CUDA.
    pub reserved: [u32; 16],
}

/// `CUdriverProcAddressQueryResult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuProcAddressStatus(pub u32);

impl CuProcAddressStatus {
    /// Found.
    pub const SUCCESS: Self = Self(0);
    /// No function of that name.
    pub const SYMBOL_NOT_FOUND: Self = Self(1);
    /// The function exists, but is newer than the requested version.
    pub const VERSION_NOT_SUFFICIENT: Self = Self(2);
}

/// A range of device memory, as returned by `cuMemGetAddressRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// Its first byte.
    pub base: CuDevicePtr,
    /// Its length in bytes.
    pub bytes: u64,
}
