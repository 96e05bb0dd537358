//! Finding the driver and its functions.

use crate::ffi::{Address, Answer, Out, Text, check};
use crate::wanted::{Function, WANTED};
use gpumem_cuda_abi::{CuProcAddressStatus, CuResult, CudaError};
use std::ffi::CStr;
use std::sync::OnceLock;

/// `cudaErrorInsufficientDriver`: NVIDIA's runtime returns it without a driver, too.
pub const NO_DRIVER: CudaError = CudaError::INSUFFICIENT_DRIVER;

/// `cudaErrorCallRequiresNewerDriver`.
pub const DRIVER_TOO_OLD: CudaError = CudaError(36);

type GetProcAddress =
    extern "C" fn(Text, Out<Address>, i32, u64, Out<CuProcAddressStatus>) -> CuResult;

/// The driver as this library sees it.
#[derive(Debug)]
pub struct Driver {
    get_proc_address: GetProcAddress,
    /// Addresses in the order of [`WANTED`]; 0 for functions that the driver does not have.
    addresses: Vec<Address>,
}

impl Driver {
    /// The driver, opened at the first call. Every function of [`WANTED`] is looked up then, as in
    /// NVIDIA's runtime.
    ///
    /// # Errors
    /// [`NO_DRIVER`] without a driver, at this and every later call.
    pub fn get() -> Answer<&'static Self> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().ok_or(NO_DRIVER)
    }

    fn open() -> Option<Self> {
        // SAFETY: a constant, terminated name. The library stays open for good.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        // SAFETY: a live handle and a constant, terminated name.
        let symbol = unsafe { libc::dlsym(library, c"cuGetProcAddress_v2".as_ptr()) };
        if symbol.is_null() {
            return None;
        }
        // SAFETY: cuda.h gives the function of this name this signature.
        let first = unsafe { std::mem::transmute::<*mut libc::c_void, GetProcAddress>(symbol) };
        // NVIDIA's runtime requests this first and ignores the result.
        let _ = find(first, c"", 0, 0);
        let again = find(first, c"cuGetProcAddress", 12000, 0);
        let get_proc_address = match again {
            Ok(0) | Err(_) => first,
            // SAFETY: as above; at 12000 this name means the form with a status.
            Ok(address) => unsafe { std::mem::transmute::<Address, GetProcAddress>(address) },
        };
        let addresses = WANTED
            .iter()
            .map(|wanted| {
                find(get_proc_address, wanted.name, wanted.version, wanted.flags).unwrap_or(0)
            })
            .collect();
        Some(Self {
            get_proc_address,
            addresses,
        })
    }

    /// The address of a function.
    ///
    /// # Errors
    /// [`DRIVER_TOO_OLD`] if the driver does not have it.
    pub fn address(&self, function: Function) -> Answer<Address> {
        match self.addresses.get(function as usize) {
            Some(0) | None => Err(DRIVER_TOO_OLD),
            Some(address) => Ok(*address),
        }
    }

    /// Looks up a function by a name that the client chooses.
    pub fn look_up(
        &self,
        name: Text,
        function: Out<Address>,
        version: i32,
        flags: u64,
        status: Out<CuProcAddressStatus>,
    ) -> Answer {
        check((self.get_proc_address)(
            name, function, version, flags, status,
        ))
    }
}

fn find(ask: GetProcAddress, name: &'static CStr, version: i32, flags: u64) -> Answer<Address> {
    let mut address = 0;
    let mut status = CuProcAddressStatus::SUCCESS;
    check(ask(
        Text::constant(name),
        Out::to(&mut address),
        version,
        flags,
        Out::to(&mut status),
    ))?;
    Ok(address)
}
