//! External memory: addresses of bytes that another owner holds, here the program itself.

use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuExternalMemoryBufferDesc, CuExternalMemoryHandleDesc,
    CuExternalMemoryMipmappedArrayDesc,
};

use super::vmm::{PAGE, properties};
use crate::model::Ended;
use crate::pass::{Addr, Made, Private};
use crate::world::{Family, World};

/// The family. Each step frees all that it allocates.
pub const FAMILY: Family = Family {
    name: "external",
    weight: 2,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end: |_| {},
};

fn step(world: &mut World) {
    const OPAQUE_FILE: u32 = 1;
    let (mut handle, mut file, mut memory) = (0, Private(-1), 0);
    let device = world.owner().device.max(0);
    let bytes = PAGE * world.rng.within(1, 5);
    let properties = properties(Some(device));
    let code = world
        .cuda
        .cuMemCreate(Some(&mut handle), bytes, Some(&properties), 0);
    if code != 0 {
        return;
    }
    let code = world
        .cuda
        .cuMemExportToShareableHandle(Some(&mut file), handle, 1, 0);
    if world.expect(code) {
        let wanted = CuExternalMemoryHandleDesc {
            kind: OPAQUE_FILE,
            handle: [file.0 as u64, 0],
            size: bytes as u64,
            flags: 0,
            reserved: [0; 16],
        };
        let code = world
            .cuda
            .cuImportExternalMemory(Some(&mut memory), Some(&wanted));
        if code == 0 {
            if world.rng.percent(50) {
                map(world, memory, bytes);
            } else {
                map_array(world, memory);
            }
        } else {
            super::pool::close(file.0); // otherwise the driver closes it
        }
    }
    let code = world.cuda.cuMemRelease(handle);
    world.expect(code);
}

fn map(world: &mut World, memory: usize, bytes: usize) {
    let wanted = CuExternalMemoryBufferDesc {
        offset: 0,
        size: bytes as u64,
        flags: 0,
        reserved: [0; 16],
    };
    let mut pointer = Made(0);
    let code =
        world
            .cuda
            .cuExternalMemoryGetMappedBuffer(Some(&mut pointer), memory, Some(&wanted));
    if code == 0 {
        world.cuda.sized(pointer.0, bytes);
        let code = world.cuda.cuMemFree_v2(Addr(pointer.0));
        world.expect(code);
    }
    let code = world.cuda.cuDestroyExternalMemory(memory);
    world.expect(code);
}

fn map_array(world: &mut World, memory: usize) {
    let wanted = CuExternalMemoryMipmappedArrayDesc {
        offset: 0,
        array: CuArray3dDescriptor {
            width: world.rng.within(1, 400),
            height: world.rng.below(300),
            depth: 0,
            format: 0x20,
            num_channels: 4,
            flags: 0,
        },
        num_levels: world.rng.within(1, 6) as u32,
        reserved: [0; 16],
    };
    let mut array = 0;
    let code =
        world
            .cuda
            .cuExternalMemoryGetMappedMipmappedArray(Some(&mut array), memory, Some(&wanted));
    if code == 0 {
        let code = world.cuda.cuMipmappedArrayDestroy(array);
        world.expect(code);
    }
    let code = world.cuda.cuDestroyExternalMemory(memory);
    world.expect(code);
}
