//! Random programs on a card that consists only of numbers, against the tracker: no driver, no process, no simulator.
//!
//! The model has the true size of every context and library. After each accepted reading, explained and unexplained
//! bytes add up to the card's figure; if calls come one at a time, every byte has the right owner.

mod streams;
mod world;

use gpumem_capture::DeviceOrdinal;
use gpumem_tracker::{Kind, Seen};
use proptest::prelude::*;

use world::{Context, DEVICE, Library, MIB, Op, World, ops};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// For all calls between two readings: the sum is right, events are in order, nothing is negative.
    #[test]
    fn explained_and_unexplained_bytes_are_the_cards(program in prop::collection::vec(ops(), 1..120)) {
        let mut world = World::default();
        for op in program {
            world.run(op);
        }
        world.read();
    }

    /// With a reading after every call, and at most one library that could run: every byte has the right owner, without
    /// estimates.
    #[test]
    fn one_call_at_a_time_is_exact(program in prop::collection::vec(ops(), 1..80)) {
        let mut world = World::default();
        for op in program {
            let several = world.libraries.iter().filter(|one| one.has_function).count() > 1;
            let ambiguous = match op {
                // It takes effect at a launch, together with other pending changes; a limit that changes nothing may
                // take effect at any time.
                Op::SetLimit { pick, mib, later } => {
                    let state = world.context_at(pick).and_then(|one| world.contexts.get(&one));
                    later || state.is_none_or(|state| state.limit == mib * MIB)
                }
                Op::Launch { .. } => several,
                Op::GetFunction { .. } => world.libraries.len() > 1,
                Op::Stream { is_asked: false, .. } => world.libraries.iter().any(|one| one.has_function),
                Op::Disturbed => true,
                _ => false,
            };
            if ambiguous {
                continue;
            }
            world.run(op);
            prop_assert_eq!(world.read(), 0);
            prop_assert!(!world.estimated, "{:?}", op);
            for (context, real) in &world.contexts {
                let has = world.tracker.bytes(Kind::Context.of(*context));
                prop_assert_eq!(has, real.own + real.limit);
                prop_assert_eq!(world.tracker.bytes(Kind::streams_of(*context)), real.streams);
            }
            for library in &world.libraries {
                let real = if library.loaded { library.size } else { 0 };
                prop_assert_eq!(world.tracker.bytes(world.owner(library)), real);
            }
        }
    }

    /// Two loads without weights are distinguished by the free memory that is queried before each load.
    #[test]
    fn what_is_asked_before_loads_tells_them_apart(sizes in prop::collection::vec(1..64u64, 1..8), others in any::<bool>()) {
        let mut world = World::default();
        world.run(Op::MakeContext);
        world.read();
        let context = world.context_at(0).unwrap_or(0);
        let mut handles = Vec::new();
        for size in &sizes {
            world.ask();
            let handle = world.handle();
            let library = Library { handle, context, size: size * MIB, loaded: true, has_function: false };
            world.libraries.push(library);
            world.tracker.loaded(DEVICE, context, handle, world.origin);
            handles.push((handle, size * MIB));
            // Explicitly reported memory in between adds to no weight.
            world.told += 3 * MIB;
        }
        let mut reading = world.reading(true);
        if others {
            reading.others = Some(MIB);
        }
        world.tracker.read(&reading);
        world.record();
        for (handle, size) in handles {
            prop_assert_eq!(world.tracker.bytes(Kind::Module.of(handle)), size);
        }
        // Weights come from the card's free memory: if other processes changed theirs, the difference may be theirs.
        prop_assert_eq!(world.estimated, others && sizes.len() > 1);
    }

    /// Bytes that may be managed memory have no owner until that memory is freed; then the sum is right.
    #[test]
    fn managed_memory_hides_no_more_than_it_may_have(code in 0..64u64, managed in 1..64u64, resident in 0..64u64) {
        let mut world = World::default();
        world.run(Op::MakeContext);
        world.read();
        let context = world.context_at(0).unwrap_or(0);
        let handle = world.handle();
        world.libraries.push(Library { handle, context, size: code * MIB, loaded: true, has_function: false });
        world.tracker.loaded(DEVICE, context, handle, world.origin);
        let mut reading = world.reading(true);
        reading.managed = managed * MIB;
        reading.mine = reading.mine.map(|mine| mine + resident.min(managed) * MIB);
        world.tracker.read(&reading);
        world.record();
        let charged = world.tracker.bytes(Kind::Module.of(handle));
        prop_assert!(charged <= code * MIB, "nothing of the managed memory's is charged");
        prop_assert!(charged == 0 || world.estimated);
        prop_assert_eq!(charged, (code + resident.min(managed)).saturating_sub(managed) * MIB);
        world.read();
        prop_assert_eq!(world.tracker.bytes(Kind::Module.of(handle)), code * MIB);
    }

    /// Without NVML's figure for this process, the card's figure is used, starting before the first context; everything
    /// is an estimate.
    #[test]
    fn the_cards_figure_serves_where_processes_are_not_told(before in 0..512u64, contexts in 1..4usize) {
        let mut world = World::default();
        world.tracker.before_first_context(DEVICE, before * MIB, 0);
        for _ in 0..contexts {
            world.run(Op::MakeContext);
            let mut reading = world.reading(true);
            reading.used = world.real() + before * MIB;
            reading.mine = None;
            reading.others = None;
            world.tracker.read(&reading);
            world.record();
            prop_assert!(world.estimated);
            prop_assert_eq!(world.explained_by_tracker(), world.real());
        }
    }
}

