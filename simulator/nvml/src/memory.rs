//! Memory, and the processes that use it.
#![allow(non_snake_case)]

use crate::books::{User, users};
use crate::device::Device;
use crate::library::machine;
use crate::mig::{COMPUTE_INSTANCE, gpu_instance};
use crate::out::{ListOut, Out, put};
use crate::result::{Answer, Return, answer};
use gpumem_sim_machine::{DeviceSpec, NvmlPids};

/// `nvmlMemory_t`: 24 bytes. Its `used` includes the reserved bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`: 40 bytes. It reports reserved bytes separately.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2`: size and version in one number.
const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

/// The bytes of a device that all processes use.
fn used_bytes(spec: &DeviceSpec) -> u64 {
    let listed: u64 = users(spec).iter().map(|user| user.bytes).sum();
    (listed + spec.other_bytes).min(spec.total_bytes)
}

/// `nvmlDeviceGetMemoryInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, memory: Out<'_, Memory>) -> Return {
    answer(|| {
        let spec = device.spec()?;
        let used = used_bytes(spec) + spec.reserved_bytes;
        let total = spec.total_bytes + spec.reserved_bytes;
        let free = total - used;
        put(memory, Memory { total, free, used })
    })
}

/// `nvmlDeviceGetMemoryInfo_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: Device,
    memory: Option<&mut MemoryV2>,
) -> Return {
    answer(|| {
        let spec = device.spec()?;
        let memory = memory.ok_or(Return::INVALID_ARGUMENT)?;
        if memory.version != MEMORY_V2 {
            return Err(Return::ARGUMENT_VERSION_MISMATCH);
        }
        let used = used_bytes(spec);
        *memory = MemoryV2 {
            version: MEMORY_V2,
            total: spec.total_bytes + spec.reserved_bytes,
            reserved: spec.reserved_bytes,
            free: spec.total_bytes - used,
            used,
        };
        Ok(())
    })
}

/// `nvmlProcessInfo_v1_t`: 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessV1 {
    pid: u32,
    used: u64,
}

/// `nvmlProcessInfo_t`, versions 2 and 3: 24 bytes. The instances are `u32::MAX` for a whole card.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pid: u32,
    used: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// The owner of memory that no simulated process uses: process 1, which always exists.
const OTHER_PID: u32 = 1;

/// Every process that has memory of the device, with ids as the settings define.
fn running(device: Device) -> Answer<Vec<Process>> {
    let spec = device.spec()?;
    let offset = match machine().nvml_pids {
        NvmlPids::Hidden => return Ok(Vec::new()),
        NvmlPids::Host => NvmlPids::HOST_OFFSET,
        NvmlPids::Own => 0,
    };
    let process = |pid, used, instance: Option<u32>| Process {
        pid,
        used,
        gpu_instance: instance.map_or(u32::MAX, gpu_instance),
        compute_instance: instance.map_or(u32::MAX, |_| COMPUTE_INSTANCE),
    };
    let listed = users(spec);
    let mut all: Vec<Process> = listed
        .into_iter()
        .map(
            |User {
                 pid,
                 bytes,
                 instance,
             }| process(pid + offset, bytes, instance),
        )
        .collect();
    if spec.other_bytes > 0 {
        let instance = spec.instance.or((spec.instances > 0).then_some(0));
        all.push(process(OTHER_PID, spec.other_bytes, instance));
    }
    Ok(all)
}

/// `nvmlDeviceGetComputeRunningProcesses_v3`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: Option<&mut u32>,
    processes: ListOut<Process>,
) -> Return {
    answer(|| processes.put(count, running(device)?))
}

/// `nvmlDeviceGetComputeRunningProcesses_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Device,
    count: Option<&mut u32>,
    processes: ListOut<Process>,
) -> Return {
    nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes)
}

/// `nvmlDeviceGetComputeRunningProcesses`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: Device,
    count: Option<&mut u32>,
    processes: ListOut<ProcessV1>,
) -> Return {
    answer(|| {
        let first_form = |Process { pid, used, .. }| ProcessV1 { pid, used };
        let list = running(device)?.into_iter().map(first_form).collect();
        processes.put(count, list)
    })
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v3`: an empty list; graphics are not simulated.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Device,
    count: Out<'_, u32>,
) -> Return {
    answer(|| {
        device.spec()?;
        put(count, 0)
    })
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v2`: an empty list.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    device: Device,
    count: Out<'_, u32>,
) -> Return {
    nvmlDeviceGetGraphicsRunningProcesses_v3(device, count)
}

/// `nvmlDeviceGetGraphicsRunningProcesses`: an empty list.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses(
    device: Device,
    count: Out<'_, u32>,
) -> Return {
    nvmlDeviceGetGraphicsRunningProcesses_v3(device, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_nvmls_sizes() {
        assert_eq!(MEMORY_V2, 0x0200_0028);
        assert_eq!(size_of::<Memory>(), 24);
        assert_eq!(size_of::<ProcessV1>(), 16);
        assert_eq!(size_of::<Process>(), 24);
    }
}
