//! Graphs with memory nodes, made node by node and captured: their memory is live from a launch on
//! until it is freed, by a node or by the program.

use gpumem_cuda_abi::{CuDevicePtr, CuMemAllocNodeParams};

use super::{Family, pool};
use crate::pass::{Addr, Made};
use crate::world::{Ended, Owner, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "graph",
    weight: 10,
    step,
    ended,
    end,
};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other calls of the thread go on as ever.
const RELAXED: u32 = 2;

/// Memory that a graph gives at a launch and no node of it frees.
#[derive(Clone, Copy, Debug)]
struct Given {
    pointer: Addr,
    device: i32,
}

#[derive(Clone, Debug)]
struct Executable {
    handle: usize,
    given: Vec<Given>,
}

/// What there is of it.
#[derive(Debug, Default)]
pub struct Graphs {
    graphs: Vec<usize>,
    executables: Vec<Executable>,
    live: Vec<Given>,
}

fn step(world: &mut World) {
    match world.rng.below(20) {
        0..4 => by_nodes(world),
        4..7 => by_capture(world),
        7..13 => launch(world),
        13..17 => {
            if let Some(place) = world.rng.find(&world.graphs.live, |_| true) {
                let given = world.graphs.live.swap_remove(place);
                free(world, given);
            }
        }
        17 => {
            if let Some(place) = world.rng.find(&world.graphs.executables, |_| true) {
                let executable = world.graphs.executables.swap_remove(place);
                let code = world.cuda.cuGraphExecDestroy(executable.handle);
                world.expect(code);
            }
        }
        18 => {
            let device = world.device();
            world.cuda.cuDeviceGraphMemTrim(device);
            for attribute in 0..4 {
                let mut value = 0;
                world
                    .cuda
                    .cuDeviceGetGraphMemAttribute(device, attribute, Some(&mut value));
            }
        }
        _ => {
            world.cuda.cuGraphLaunch(0x10, 0);
            world
                .cuda
                .cuGraphAddMemFreeNode(None, 0x10, None, 0, Addr(0x10));
        }
    }
}

fn by_nodes(world: &mut World) {
    let mut graph = 0;
    if world.graphs.executables.len() >= 6 || world.cuda.cuGraphCreate(Some(&mut graph), 0) != 0 {
        return;
    }
    let mut given = Vec::new();
    for _ in 0..world.rng.within(1, 5) {
        let device = world.rng.below(world.devices) as i32;
        let mut pool_props = pool::properties(device, 0);
        pool_props.handle_types = 0;
        let mut parameters = CuMemAllocNodeParams {
            pool_props,
            access_descs: std::ptr::null(),
            access_desc_count: 0,
            bytesize: world.bytes(),
            dptr: CuDevicePtr(0),
        };
        let mut node = 0;
        let place = Some(&mut parameters);
        let code = world
            .cuda
            .cuGraphAddMemAllocNode(Some(&mut node), graph, None, 0, place);
        if code != 0 {
            continue;
        }
        let pointer = Addr(parameters.dptr.0);
        world.cuda.sized(pointer.0, parameters.bytesize);
        let mut freeing = 0;
        if world.rng.percent(40)
            && world
                .cuda
                .cuGraphAddMemFreeNode(Some(&mut freeing), graph, Some(&node), 1, pointer)
                == 0
        {
            continue;
        }
        given.push(Given { pointer, device });
    }
    instantiate(world, graph, given);
}

fn by_capture(world: &mut World) {
    let (mut stream, mut graph) = (0, 0);
    if world.graphs.executables.len() >= 6 || world.cuda.cuStreamCreate(Some(&mut stream), 0) != 0 {
        return;
    }
    let device = world.owner().device;
    let mut given = Vec::new();
    if world.cuda.cuStreamBeginCapture_v2(stream, RELAXED) == 0 {
        for _ in 0..world.rng.within(1, 5) {
            let (mut pointer, bytes) = (Made(0), world.rng.bytes());
            let place = Some(&mut pointer);
            if world.cuda.cuMemAllocAsync(place, bytes, stream) == 0 {
                world.cuda.sized(pointer.0, bytes);
                let pointer = Addr(pointer.0);
                given.push(Given { pointer, device });
            }
        }
        if let Some(place) = world.rng.find(&given, |_| true)
            && world.rng.percent(60)
            && world.cuda.cuMemFreeAsync(given[place].pointer, stream) == 0
        {
            given.swap_remove(place);
        }
        if world.cuda.cuStreamEndCapture(stream, Some(&mut graph)) == 0 {
            instantiate(world, graph, given);
        }
    }
    let code = world.cuda.cuStreamDestroy_v2(stream);
    world.expect(code);
}

fn instantiate(world: &mut World, graph: usize, given: Vec<Given>) {
    let mut handle = 0;
    let code = if world.rng.percent(60) {
        world
            .cuda
            .cuGraphInstantiateWithFlags(Some(&mut handle), graph, 0)
    } else {
        world
            .cuda
            .cuGraphInstantiate_v2(Some(&mut handle), graph, 0, 0, 0)
    };
    if world.expect(code) {
        let executable = Executable { handle, given };
        world.graphs.executables.push(executable);
    }
    if world.rng.percent(50) {
        let code = world.cuda.cuGraphDestroy(graph);
        world.expect(code);
    } else {
        world.graphs.graphs.push(graph);
    }
}

fn launch(world: &mut World) {
    let Some(place) = world.rng.find(&world.graphs.executables, |_| true) else {
        return;
    };
    let Executable { handle, given } = world.graphs.executables[place].clone();
    if world.rng.percent(20) {
        world.cuda.cuGraphUpload(handle, 0);
    }
    let code = if world.rng.percent(50) {
        world.cuda.cuGraphLaunch(handle, 0)
    } else {
        world.cuda.cuGraphLaunch_ptsz(handle, 0)
    };
    // With memory of its last launch still live it cannot run again.
    if code == 0 {
        world.graphs.live.extend(given);
    }
}

fn free(world: &mut World, given: Given) {
    let mut code = match world.rng.below(3) {
        0 => world.cuda.cuMemFreeAsync(given.pointer, 0),
        1 => world.cuda.cuMemFreeAsync_ptsz(given.pointer, 0),
        _ => world.cuda.cuMemFree_v2(given.pointer),
    };
    if code != 0 {
        super::context::bind(world);
        code = world.cuda.cuMemFree_v2(given.pointer);
        world.expect(code);
    }
    if code != 0 {
        world.graphs.live.push(given);
    }
}

fn ended(world: &mut World, ended: &Ended) {
    world.graphs.live.retain(|given| {
        !ended.takes(Owner {
            context: 0,
            device: given.device,
        })
    });
}

fn end(world: &mut World) {
    for given in std::mem::take(&mut world.graphs.live) {
        free(world, given);
    }
    for executable in std::mem::take(&mut world.graphs.executables) {
        let code = world.cuda.cuGraphExecDestroy(executable.handle);
        world.expect(code);
    }
    for graph in std::mem::take(&mut world.graphs.graphs) {
        let code = world.cuda.cuGraphDestroy(graph);
        world.expect(code);
    }
    for device in 0..world.devices as i32 {
        if world.alone {
            world.cuda.cuDeviceGraphMemTrim(device);
        }
    }
}
