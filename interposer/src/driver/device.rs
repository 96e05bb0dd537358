//! Queries of devices.

use core::ffi::{c_char, c_int};

use gpumem_cuda_abi::{CuDevice, CuUuid};

use super::ask::ask;

/// The number of devices of this process; `None` before the driver is initialised.
pub(crate) fn device_count() -> Option<u8> {
    let mut count: c_int = 0;
    ask!(c"cuDeviceGetCount", fn(*mut c_int), &mut count)?;
    Some(u8::try_from(count).unwrap_or(u8::MAX))
}

/// The total memory of a device; `None` before the driver is initialised.
pub(crate) fn total_bytes(device: CuDevice) -> Option<u64> {
    let mut total = 0usize;
    ask!(
        c"cuDeviceTotalMem_v2",
        fn(*mut usize, CuDevice),
        &mut total,
        device
    )
    .map(|()| total as u64)
}

/// The driver's version, as 13020 for 13.2.
pub(crate) fn version() -> Option<i32> {
    let mut version: c_int = 0;
    ask!(c"cuDriverGetVersion", fn(*mut c_int), &mut version).map(|()| version)
}

/// The facts of a DEVICE definition.
pub(crate) struct DeviceFacts {
    pub(crate) total_bytes: u64,
    pub(crate) uuid: [u8; 16],
    pub(crate) name: Text,
    pub(crate) pci: Text,
}

/// A short text from the driver, held without allocating.
pub(crate) struct Text([u8; 256]);

impl Text {
    /// The text's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or(&[])
    }
}

/// Queries a device's facts; those that the driver does not report stay empty.
pub(crate) fn device_facts(device: CuDevice) -> DeviceFacts {
    let mut facts = DeviceFacts {
        total_bytes: 0,
        uuid: [0; 16],
        name: Text([0; 256]),
        pci: Text([0; 256]),
    };
    facts.total_bytes = total_bytes(device).unwrap_or(0);
    let mut uuid = CuUuid { bytes: [0; 16] };
    // `_v2` returns the UUID of a MIG instance; drivers before 11.4 have only the first.
    let asked = ask!(
        c"cuDeviceGetUuid_v2",
        fn(*mut CuUuid, CuDevice),
        &mut uuid,
        device
    );
    if asked.is_none() {
        let _ = ask!(
            c"cuDeviceGetUuid",
            fn(*mut CuUuid, CuDevice),
            &mut uuid,
            device
        );
    }
    facts.uuid = uuid.bytes;
    let _ = ask!(
        c"cuDeviceGetName",
        fn(*mut c_char, c_int, CuDevice),
        facts.name.0.as_mut_ptr().cast(),
        255,
        device
    );
    let _ = ask!(
        c"cuDeviceGetPCIBusId",
        fn(*mut c_char, c_int, CuDevice),
        facts.pci.0.as_mut_ptr().cast(),
        255,
        device
    );
    facts
}
