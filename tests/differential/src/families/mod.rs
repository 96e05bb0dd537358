//! Families of calls, one per file. Each chooses its calls, maintains its part of the model, and
//! frees its memory.

pub mod array;
pub mod context;
pub mod device;
pub mod external;
pub mod graph;
pub mod graph_nodes;
pub mod green;
pub mod host;
pub mod ipc;
pub mod module;
pub mod multicast;
pub mod old;
pub mod peer;
pub mod pool;
pub mod runtime;
pub mod vmm;

use crate::world::{Family, World};

/// Every family, in the order in which they free their memory: contexts last.
pub static ALL: &[Family] = &[
    device::FAMILY,
    device::MANAGED,
    host::FAMILY,
    host::REGISTERED,
    pool::FAMILY,
    vmm::FAMILY,
    array::FAMILY,
    ipc::FAMILY,
    peer::FAMILY,
    graph::FAMILY,
    external::FAMILY,
    multicast::FAMILY,
    module::FAMILY,
    old::FAMILY,
    runtime::FAMILY,
    green::FAMILY,
    context::FAMILY,
];

/// Runs one random step of one of the chosen families.
pub fn step(world: &mut World) {
    if !world.rng.percent(8) {
        context::bind(world);
    }
    let weights: usize = world
        .families
        .chosen
        .iter()
        .map(|family| family.weight)
        .sum();
    let mut chosen = world.rng.below(weights);
    for family in world.families.chosen {
        match chosen.checked_sub(family.weight) {
            Some(rest) => chosen = rest,
            None => return (family.step)(world),
        }
    }
}