/// A context that is activated again without being noticed, after the last one has ended, is charged when it is seen,
/// regardless of readings in between.
#[test]
fn what_grows_without_a_context_is_the_next_ones() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    world.run(Op::EndContext {
        pick: 0,
        fails: false,
    });
    assert_eq!(world.read(), 0);
    world.contexts.insert(
        0x10,
        Context {
            own: 500 * MIB,
            ..Context::default()
        },
    );
    assert_eq!(world.read(), 500 * MIB as i64, "nobody was seen");
    world.see(0x10, Seen::Found);
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::Context.of(0x10)), 500 * MIB);
}

/// Memory of a context that other processes keep after its end is not a cost of the next context.
#[test]
fn what_is_left_after_the_last_context_is_nobodys() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    world.tracker.handed_out();
    world.run(Op::EndContext {
        pick: 0,
        fails: false,
    });
    world.contexts.insert(
        0x999,
        Context {
            own: 7 * MIB,
            ..Context::default()
        },
    );
    assert_eq!(world.read(), 7 * MIB as i64);
    world.run(Op::MakeContext);
    assert_eq!(world.read(), 7 * MIB as i64);
    assert_eq!(world.explained_by_tracker(), 500 * MIB);
}

/// A library that is loaded into two contexts has bytes in each, and the end of one context frees its own.
#[test]
fn a_library_has_bytes_of_its_own_in_each_context() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    world.run(Op::MakeContext);
    world.read();
    let contexts: Vec<u64> = world.contexts.keys().copied().collect();
    for (context, size) in contexts.iter().copied().zip([2 * MIB, 6 * MIB]) {
        let library = Library {
            handle: 0x8000,
            context,
            size,
            loaded: true,
            has_function: false,
        };
        world.libraries.push(library);
        let origin = world.origin;
        world.tracker.loaded(DEVICE, context, 0x8000, origin);
        assert_eq!(world.read(), 0);
    }
    assert_eq!(world.tracker.bytes_of(DEVICE, Kind::Module), 8 * MIB);
    let first = Op::EndContext {
        pick: 0,
        fails: false,
    };
    world.run(first);
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes_of(DEVICE, Kind::Module), 6 * MIB);
    assert!(!world.estimated);
}

/// The end of one device's primary context does not affect a load on another device that no reading has covered yet.
#[test]
fn what_was_loaded_elsewhere_outlives_a_primary_context() {
    let mut world = World::default();
    let (origin, other) = (world.origin, DeviceOrdinal(1));
    for (device, context) in [(DEVICE, 0x10), (other, 0x20)] {
        world
            .tracker
            .context_made(context, device, false, 0, origin);
    }
    world.tracker.loaded(DEVICE, 0x10, 0x30, origin);
    let ending = world.tracker.primary_ending(other, origin);
    world.tracker.settle(ending, true, origin);
    let size = 2 * MIB;
    let library = Library {
        handle: 0x30,
        context: 0x10,
        size,
        loaded: true,
        has_function: false,
    };
    world.libraries.push(library);
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::Module.of(0x30)), size);
}

