//! The card that the checks use: a context on device 0, the two ways to read the used memory, and the
//! list of facts.

use std::ffi::{CString, c_char, c_void};

use gpumem_cuda_abi::{
    CuMemAllocFlags, CuMemAllocationProp, CuMemLocation, CuMemLocationType, CuUuid,
};
use serde_json::{Map, Value};

use crate::library::{Library, call};

/// All facts, by name.
#[derive(Default)]
pub struct Facts(pub Map<String, Value>);

impl Facts {
    /// Adds a fact.
    pub fn note(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }
}

/// NVML's figures of the card in bytes.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// `used` of the first version of the call, which includes what the driver reserves.
    pub v1: i64,
    /// `used` of the second version.
    pub v2: i64,
    /// Bytes that the driver reserves.
    pub reserved: i64,
}

/// Device 0, through the driver and through NVML.
pub struct Card {
    /// The driver.
    pub cuda: Library,
    nvml: Option<Library>,
    device: *mut c_void,
}

impl Card {
    /// Opens both libraries; the error is the reason why no card can be used.
    pub fn open() -> Result<Self, String> {
        let cuda = Library::open(c"libcuda.so.1")?;
        let result = call!(cuda, "cuInit"(u32: 0));
        if result != 0 {
            return Err(format!("cuInit gave {result}"));
        }
        let mut count = 0i32;
        call!(cuda, "cuDeviceGetCount"(*mut i32: &mut count));
        if count < 1 {
            return Err("the driver sees no device".to_owned());
        }
        let mut card = Self {
            cuda,
            nvml: None,
            device: core::ptr::null_mut(),
        };
        card.find_in_nvml();
        Ok(card)
    }

    /// Finds the same card in NVML by its UUID, because CUDA and NVML number cards differently.
    fn find_in_nvml(&mut self) {
        let Ok(nvml) = Library::open(c"libnvidia-ml.so.1") else {
            return;
        };
        let mut uuid = CuUuid { bytes: [0; 16] };
        let asked = call!(self.cuda, "cuDeviceGetUuid"(*mut CuUuid: &mut uuid, i32: 0));
        if call!(nvml, "nvmlInit_v2"()) != 0 || asked != 0 {
            return;
        }
        let hex: String = uuid.bytes.iter().map(|b| format!("{b:02x}")).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        let name = format!(
            "GPU-{}-{}-{}-{}-{}",
            part(0, 8),
            part(8, 12),
            part(12, 16),
            part(16, 20),
            part(20, 32)
        );
        let Ok(name) = CString::new(name) else { return };
        let mut device = core::ptr::null_mut();
        let found = call!(nvml, "nvmlDeviceGetHandleByUUID"(
            *const c_char: name.as_ptr(), *mut *mut c_void: &mut device
        ));
        if found == 0 {
            self.device = device;
            self.nvml = Some(nvml);
        }
    }

    /// Makes the primary context of device 0 current and returns its handle.
    pub fn primary(&self) -> Result<*mut c_void, String> {
        let mut context = core::ptr::null_mut();
        let made =
            call!(self.cuda, "cuDevicePrimaryCtxRetain"(*mut *mut c_void: &mut context, i32: 0));
        let current = call!(self.cuda, "cuCtxSetCurrent"(*mut c_void: context));
        if made != 0 || current != 0 {
            return Err(format!("no context on device 0: {made}, {current}"));
        }
        Ok(context)
    }

    /// Used bytes according to `cuMemGetInfo`.
    pub fn used(&self) -> i64 {
        let (mut free, mut total) = (0usize, 0usize);
        call!(self.cuda, "cuMemGetInfo_v2"(*mut usize: &mut free, *mut usize: &mut total));
        total as i64 - free as i64
    }

    /// NVML's figures; `None` without NVML.
    pub fn nvml(&self) -> Option<Used> {
        #[repr(C)]
        #[derive(Default)]
        struct First {
            total: u64,
            free: u64,
            used: u64,
        }
        #[repr(C)]
        #[derive(Default)]
        struct Second {
            version: u32,
            total: u64,
            reserved: u64,
            free: u64,
            used: u64,
        }
        let nvml = self.nvml.as_ref()?;
        let mut first = First::default();
        let mut second = Second {
            version: size_of::<Second>() as u32 | 2 << 24,
            ..Second::default()
        };
        let one = call!(nvml, "nvmlDeviceGetMemoryInfo"(*mut c_void: self.device, *mut First: &mut first));
        let two = call!(nvml, "nvmlDeviceGetMemoryInfo_v2"(*mut c_void: self.device, *mut Second: &mut second));
        (one == 0).then_some(Used {
            v1: first.used as i64,
            v2: if two == 0 { second.used as i64 } else { -1 },
            reserved: if two == 0 { second.reserved as i64 } else { -1 },
        })
    }

    /// NVML's figure for this process; `None` if NVML does not list it.
    pub fn process(&self) -> Option<u64> {
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        struct Process {
            pid: u32,
            used: u64,
            gpu_instance: u32,
            compute_instance: u32,
        }
        let nvml = self.nvml.as_ref()?;
        let mut list = [Process::default(); 256];
        let mut count = list.len() as u32;
        let asked = call!(nvml, "nvmlDeviceGetComputeRunningProcesses_v3"(
            *mut c_void: self.device, *mut u32: &mut count, *mut Process: list.as_mut_ptr()
        ));
        if asked != 0 {
            return None;
        }
        let mine = std::process::id();
        let listed = list.get(..count as usize)?;
        listed
            .iter()
            .find(|row| row.pid == mine)
            .map(|row| row.used)
    }

    /// The change of `cuMemGetInfo`'s figure while `f` runs.
    pub fn step(&self, f: impl FnOnce()) -> i64 {
        let before = self.used();
        f();
        self.used() - before
    }

    /// `cuMemAlloc`: the address, or the result code.
    pub fn alloc(&self, bytes: usize) -> Result<u64, i32> {
        let mut pointer = 0u64;
        match call!(self.cuda, "cuMemAlloc_v2"(*mut u64: &mut pointer, usize: bytes)) {
            0 => Ok(pointer),
            code => Err(code),
        }
    }

    /// `cuMemFree`.
    pub fn free(&self, pointer: u64) -> i32 {
        call!(self.cuda, "cuMemFree_v2"(u64: pointer))
    }

    /// Waits for everything on the device.
    pub fn synchronize(&self) -> i32 {
        call!(self.cuda, "cuCtxSynchronize"())
    }
}

/// Properties of pinned memory on device 0 for `cuMemCreate`.
pub fn on_device() -> CuMemAllocationProp {
    CuMemAllocationProp {
        kind: 1,
        requested_handle_types: 0,
        location: CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: 0,
        },
        win32_handle_meta_data: core::ptr::null_mut(),
        alloc_flags: CuMemAllocFlags {
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}
