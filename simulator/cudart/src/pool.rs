//! Pool functions that differ from the driver's.

use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out};

/// `cudaMemPoolExportToShareableHandle`: the runtime's flags are narrower.
pub fn export(handle: Address, pool: Handle, kind: u32, flags: u32) -> Answer {
    cu::cuMemPoolExportToShareableHandle(handle, pool, kind, flags.into())
}

/// `cudaMemPoolImportFromShareableHandle`.
pub fn import(pool: Out<Handle>, handle: Address, kind: u32, flags: u32) -> Answer {
    cu::cuMemPoolImportFromShareableHandle(pool, handle, kind, flags.into())
}
