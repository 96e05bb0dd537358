//! Compares the model with figures that users have published (docs/nccl.md has the table).

use crate::{Setup, Version};
use std::collections::BTreeSet;

const M: u64 = 1 << 20;

fn connections(setup: &Setup, tree: bool) -> u64 {
    let mut all: BTreeSet<_> = setup.ring().into_iter().collect();
    if tree {
        all.extend(setup.tree());
    }
    all.into_iter().map(|one| setup.bytes_of(one)).sum()
}

fn sum(blocks: &[u64]) -> u64 {
    blocks.iter().sum()
}

/// The model's error relative to the published figure.
fn error(model: u64, published: f64) -> f64 {
    model as f64 / published - 1.0
}

fn node(minor: u32, channels: u64) -> Setup {
    let mut setup = Setup::new(Version::two(minor, 0), 8, 8, 90, true);
    setup.channels = Some(channels);
    setup
}

#[test]
fn nccl_1685_sizes_of_allocations() {
    let node = node(22, 24);
    assert_eq!(node.receive(true).first(), Some(&10_485_760));
    assert_eq!(node.send(true).first(), Some(&2_097_152));
}

#[test]
fn nccl_1685_growth_by_the_first_all_to_all() {
    let node = node(22, 24);
    let peers = 7 * (sum(&node.send(true)) + sum(&node.receive(true)));
    assert_eq!(peers, 2688 * M);
    let without = peers + sum(&node.structures());
    let off = error(without, 3.28e9);
    assert!((-0.08..-0.06).contains(&off), "{off}");
    let with = error(without + node.kernels(), 3.28e9);
    assert!(with.abs() < 0.015, "{with}");
}

#[test]
fn vllm_9699_memory_of_nvls() {
    assert_eq!(node(20, 24).nvls(), [2_415_919_104]);
}

#[test]
fn vllm_9699_cache_blocks_that_nvls_cost() {
    let lost = 2 * sum(&node(20, 24).nvls());
    let gib = (1_u64 << 30) as f64;
    assert!((-0.11..-0.07).contains(&error(lost, 4.95 * gib)));
}

#[test]
fn dgx_spark_8_host_memory_of_a_network_connection() {
    assert_eq!(node(27, 2).network_host_bytes(), 9_641_984);
}

#[test]
fn nccl_964_two_ranks_and_more_than_two() {
    // For each communicator, with NVLink and cudaMalloc: connections, and the pool for the network.
    let rank = |world| {
        let mut setup = Setup::new(Version::two(17, 1), world, world, 80, true);
        setup.channels = Some(24);
        (connections(&setup, world > 2) + sum(&setup.pool_at_start())) / M
    };
    assert_eq!([2, 3, 4].map(rank), [544, 688, 688]);
}

#[test]
fn nccl_2363_pool_of_one_rank() {
    let mut one = Setup::new(Version::two(28, 9), 1, 1, 103, true);
    one.cumem = false;
    one.late = false;
    assert_eq!((one.channels(), one.p2p_channels()), (64, 64));
    assert_eq!(one.pool_at_start(), [536_870_912]);
}