/// Two loads without weights in one interval: the sum is right, and the shares are marked as an estimate.
#[test]
fn what_cannot_be_told_apart_is_an_estimate() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    let load = Op::Load {
        pick: 0,
        lazy: false,
    };
    world.run(load);
    assert_eq!(world.read(), 0);
    assert!(world.estimated);
    assert_eq!(world.explained_by_tracker(), world.real());
}

/// Memory that the driver keeps of an unloaded library belongs to its context.
#[test]
fn what_is_kept_of_code_is_the_contexts() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    world.run(Op::Load {
        pick: 0,
        lazy: false,
    });
    world.read();
    let context = world.context_at(0).unwrap_or(0);
    world.run(Op::Unload {
        pick: 0,
        fails: false,
    });
    if let Some(context) = world.contexts.get_mut(&context) {
        context.limit = MIB;
    }
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::Context.of(context)), 501 * MIB);
    assert!(!world.estimated);
}

/// The tracker processes millions of transitions per second, so that properties can run many, and a transition costs
/// the same after many others.
#[test]
fn transitions_stay_quick() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    // Processor time of this thread.
    let spent = || gpumem_sys::clock::read(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut read = |times: u64| {
        let before = spent();
        for step in 0..times {
            world.told = step % 7 * MIB;
            world.read();
        }
        spent() - before
    };
    read(1_000);
    let first = read(10_000);
    read(80_000);
    let last = read(10_000);
    assert!(last < 4 * first, "{last} ns, first {first} ns");
    let before = spent();
    let mut map = std::collections::BTreeMap::new();
    for key in 0..10_000u64 {
        map.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key);
    }
    let inserts = spent() - before;
    assert!(std::hint::black_box(map).len() == 10_000);
    assert!(last < 1_000 * inserts, "{last} ns, inserts {inserts} ns");
}

/// After an unload elsewhere, the bytes of a context that was not seen yet are still charged to that context.
#[test]
fn what_an_unseen_context_took_outlives_an_unloaded_library() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    world.run(Op::EndContext {
        pick: 0,
        fails: false,
    });
    assert_eq!(world.read(), 0);
    let context = Context {
        own: 502 * MIB,
        ..Context::default()
    };
    world.contexts.insert(0x10, context);
    let unloading = world.tracker.unloading(0x777, world.origin);
    world.tracker.settle(unloading, true, world.origin);
    assert_eq!(world.read(), 502 * MIB as i64, "nobody was seen");
    world.see(0x10, Seen::Found);
    assert_eq!(world.read(), 0);
}

/// An estimated share ends with the module that it was charged to. If it belonged to another owner, the bytes still
/// exist and are charged to a remaining one.
#[test]
fn an_estimate_that_was_wrong_is_not_lost_with_its_owner() {
    let mut world = World::default();
    let (origin, size) = (world.origin, 2 * MIB);
    for context in [0x10, 0x20] {
        let own = 500 * MIB;
        let real = Context {
            own,
            ..Context::default()
        };
        world.contexts.insert(context, real);
        world.see(context, Seen::Made);
        world.read();
    }
    for (handle, context, loaded) in [(0x30, 0x10, true), (0x40, 0x20, false)] {
        world.libraries.push(Library {
            handle,
            context,
            size,
            loaded,
            has_function: false,
        });
        world.tracker.loaded(DEVICE, context, handle, origin);
    }
    // The owner cannot be determined: the newest module is charged.
    assert_eq!(world.read(), 0);
    assert!(world.estimated);
    assert_eq!(world.tracker.bytes(Kind::Module.of(0x40)), size);
    world.run(Op::EndContext {
        pick: 1,
        fails: false,
    });
    assert_eq!(world.read(), 0);
    assert_eq!(world.explained_by_tracker(), world.real());
}
