//! Devices and their attributes.

use crate::ffi::{Answer, CuError, Out, Text, TextOut, require};
use crate::model::state::{machine, state};
use gpumem_cuda_abi::{CuDevice, CuUuid};
use gpumem_sim_machine::DeviceSpec;

/// Shared memory that a block of a device may opt in to, in bytes.
pub fn shared_memory_opt_in(major: u32, minor: u32) -> i32 {
    match (major, minor) {
        (9.., _) => 232_448,
        (8, 0 | 7) => 166_912,
        (8, _) => 101_376,
        (7, 5) => 65_536,
        (7, _) => 98_304,
        _ => 49_152,
    }
}

fn spec(device: CuDevice) -> Answer<&'static DeviceSpec> {
    let ordinal = state()?.device(device.0)?;
    machine()
        .visible_device(ordinal)
        .ok_or(CuError::INVALID_DEVICE)
}

/// `cuDeviceGetCount`.
pub extern "C" fn get_count(count: Out<i32>) -> Answer {
    drop(state()?);
    count.put(machine().visible.len() as i32)
}

/// `cuDeviceGet`.
pub extern "C" fn get(device: Out<i32>, ordinal: i32) -> Answer {
    state()?.device(ordinal)?;
    device.put(ordinal)
}

/// `cuDeviceGetName`.
pub extern "C" fn get_name(name: TextOut, room: i32, device: CuDevice) -> Answer {
    name.put(&spec(device)?.name, room)
}

/// `cuDeviceGetUuid`: the card's, also for a MIG instance.
pub extern "C" fn get_card_uuid(uuid: Out<CuUuid>, device: CuDevice) -> Answer {
    let bytes = spec(device)?.card_uuid();
    uuid.put(CuUuid { bytes })
}

/// `cuDeviceGetUuid_v2`: the card's or the MIG instance's.
pub extern "C" fn get_uuid(uuid: Out<CuUuid>, device: CuDevice) -> Answer {
    let bytes = spec(device)?.uuid();
    uuid.put(CuUuid { bytes })
}

/// `cuDeviceTotalMem`.
pub extern "C" fn total_memory(bytes: Out<usize>, device: CuDevice) -> Answer {
    bytes.put(spec(device)?.total_bytes as usize)
}

/// `cuDeviceComputeCapability`.
pub extern "C" fn compute_capability(major: Out<i32>, minor: Out<i32>, device: CuDevice) -> Answer {
    let (has_major, has_minor) = spec(device)?.compute_capability;
    major.put(has_major as i32)?;
    minor.put(has_minor as i32)
}

/// `cuDeviceGetPCIBusId`.
pub extern "C" fn get_pci_bus_id(text: TextOut, room: i32, device: CuDevice) -> Answer {
    text.put(&spec(device)?.pci_text(), room)
}

/// `cuDeviceGetByPCIBusId`.
pub extern "C" fn get_by_pci_bus_id(device: Out<i32>, text: Text) -> Answer {
    drop(state()?);
    let text = text.get()?.to_str();
    let text = text.map_err(|_| CuError::INVALID_VALUE)?;
    let machine = machine();
    let named = |ordinal: &usize| {
        let device = machine.visible_device(*ordinal);
        device.is_some_and(|device| device.has_pci(text))
    };
    let ordinal = (0..machine.visible.len()).find(named);
    device.put(ordinal.ok_or(CuError::INVALID_DEVICE)? as i32)
}

/// `cuDeviceCanAccessPeer`: true for every pair of different devices.
pub extern "C" fn can_access_peer(can: Out<i32>, device: CuDevice, peer: CuDevice) -> Answer {
    spec(device)?;
    spec(peer)?;
    can.put(i32::from(device != peer))
}

/// `cuDeviceGetP2PAttribute`: access and arrays, but no native atomics.
pub extern "C" fn get_p2p_attribute(
    value: Out<i32>,
    attribute: u32,
    from: CuDevice,
    to: CuDevice,
) -> Answer {
    spec(from)?;
    spec(to)?;
    if from == to {
        return Err(CuError::INVALID_DEVICE);
    }
    require((1..=5).contains(&attribute))?;
    value.put(i32::from(matches!(attribute, 2 | 4)))
}

/// `cuDeviceGetExecAffinitySupport`: not supported.
pub extern "C" fn get_exec_affinity_support(
    value: Out<i32>,
    _kind: u32,
    device: CuDevice,
) -> Answer {
    spec(device)?;
    value.put(0)
}

/// `cuDeviceGetTexture1DLinearMaxWidth`.
pub extern "C" fn get_texture_width(width: Out<usize>) -> Answer {
    width.put(1 << 28)
}

/// `CUdevprop`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    threads_per_block: i32,
    block: [i32; 3],
    grid: [i32; 3],
    shared_bytes: i32,
    constant_bytes: i32,
    warp: i32,
    pitch: i32,
    registers: i32,
    clock_khz: i32,
    texture_align: i32,
}

/// `cuDeviceGetProperties`.
pub extern "C" fn get_properties(properties: Out<Properties>, device: CuDevice) -> Answer {
    spec(device)?;
    properties.put(Properties {
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX, 65535, 65535],
        shared_bytes: 49152,
        constant_bytes: 65536,
        warp: 32,
        pitch: i32::MAX,
        registers: 65536,
        clock_khz: 1_755_000,
        texture_align: 512,
    })
}

