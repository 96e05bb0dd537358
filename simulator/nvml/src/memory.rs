//! Memory and who uses it.
#![allow(non_snake_case)]

use crate::books::used_bytes;
use crate::device::Device;
use crate::out::{ListOut, Out, put};
use crate::result::{Answer, Return, answer};

/// `nvmlMemory_t`: 24 bytes. Its `used` has the reserved bytes in it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`: 40 bytes. Reserved bytes are told apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2`: size and version in one.
const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

/// `nvmlDeviceGetMemoryInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, memory: Out<'_, Memory>) -> Return {
    answer(|| {
        let spec = device.spec()?;
        let used = used_bytes(spec) + spec.other_bytes + spec.reserved_bytes;
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
        let used = used_bytes(spec) + spec.other_bytes;
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

/// `nvmlProcessInfo_t` of the second and third form: 24 bytes. No partitions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pid: u32,
    used: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// Who other processes' memory is put down to: process 1, which always exists.
const OTHER_PID: u32 = 1;

/// This process, if it has a context on the device, and the others, if they use any.
fn running(device: Device) -> Answer<Vec<ProcessV1>> {
    let spec = device.spec()?;
    let ours = (std::process::id(), used_bytes(spec));
    let all = [ours, (OTHER_PID, spec.other_bytes)];
    let running = all.into_iter().filter(|(_, used)| *used > 0);
    Ok(running.map(|(pid, used)| ProcessV1 { pid, used }).collect())
}

/// `nvmlDeviceGetComputeRunningProcesses_v3`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: Option<&mut u32>,
    processes: ListOut<Process>,
) -> Return {
    answer(|| {
        let whole_card = |ProcessV1 { pid, used }| Process {
            pid,
            used,
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        };
        let list = running(device)?.into_iter().map(whole_card).collect();
        processes.put(count, list)
    })
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
    answer(|| processes.put(count, running(device)?))
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v3`: none.
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

/// `nvmlDeviceGetGraphicsRunningProcesses_v2`: none.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    device: Device,
    count: Out<'_, u32>,
) -> Return {
    nvmlDeviceGetGraphicsRunningProcesses_v3(device, count)
}

/// `nvmlDeviceGetGraphicsRunningProcesses`: none.
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
