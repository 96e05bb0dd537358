//! Random programs of blocks, handles, mappings, aliases, pools, graphs and contexts against a model of plain sets
//! without counters: no driver, no process, no simulator.
//!
//! After each call, the live memory by the tracker's events equals the live memory of the model, and the physical
//! memory equals the pages that the model's blocks touch. A call that fails changes nothing.

mod calls;
mod model;
mod program;

use gpumem_capture::{EventFlags, Seq};
use gpumem_tracker::{Block, Origin, Tracker};
use proptest::prelude::*;

use model::{PAGE, World, key};
use program::{Op, ops};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_live_is_what_the_events_say(program in prop::collection::vec(ops(), 1..150)) {
        let mut world = World::default();
        world.run(Op::MakeContext { created: false });
        for op in program {
            world.run(op);
        }
    }
}

/// A block at an address where another one is live in the tracker: the release of that one was missed.
#[test]
fn what_was_live_at_an_address_that_is_handed_out_again_has_ended() {
    let mut world = World::default();
    let (origin, block) = (
        Origin::default(),
        Block {
            bytes: 5,
            ..Block::default()
        },
    );
    for _ in 0..2 {
        world.tracker.allocated(key(false, PAGE), block, 0, origin);
    }
    assert_eq!(world.tracker.take_missed_releases(), 1);
    world.read();
    assert_eq!(world.said.len(), 1);
    assert_eq!(world.given.values().sum::<u64>(), PAGE);
}

/// A CANCEL names the number of the FREE that it reverts, also if another thread's events are written in between, or
/// the FREE itself was lost.
#[test]
fn a_cancel_names_its_free() {
    let (mut tracker, origin) = (Tracker::new(), Origin::default());
    for ptr in [1, 2, 3] {
        tracker.allocated(key(false, ptr), Block::default(), 0, origin);
        tracker.written(Some(Seq(ptr)));
    }
    let first = tracker.releasing(key(false, 1), EventFlags::NONE, origin);
    let second = tracker.releasing(key(false, 2), EventFlags::NONE, origin);
    let third = tracker.releasing(key(false, 3), EventFlags::NONE, origin);
    for seq in [Some(Seq(10)), Some(Seq(11)), None] {
        tracker.written(seq);
    }
    for (pending, named) in [(second, 11), (third, u64::MAX), (first, 10)] {
        tracker.settle(pending, false, origin);
        assert_eq!(tracker.unwritten().map(|event| event.aux), Some(named));
        tracker.written(Some(Seq(20)));
    }
}
