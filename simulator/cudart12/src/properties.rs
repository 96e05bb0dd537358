//! `cudaGetDeviceProperties_v2`: CUDA 12's structure.

use core::ffi::{c_int, c_void};

use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::Out;

/// `cudaDeviceProp` of CUDA 12.
const BYTES: usize = 1032;
const NAME: usize = 256;
const UUID: usize = 256;
const TOTAL: usize = 288;
/// The offsets of its integers, and the driver's attribute of each (driver_types.h of CUDA 12.1).
const INTEGERS: [(usize, c_int); 28] = [
    (304, 12),
    (308, 10),
    (320, 1),
    (324, 2),
    (328, 3),
    (332, 4),
    (336, 5),
    (340, 6),
    (344, 7),
    (348, 13),
    (360, 75),
    (364, 76),
    (388, 16),
    (396, 18),
    (400, 19),
    (576, 31),
    (580, 32),
    (584, 33),
    (588, 34),
    (592, 50),
    (604, 41),
    (608, 36),
    (612, 37),
    (616, 38),
    (624, 39),
    (648, 82),
    (652, 83),
    (688, 95),
];
/// The same for its sizes.
const SIZES: [(usize, c_int); 6] = [
    (296, 8),
    (312, 11),
    (352, 9),
    (368, 14),
    (640, 81),
    (696, 97),
];

unsafe extern "C" {
    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
}

/// CUDA 12's function of this name.
///
/// # Safety
/// The requirements of the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties_v2(
    properties: *mut c_void,
    device: c_int,
) -> c_int {
    const INVALID_VALUE: c_int = 1;
    let mut bytes = [0_u8; BYTES];
    for (at, attribute) in INTEGERS {
        let mut value = 0;
        // SAFETY: the call writes an integer.
        let error = unsafe { cudaDeviceGetAttribute(&mut value, attribute, device) };
        if error != 0 {
            return error;
        }
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    for (at, attribute) in SIZES {
        let mut value = 0;
        // SAFETY: as above. An unknown attribute leaves 0.
        unsafe { cudaDeviceGetAttribute(&mut value, attribute, device) };
        bytes[at..at + 8].copy_from_slice(&u64::from(value.cast_unsigned()).to_ne_bytes());
    }
    let mut total = 0_usize;
    let named = cu::cuDeviceGetName(bytes.as_mut_ptr() as usize, NAME as c_int, device);
    if named.is_err()
        || cu::cuDeviceTotalMem(Out::to(&mut total), device).is_err()
        || properties.is_null()
    {
        return INVALID_VALUE;
    }
    bytes[TOTAL..TOTAL + 8].copy_from_slice(&total.to_ne_bytes());
    // The fields that identify the device, as far as PyTorch shows them.
    bytes[UUID] = device as u8;
    // SAFETY: the caller has room for the structure.
    unsafe { properties.cast::<[u8; BYTES]>().write(bytes) };
    0
}
