//! Device memory, allocated through the driver as NCCL does: `cuMemCreate` and a mapping, or
//! `cuMemAlloc`.

use gpumem_cuda_abi::{
    CuMemAccessDesc, CuMemAllocFlags, CuMemAllocationProp, CuMemLocation, CuMemLocationType,
};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In, Out};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const FILE_DESCRIPTOR: u32 = 1;

/// One block of device memory.
#[derive(Debug)]
pub struct Block {
    /// Its address.
    pub address: Address,
    /// Its size.
    pub bytes: usize,
    /// The handle from `cuMemCreate`, if it was allocated that way.
    memory: Option<u64>,
}

impl Block {
    /// Whether it came from `cuMemCreate`.
    pub fn is_mapped(&self) -> bool {
        self.memory.is_some()
    }

    /// Memory of `cuMemAlloc`.
    pub fn plain(bytes: usize) -> Answer<Self> {
        let mut address = 0;
        cu::cuMemAlloc(Out::to(&mut address), bytes)?;
        Ok(Self {
            address,
            bytes,
            memory: None,
        })
    }

    /// Memory of `cuMemCreate`, on a device and mapped for it: whole pages.
    pub fn mapped(bytes: usize, device: i32, handle_types: u32) -> Answer<Self> {
        let location = CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: device,
        };
        let properties = CuMemAllocationProp {
            kind: 1,
            requested_handle_types: handle_types,
            location,
            win32_handle_meta_data: std::ptr::null_mut(),
            alloc_flags: CuMemAllocFlags {
                compression_type: 0,
                gpu_direct_rdma_capable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut page = 0;
        cu::cuMemGetAllocationGranularity(Out::to(&mut page), In::of(&properties), 0)?;
        let bytes = bytes.max(1).next_multiple_of(page.max(1));
        let mut memory = 0;
        cu::cuMemCreate(Out::to(&mut memory), bytes, In::of(&properties), 0)?;
        let mapped = map(memory, bytes, location);
        if mapped.is_err() {
            // The first error is reported.
            let _ = cu::cuMemRelease(memory);
        }
        Ok(Self {
            address: mapped?,
            bytes,
            memory: Some(memory),
        })
    }

    /// Frees the block. After a reset of the device it is already gone, so errors are ignored.
    pub fn free(self) {
        match self.memory {
            Some(memory) => {
                let _ = cu::cuMemUnmap(self.address, self.bytes);
                let _ = cu::cuMemRelease(memory);
                let _ = cu::cuMemAddressFree(self.address, self.bytes);
            }
            None => {
                let _ = cu::cuMemFree(self.address);
            }
        }
    }
}

fn map(memory: u64, bytes: usize, location: CuMemLocation) -> Answer<Address> {
    let mut address = 0;
    cu::cuMemAddressReserve(Out::to(&mut address), bytes, 0, 0, 0)?;
    let access = CuMemAccessDesc { location, flags: 3 };
    let reach = || {
        cu::cuMemMap(address, bytes, 0, memory, 0)?;
        let accessible = cu::cuMemSetAccess(address, bytes, In::of(&access), 1);
        if accessible.is_err() {
            let _ = cu::cuMemUnmap(address, bytes);
        }
        accessible
    };
    let reached = reach();
    if reached.is_err() {
        let _ = cu::cuMemAddressFree(address, bytes);
    }
    reached.map(|()| address)
}

/// Keeps a context current until dropped, and allows allocations during a capture.
#[derive(Debug)]
pub struct Within {
    before: Handle,
    mode: u32,
}

impl Within {
    /// Makes `context` current.
    pub fn context(context: Handle) -> Answer<Self> {
        let (mut before, mut mode) = (0, RELAXED);
        cu::cuCtxGetCurrent(Out::to(&mut before))?;
        cu::cuCtxSetCurrent(context)?;
        cu::cuThreadExchangeStreamCaptureMode(Out::to(&mut mode))?;
        Ok(Self { before, mode })
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = cu::cuThreadExchangeStreamCaptureMode(Out::to(&mut self.mode));
        let _ = cu::cuCtxSetCurrent(self.before);
    }
}

/// A context and its device: the current one, else the primary one of the first device, as NCCL's
/// runtime does.
pub fn current() -> Answer<(Handle, i32)> {
    cu::cuInit(0)?;
    let mut context = 0;
    cu::cuCtxGetCurrent(Out::to(&mut context))?;
    if context == 0 {
        cu::cuDevicePrimaryCtxRetain(Out::to(&mut context), 0)?;
        cu::cuCtxSetCurrent(context)?;
    }
    let mut device = 0;
    cu::cuCtxGetDevice(Out::to(&mut device))?;
    Ok((context, device))
}
