//! Devices: count, selection, versions, flags.

use crate::{context, thread};
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::driver::NO_DRIVER;
use gpumem_sim_client::ffi::{Address, Answer, In, Out, require};

/// `cudaDeviceMapHost`, which is always on with unified addresses.
const MAP_HOST: u32 = 8;

/// `cudaDriverGetVersion`: 0 without a driver.
pub fn driver_version(version: Out<i32>) -> Answer {
    require(!version.is_null())?;
    match cu::cuDriverGetVersion(version) {
        Err(error) if error == NO_DRIVER => version.put(0),
        other => other,
    }
}

/// `cudaRuntimeGetVersion`.
pub fn runtime_version(version: Out<i32>) -> Answer {
    version.put(crate::runtime_version())
}

/// `cudaGetDeviceCount`: 0 on failure.
pub fn count(count: Out<i32>) -> Answer {
    count.put(0)?;
    count.put(context::count()?)
}

/// `cudaGetDevice`.
pub fn get(device: Out<i32>) -> Answer {
    require(!device.is_null())?;
    device.put(context::current_device()?)
}

/// `cudaChooseDevice`: all simulated devices are alike, so it returns the first.
pub fn choose(device: Out<i32>, _wanted: Address) -> Answer {
    context::check_device(0)?;
    device.put(0)
}

/// `cudaSetValidDevices`: the first device of the list becomes the default of threads.
pub fn set_valid(list: In<i32>, length: i32) -> Answer {
    if length == 0 {
        return Ok(());
    }
    let first = list.get()?;
    context::check_device(first)?;
    thread::set_device(first);
    Ok(())
}

/// `cudaGetDeviceFlags`.
pub fn get_flags(flags: Out<u32>) -> Answer {
    let (mut set, mut active) = (0, 0);
    cu::cuDevicePrimaryCtxGetState(
        context::current_device()?,
        Out::to(&mut set),
        Out::to(&mut active),
    )?;
    flags.put(set | MAP_HOST)
}

/// `cudaSetDeviceFlags`.
pub fn set_flags(flags: u32) -> Answer {
    cu::cuDevicePrimaryCtxSetFlags(context::current_device()?, flags & !MAP_HOST)
}

/// `cudaDeviceGetPCIBusId`.
pub fn pci_bus_id(text: Address, room: i32, device: i32) -> Answer {
    context::check_device(device)?;
    cu::cuDeviceGetPCIBusId(text, room, device)
}

/// `cudaDeviceGetAttribute`. The numbers are the driver's.
pub fn attribute(value: Out<i32>, attribute: u32, device: i32) -> Answer {
    context::check_device(device)?;
    cu::cuDeviceGetAttribute(value, attribute, device)
}

/// `cudaDeviceCanAccessPeer`: false for the same device.
pub fn can_access_peer(can: Out<i32>, device: i32, peer: i32) -> Answer {
    context::check_device(device)?;
    context::check_device(peer)?;
    if device == peer {
        return can.put(0);
    }
    cu::cuDeviceCanAccessPeer(can, device, peer)
}

/// `cudaGetExportTable`: the runtime has no tables.
pub fn export_table(_table: Out<Address>, _id: Address) -> Answer {
    Err(CudaError::NOT_SUPPORTED)
}
