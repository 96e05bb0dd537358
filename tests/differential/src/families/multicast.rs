//! Multicast objects. An object holds the memory that is bound to it, which is counted once.

use gpumem_cuda_abi::CuMulticastObjectProp;

use super::vmm::{PAGE, properties};
use crate::model::Ended;
use crate::pass::{Addr, Made};
use crate::world::{Family, World};

/// The family. Each step frees all that it allocates.
pub const FAMILY: Family = Family {
    name: "multicast",
    weight: 2,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end: |_| {},
};

fn step(world: &mut World) {
    let (mut object, mut memory) = (0, 0);
    let device = world.rng.below(world.devices) as i32;
    let bytes = PAGE * world.rng.within(1, 5);
    let wanted = CuMulticastObjectProp {
        num_devices: 1,
        size: bytes,
        handle_types: 1,
        flags: 0,
    };
    if world
        .cuda
        .cuMulticastCreate(Some(&mut object), Some(&wanted))
        != 0
    {
        return;
    }
    // A bind call waits until the object has all its devices.
    let complete = world.cuda.cuMulticastAddDevice(object, device) == 0;
    world.cuda.cuMulticastAddDevice(0x10, device);
    let wanted = properties(Some(device));
    let code = world
        .cuda
        .cuMemCreate(Some(&mut memory), bytes, Some(&wanted), 0);
    if code == 0 {
        let bound = if !complete {
            1
        } else {
            let cuda = &mut world.cuda;
            match world.rng.below(3) {
                0 => cuda.cuMulticastBindMem(object, 0, memory, 0, bytes, 0),
                1 => cuda.cuMulticastBindMem_v2(object, device, 0, memory, 0, bytes, 0),
                _ => bind_address(world, object, device, memory, bytes),
            }
        };
        let code = world.cuda.cuMemRelease(memory);
        world.expect(code);
        if bound == 0 && world.rng.percent(60) {
            let code = world.cuda.cuMulticastUnbind(object, device, 0, bytes);
            world.expect(code);
        }
    }
    let code = world.cuda.cuMemRelease(object);
    world.expect(code);
}

/// Binds memory by the address at which it is mapped, which is valid only during this call.
fn bind_address(world: &mut World, object: u64, device: i32, memory: u64, bytes: usize) -> u32 {
    let mut base = Made(0);
    let code = world
        .cuda
        .cuMemAddressReserve(Some(&mut base), bytes, 0, Addr(0), 0);
    if !world.expect(code) {
        return code;
    }
    world.cuda.sized(base.0, bytes);
    let base = Addr(base.0);
    let code = world.cuda.cuMemMap(base, bytes, 0, memory, 0);
    world.expect(code);
    let bound = if world.rng.percent(50) {
        world.cuda.cuMulticastBindAddr(object, 0, base, bytes, 0)
    } else {
        world
            .cuda
            .cuMulticastBindAddr_v2(object, device, 0, base, bytes, 0)
    };
    world.expect(bound);
    let code = world.cuda.cuMemUnmap(base, bytes);
    world.expect(code);
    let code = world.cuda.cuMemAddressFree(base, bytes);
    world.expect(code);
    bound
}