/// `cuDeviceGetAttribute`.
pub extern "C" fn get_attribute(value: Out<i32>, attribute: u32, device: CuDevice) -> Answer {
    let spec = spec(device)?;
    value.put(attribute_of(spec, attribute)?)
}

/// The highest `CUdevice_attribute` of CUDA 13.2.
const LAST_ATTRIBUTE: u32 = 148;

/// Attributes by `CUdevice_attribute`; all others that CUDA defines are 0.
fn attribute_of(spec: &DeviceSpec, attribute: u32) -> Answer<i32> {
    let (major, minor) = spec.compute_capability;
    let from = |least: (u32, u32)| i32::from((major, minor) >= least);
    Ok(match attribute {
        1..=3 => 1024,          // threads of a block, all and along x, y
        4 => 64,                // threads along z
        5 => i32::MAX,          // blocks along x
        6 | 7 => 65535,         // blocks along y, z
        8 => 49152,             // shared memory of a block
        9 => 65536,             // constant memory
        10 => 32,               // warp
        11 => i32::MAX,         // pitch
        12 | 82 => 65536,       // registers
        13 => 1_755_000,        // clock, kHz
        14 | 30 => 512,         // texture and surface alignment
        15 | 19 | 31 | 41 => 1, // overlap, mapped host memory, concurrency, unified
        16 => spec.multiprocessors as i32,
        21 | 22 => 131_072, // textures: widths, heights, depths
        23 | 53 | 55..=58 | 61 | 63 => 32768,
        24..=26 | 59 | 60 => 16384,
        27 | 28 | 42 | 45 | 46 | 52 | 64 | 66 | 67 | 73 | 74 | 77 => 32768,
        29 | 43 | 62 | 65 | 54 | 68 => 2046,
        33 => spec.pci_bus() as i32,
        36 => 2_619_000, // memory clock, kHz
        37 => 5120,      // bus width, bits
        38 => 50 << 20,  // L2
        39 => spec.threads_per_multiprocessor as i32,
        40 => 3, // copy engines
        44 => 1, // texture gather
        47 | 48 => 8192,
        49 => 32768,
        51 => 32,      // texture pitch alignment
        69 => 1 << 28, // linear textures
        70 | 71 => 131_072,
        72 => 2_097_120,
        75 => major as i32,
        76 => minor as i32,
        78..=80 | 83 => 1, // priorities, L1 caches, managed memory
        81 => shared_memory_opt_in(major, minor) + 1024,
        87 => 2,                 // single to double precision
        89 | 90 => from((6, 0)), // concurrent managed access, preemption
        95 => from((6, 0)),      // cooperative launch
        96 => from((6, 0)),
        97 => shared_memory_opt_in(major, minor),
        92..=94 | 122 | 123 => 1, // stream memory operations
        99 | 102 | 103 => 1,      // host registration, virtual memory, descriptors
        106 => {
            if major >= 9 {
                32
            } else {
                16
            }
        }
        107 => 0, // compression
        108 => {
            if major >= 8 {
                32_768_000
            } else {
                0
            }
        }
        109 => {
            if major >= 8 {
                134_213_632
            } else {
                0
            }
        }
        111 => {
            if major >= 8 {
                1024
            } else {
                0
            }
        }
        113 => 1,            // read-only registration
        115 => 1,            // pools
        119 => 1,            // export of pools as descriptors
        120 => from((9, 0)), // clusters
        125 => 1,            // IPC events
        126 => {
            if major >= 9 {
                4
            } else {
                1
            }
        }
        127 => from((9, 0)), // tensor maps
        129 => 1,            // unified function pointers
        131 | 134 => -1,     // NUMA nodes
        132 => from((9, 0)), // multicast
        known if known > 0 && known <= LAST_ATTRIBUTE => 0,
        _ => return Err(CuError::INVALID_VALUE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_have_cudas_size() {
        assert_eq!(size_of::<Properties>(), 56);
    }

    #[test]
    fn attributes_follow_the_compute_capability() {
        let device = |compute_capability| DeviceSpec {
            compute_capability,
            ..DeviceSpec::new(2, 1 << 30)
        };
        let of = |capability, attribute| attribute_of(&device(capability), attribute);
        assert_eq!(of((7, 0), 16), Ok(132));
        let t4 = DeviceSpec {
            multiprocessors: 40,
            threads_per_multiprocessor: 1024,
            ..device((7, 5))
        };
        assert_eq!([16, 39].map(|of| attribute_of(&t4, of)), [Ok(40), Ok(1024)]);
        assert_eq!(of((7, 0), 75), Ok(7));
        assert_eq!(of((7, 5), 76), Ok(5));
        assert_eq!(of((7, 0), 120), Ok(0));
        assert_eq!(of((9, 0), 120), Ok(1));
        assert_eq!(of((9, 0), 33), Ok(3));
        assert_eq!(of((9, 0), 0), Err(CuError::INVALID_VALUE));
        assert_eq!(of((9, 0), 149), Err(CuError::INVALID_VALUE));
    }
}
