//! `cudaPointerGetAttributes`.

use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, In, Out, require};

/// `cudaPointerAttributes` of CUDA 13: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// 0 unregistered, 1 host, 2 device, 3 managed.
    kind: u32,
    device: i32,
    device_pointer: Address,
    host_pointer: Address,
    reserved: [u64; 8],
}

const UNREGISTERED: u32 = 0;
const DEVICE: u32 = 2;
const MANAGED: u32 = 3;
/// The ordinal for a pointer that belongs to no device.
const NO_DEVICE: i32 = -2;

/// The attributes to query: memory type, device pointer, host pointer, managed, ordinal.
const ASKED: [u32; 5] = [2, 3, 4, 8, 9];

/// `cudaPointerGetAttributes`: a pointer that CUDA does not know is not an error.
pub fn get_attributes(attributes: Out<Attributes>, pointer: Address) -> Answer {
    require(!attributes.is_null())?;
    let (mut kind, mut managed, mut device) = (0_u32, 0_u32, NO_DEVICE);
    let (mut device_pointer, mut host_pointer): (Address, Address) = (0, 0);
    let values = [
        &raw mut kind as Address,
        &raw mut device_pointer as Address,
        &raw mut host_pointer as Address,
        &raw mut managed as Address,
        &raw mut device as Address,
    ];
    cu::cuPointerGetAttributes(
        ASKED.len() as u32,
        In::all(&ASKED),
        In::all(&values),
        pointer,
    )?;
    let unknown = kind == UNREGISTERED;
    attributes.put(Attributes {
        kind: if managed != 0 { MANAGED } else { kind },
        device: if unknown && device == NO_DEVICE {
            -1
        } else {
            device
        },
        device_pointer,
        host_pointer: match (unknown, kind, managed) {
            (true, ..) => pointer,
            (_, DEVICE, 0) => 0,
            _ if host_pointer != 0 => host_pointer,
            _ => pointer,
        },
        reserved: [0; 8],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_cudas_size() {
        assert_eq!(size_of::<Attributes>(), 88);
    }
}
