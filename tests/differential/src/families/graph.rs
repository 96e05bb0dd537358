//! Graphs with memory nodes, built node by node and captured. Their memory is live from a launch until
//! a node or the program frees it.

use super::graph_nodes::{by_capture, by_nodes};
use crate::model::{Ended, Executable, Given, Owner};
use crate::pass::Addr;
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "graph",
    weight: 10,
    step,
    ended,
    end,
};

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
            // A peak, which can only be set to 0, or another value.
            let attribute = world.rng.pick(&[1, 3, 0]).unwrap_or(1);
            let value = world.rng.pick(&[0, 0, 7]).unwrap_or(0);
            world
                .cuda
                .cuDeviceSetGraphMemAttribute(device, attribute, Some(&value));
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

fn launch(world: &mut World) {
    let Some(place) = world.rng.find(&world.graphs.executables, |_| true) else {
        return;
    };
    let Executable {
        handle,
        given,
        frees,
        auto_free,
    } = world.graphs.executables[place].clone();
    match world.rng.below(10) {
        0 => drop(world.cuda.cuGraphUpload(handle, 0)),
        1 => drop(world.cuda.cuGraphUpload_ptsz(handle, 0)),
        _ => {}
    }
    let code = if world.rng.percent(50) {
        world.cuda.cuGraphLaunch(handle, 0)
    } else {
        world.cuda.cuGraphLaunch_ptsz(handle, 0)
    };
    // The launch fails if memory of the last launch is live, unless the graph frees that itself. It
    // also fails if the memory of another graph that it frees is not live.
    if code == 0 {
        let gone = |live: &Given| {
            frees.contains(&live.pointer)
                || (auto_free && given.iter().any(|given| given.pointer == live.pointer))
        };
        world.graphs.live.retain(|live| !gone(live));
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
