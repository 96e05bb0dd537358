//! Initialisation, version, names of errors, and the look-up of functions.

use crate::ffi::{Answer, CuError, Handle, Out, Text, require};
use crate::model::state::{initialise, machine};
use crate::table;
use gpumem_cuda_abi::{CuProcAddressStatus, CuResult};
use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

/// `cuInit`.
pub extern "C" fn init(flags: u32) -> Answer {
    require(flags == 0)?;
    initialise()
}

/// `cuDriverGetVersion`; also valid before `cuInit`.
pub extern "C" fn driver_get_version(version: Out<i32>) -> Answer {
    version.put(machine().driver_version as i32)
}

/// `cuGetErrorName`.
pub extern "C" fn get_error_name(error: CuResult, text: Out<*const c_char>) -> Answer {
    describe(error, text)
}

/// `cuGetErrorString`. The simulated driver returns the names as descriptions.
pub extern "C" fn get_error_string(error: CuResult, text: Out<*const c_char>) -> Answer {
    describe(error, text)
}

fn describe(error: CuResult, text: Out<*const c_char>) -> Answer {
    let Some(name) = error_text(error) else {
        text.put(std::ptr::null())?;
        return Err(CuError::INVALID_VALUE);
    };
    text.put(name.as_ptr())
}

/// Terminated copies of the names, created once.
fn error_text(error: CuResult) -> Option<&'static CStr> {
    static TEXTS: OnceLock<Vec<(u32, CString)>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        (0..1000)
            .filter_map(|code| Some((code, CString::new(CuResult(code).name()?).ok()?)))
            .collect()
    });
    let found = texts.iter().find(|(code, _)| *code == error.0);
    found.map(|(_, text)| text.as_c_str())
}

/// `cuGetProcAddress` of CUDA 11.3: a missing function is an error, because there is no status.
pub extern "C" fn get_proc_address(
    name: Text,
    function: Out<usize>,
    version: i32,
    flags: u64,
) -> Answer {
    match look_up(name, function, version, flags)? {
        CuProcAddressStatus::SUCCESS => Ok(()),
        _ => Err(CuError::NOT_FOUND),
    }
}

/// `cuGetProcAddress_v2`: a missing function is reported in `status`, or as an error if `status` is
/// null.
pub extern "C" fn get_proc_address_v2(
    name: Text,
    function: Out<usize>,
    version: i32,
    flags: u64,
    status: Out<CuProcAddressStatus>,
) -> Answer {
    let found = look_up(name, function, version, flags)?;
    if status.is_null() && found != CuProcAddressStatus::SUCCESS {
        return Err(CuError::NOT_FOUND);
    }
    status.put_if_asked(found);
    Ok(())
}

fn look_up(
    name: Text,
    function: Out<usize>,
    version: i32,
    flags: u64,
) -> Answer<CuProcAddressStatus> {
    require(flags <= 2)?;
    let name = name.get()?.to_bytes();
    let found = table::look_up(name, version, flags == 2, machine().driver_version);
    let (address, status) = match found {
        Ok(row) => (row.address(), CuProcAddressStatus::SUCCESS),
        Err(status) => (0, status),
    };
    function.put(address)?;
    Ok(status)
}

/// `cuGetExportTable`: only the tables that the runtime of CUDA 10.2 requires.
pub extern "C" fn get_export_table(
    table: Out<Handle>,
    id: crate::ffi::In<gpumem_cuda_abi::CuUuid>,
) -> Answer {
    let id = id.get()?;
    let Some(found) = super::export_table::by_id(&id) else {
        table.put(0)?;
        return Err(CuError::INVALID_VALUE);
    };
    table.put(found)
}
