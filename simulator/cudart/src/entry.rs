//! `cudaGetDriverEntryPoint` and its variants.

use crate::runtime_version;
use gpumem_cuda_abi::{CuProcAddressStatus, CudaError};
use gpumem_sim_client::driver::Driver;
use gpumem_sim_client::ffi::{Address, Answer, Out, Text, require};

/// `cudaEnablePerThreadDefaultStream`.
const PER_THREAD: u64 = 2;

/// `cudaGetDriverEntryPointByVersion`: a missing function is reported in `status`, or as an error
/// if `status` is null.
pub fn by_version(
    name: Text,
    function: Out<Address>,
    version: u32,
    flags: u64,
    status: Out<CuProcAddressStatus>,
) -> Answer {
    require(!function.is_null() && flags <= PER_THREAD)?;
    function.put(0)?;
    let mut told = CuProcAddressStatus::SUCCESS;
    let asked = Driver::get()?.look_up(name, function, version as i32, flags, Out::to(&mut told));
    match asked {
        Ok(()) => {}
        Err(CudaError::SYMBOL_NOT_FOUND) => told = CuProcAddressStatus::SYMBOL_NOT_FOUND,
        Err(other) => return Err(other),
    }
    if status.is_null() && told != CuProcAddressStatus::SUCCESS {
        return Err(CudaError::SYMBOL_NOT_FOUND);
    }
    status.put_if_asked(told);
    Ok(())
}

/// `cudaGetDriverEntryPointByVersion_ptsz`.
pub fn by_version_per_thread(
    name: Text,
    function: Out<Address>,
    version: u32,
    flags: u64,
    status: Out<CuProcAddressStatus>,
) -> Answer {
    let flags = if flags == 0 { PER_THREAD } else { flags };
    by_version(name, function, version, flags, status)
}

/// `cudaGetDriverEntryPoint`: for the runtime's own version.
pub fn newest(
    name: Text,
    function: Out<Address>,
    flags: u64,
    status: Out<CuProcAddressStatus>,
) -> Answer {
    by_version(name, function, runtime_version() as u32, flags, status)
}

/// `cudaGetDriverEntryPoint_ptsz`.
pub fn newest_per_thread(
    name: Text,
    function: Out<Address>,
    flags: u64,
    status: Out<CuProcAddressStatus>,
) -> Answer {
    by_version_per_thread(name, function, runtime_version() as u32, flags, status)
}
