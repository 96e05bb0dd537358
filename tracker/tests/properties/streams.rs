//! The memory of streams, with code that is loaded in the same interval.

use gpumem_capture::{ApiId, EventKind, Seq};
use gpumem_tracker::{FunctionOf, Kind, Origin};

use super::world::{DEVICE, Library, MIB, Op, World};

/// A world with a context, whose cost is read.
fn with_context() -> (World, u64) {
    let mut world = World::default();
    world.run(Op::MakeContext);
    world.read();
    let context = world.context_at(0).expect("it was made");
    (world, context)
}

fn load(world: &mut World, context: u64, size: u64, loaded: bool) -> u64 {
    let handle = world.handle();
    world.libraries.push(Library {
        handle,
        context,
        size,
        loaded,
        has_function: false,
    });
    let origin = world.origin;
    world.tracker.loaded(DEVICE, context, handle, origin);
    handle
}

/// 128 streams, every fourth of which takes a page, and a library in the same interval: each is charged its own bytes.
#[test]
fn streams_beside_code_in_one_interval() {
    let (mut world, context) = with_context();
    for stream in 0..128 {
        world.make_stream(context, if stream % 4 == 1 { 2 * MIB } else { 0 }, true);
    }
    let code = load(&mut world, context, 92 * MIB, true);
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 64 * MIB);
    assert_eq!(world.tracker.bytes(Kind::Module.of(code)), 92 * MIB);
    assert!(!world.estimated);
}

/// A launch, which is not recorded, loads the code of a function that was looked up before the last reading.
#[test]
fn streams_beside_code_that_a_launch_loads() {
    let (mut world, context) = with_context();
    let code = load(&mut world, context, 92 * MIB, false);
    let (of, origin) = (FunctionOf::Module(code), world.origin);
    world
        .tracker
        .function_got(DEVICE, context, 0x70, of, origin);
    assert_eq!(world.read(), 0);
    world.make_stream(context, 2 * MIB, true);
    world.libraries[0].loaded = true;
    world.make_stream(context, 2 * MIB, true);
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 4 * MIB);
    assert_eq!(world.tracker.bytes(Kind::Module.of(code)), 92 * MIB);
    assert!(!world.estimated);
}

/// Without queries of free memory, a stream is charged the bytes without another explanation; with code that may run,
/// by estimate.
#[test]
fn streams_whose_bytes_are_not_known() {
    let (mut world, context) = with_context();
    world.make_stream(context, 2 * MIB, false);
    assert_eq!(world.read(), 0);
    assert!(!world.estimated);
    let code = load(&mut world, context, 92 * MIB, true);
    world.make_stream(context, 4 * MIB, false);
    assert_eq!(world.read(), 0);
    assert!(world.estimated);
    let streams = world.tracker.bytes(Kind::streams_of(context));
    let code = world.tracker.bytes(Kind::Module.of(code));
    assert_eq!(streams + code, 98 * MIB);
}

/// Growth beyond the known bytes of streams is not charged to them.
#[test]
fn streams_have_no_more_than_is_known() {
    let (mut world, context) = with_context();
    world.make_stream(context, 2 * MIB, true);
    world.contexts.get_mut(&context).expect("it is live").own += 6 * MIB;
    assert_eq!(world.read(), 6 * MIB as i64, "of nobody");
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 2 * MIB);
}

/// Each line that created streams is charged their bytes.
#[test]
fn streams_of_two_lines_in_one_interval() {
    let (mut world, context) = with_context();
    let line = |api| Origin {
        api: ApiId(api),
        ..Origin::default()
    };
    for (api, mib) in [(1, 2), (2, 4), (1, 2)] {
        world.origin = line(api);
        world.make_stream(context, mib * MIB, true);
    }
    let reading = world.reading(true);
    world.tracker.read(&reading);
    let mut grown = Vec::new();
    while let Some(event) = world.tracker.unwritten() {
        assert_eq!((event.kind, event.ptr), (EventKind::RESIZE, context | 1));
        grown.push((event.api.0, (event.bytes - event.aux) / MIB));
        world.tracker.written(Some(Seq(0)));
    }
    assert_eq!(grown, [(1, 4), (2, 4)]);
}

/// Memory that other processes release meanwhile hides bytes: no more is charged than the growth, and it is an
/// estimate.
#[test]
fn streams_beside_others_that_move() {
    let (mut world, context) = with_context();
    world.make_stream(context, 4 * MIB, true);
    let mut reading = world.reading(true);
    reading.mine = reading.mine.map(|mine| mine - 2 * MIB);
    reading.others = Some(MIB);
    world.tracker.read(&reading);
    world.record();
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 2 * MIB);
    assert!(world.estimated);
}

/// The end of a context frees its streams' memory, with or without a reading; a failed end does not.
#[test]
fn streams_end_with_their_context() {
    let (mut world, context) = with_context();
    let end = |fails| Op::EndContext { pick: 0, fails };
    world.make_stream(context, 2 * MIB, true);
    world.read();
    world.make_stream(context, 2 * MIB, true);
    world.run(end(true));
    assert_eq!(world.read(), 0);
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 4 * MIB);
    world.make_stream(context, 2 * MIB, true);
    world.run(end(false));
    assert_eq!(world.read(), 0);
    assert_eq!(world.explained_by_tracker(), 0);
    assert!(!world.estimated);
}

/// Managed memory may hide streams; once it is freed they are charged their bytes, once.
#[test]
fn streams_beside_managed_memory() {
    let (mut world, context) = with_context();
    world.make_stream(context, 4 * MIB, true);
    for managed in [3, 3, 0] {
        let mut reading = world.reading(true);
        reading.managed = managed * MIB;
        world.tracker.read(&reading);
        world.record();
    }
    assert_eq!(world.tracker.bytes(Kind::streams_of(context)), 4 * MIB);
    assert_eq!(world.read(), 0);
}

/// A pool that ended may have grown before: its charge is an estimate. If the bytes belonged to a stream, they move
/// from the pool when the stream's context ends, and the context is charged if the pool goes first.
#[test]
fn a_stream_beside_a_pool_that_ended() {
    for pool_goes_first in [false, true] {
        let (mut world, context) = with_context();
        let (pool, origin) = (0x900, world.origin);
        world.tracker.pool_used(pool, DEVICE);
        let pending = world.tracker.pool_ending(pool, None, origin);
        world.tracker.settle(pending, true, origin);
        let streams = world.contexts.get_mut(&context).expect("it is live");
        // Memory without evidence.
        streams.streams += 2 * MIB;
        let owner = Kind::Pool.of(pool);
        world.tracker.pool_unasked(DEVICE, owner, origin);
        assert_eq!(world.read(), 0);
        assert_eq!(world.tracker.bytes(owner), 2 * MIB);
        assert!(world.estimated);
        if pool_goes_first {
            let questions = world.tracker.questions().expect("there is a pool");
            world.tracker.answered(&questions, false, origin);
            world.record();
            assert_eq!(world.read(), 0);
            assert_eq!(world.tracker.bytes(owner), 0);
        }
        world.run(Op::EndContext {
            pick: 0,
            fails: false,
        });
        assert_eq!(world.read(), 0);
        assert_eq!(world.explained_by_tracker(), 0);
    }
}
