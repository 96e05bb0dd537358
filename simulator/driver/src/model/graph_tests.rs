//! Graph memory under random use. After every launch the books must match a plain list of the live
//! allocations, and the pages must match the peak.

use super::State;
use super::capture::{GLOBAL, RELAXED};
use super::executable::{AUTO_FREE, Launch};
use super::graph::Work;
use super::kind::Kind;
use super::stream::On;
use super::tests::{MIB, Random, at, machine};
use super::user_object::Ended;
use crate::ffi::CuError;
use std::collections::BTreeMap;

/// Launches memory nodes as the driver's function does.
fn launch(state: &mut State, executable: usize) -> Result<(), CuError> {
    let launch = state.begin_launch(executable)?;
    finish(state, launch)
}

/// Completes a launch.
fn finish(state: &mut State, launch: Launch) -> Result<(), CuError> {
    for work in launch.works {
        match work {
            Work::Allocate(address) => state.start_graph_allocation(address)?,
            Work::Free(address) => state.end_graph_allocation(address)?,
            _ => {}
        }
    }
    state.keep_promise(&launch.promised);
    Ok(())
}

/// A graph of random allocations, some of which it frees: the others, which stay live, and the peak
/// of its live bytes, in steps of 512 bytes.
struct Made {
    executable: usize,
    rest: Vec<(u64, u64)>,
    all: u64,
    worst: u64,
}

fn make(state: &mut State, random: &mut Random) -> Made {
    let graph = state.graphs.create();
    let mut live: Vec<(u64, u64)> = Vec::new();
    let (mut now, mut worst, mut all) = (0, 0, 0);
    for _ in 0..1 + random.below(8) {
        let bytes = 1 + random.below(3 * MIB);
        let (_, address) = state.add_allocation(graph, &[], 0, bytes).expect("a node");
        live.push((address, bytes));
        all += 1;
        now += bytes.next_multiple_of(512);
        worst = worst.max(now);
        if random.below(2) == 0 {
            let at = random.below(live.len() as u64) as usize;
            let (address, bytes) = live.swap_remove(at);
            state.add_free(graph, &[], address).expect("a node");
            now -= bytes.next_multiple_of(512);
        }
    }
    let flags = if random.below(2) == 0 { AUTO_FREE } else { 0 };
    Made {
        executable: state.instantiate(graph, flags).expect("an executable"),
        rest: live,
        all,
        worst,
    }
}

#[test]
fn books_and_pages_follow_a_list_of_what_is_live() {
    let mut state = State::new(machine("1GiB"));
    assert!(state.retain_primary(0).is_ok());
    let context = state.books.device(0).physical().0;
    let mut random = Random(7);
    let graphs: Vec<Made> = (0..6).map(|_| make(&mut state, &mut random)).collect();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut reserved, mut allocations, mut refused) = (0, 0, 0);
    for _ in 0..500 {
        let made = &graphs[random.below(6) as usize];
        let is_live = made
            .rest
            .iter()
            .any(|(address, _)| live.contains_key(address));
        let frees = state.graphs.executable(made.executable).map(|e| e.flags);
        if is_live && frees == Ok(0) {
            let before = state.books.json();
            let again = launch(&mut state, made.executable);
            assert_eq!(again, Err(CuError::INVALID_VALUE));
            assert_eq!(state.books.json(), before);
            refused += 1;
        } else {
            live.retain(|address, _| !made.rest.iter().any(|(own, _)| own == address));
            let others: u64 = live.values().map(|bytes| bytes.next_multiple_of(512)).sum();
            assert_eq!(launch(&mut state, made.executable), Ok(()));
            live.extend(made.rest.iter().copied());
            reserved = reserved.max((others + made.worst).next_multiple_of(32 * MIB));
            allocations += made.all;
        }
        if random.below(3) == 0
            && let Some(address) = live.keys().nth(random.below(4) as usize).copied()
        {
            live.remove(&address);
            assert_eq!(state.free_device(address), Ok(()));
        }
        if random.below(20) == 0 {
            state.trim_graphs_of(0);
            let used: u64 = live.values().map(|bytes| bytes.next_multiple_of(512)).sum();
            reserved = used.next_multiple_of(32 * MIB);
        }
        let row = state.books.device(0).kind(Kind::Graph);
        assert_eq!(row.current, live.values().sum::<u64>());
        assert_eq!(row.allocations, allocations);
        assert_eq!(row.allocations - row.frees, live.len() as u64);
        assert_eq!(state.books.device(0).physical().0, context + reserved);
        assert_eq!(state.graphs.memory.devices[0].reserved.current, reserved);
    }
    assert!(refused > 10 && allocations > 500);
    state.reset_primary(0).run();
    assert_eq!(state.books.device(0).driver().current, 0);
    assert_eq!(state.books.device(0).physical().0, 0);
    assert_eq!(state.graphs.memory.devices[0].used.current, 0);
}

#[test]
fn a_launch_has_its_pages_for_itself() {
    let mut state = State::new(machine("1GiB"));
    assert!(state.retain_primary(0).is_ok());
    let context = state.books.device(0).physical().0;
    let executables = [20 * MIB, 30 * MIB].map(|bytes| {
        let graph = state.graphs.create();
        let (_, address) = state.add_allocation(graph, &[], 0, bytes).expect("a node");
        let made = state.instantiate(graph, 0).expect("an executable");
        (made, address)
    });
    let begun = executables.map(|(made, _)| state.begin_launch(made).expect("it begins"));
    state.trim_graphs_of(0);
    for launch in begun {
        assert_eq!(finish(&mut state, launch), Ok(()));
    }
    assert_eq!(state.books.device(0).physical().0, context + 64 * MIB);
    for (_, address) in executables {
        assert_eq!(state.free_device(address), Ok(()));
    }
    state.trim_graphs_of(0);
    assert_eq!(state.books.device(0).physical().0, context);
}

#[test]
fn addresses_are_given_back_when_nobody_needs_them() {
    let mut state = State::new(machine("1GiB"));
    assert!(state.retain_primary(0).is_ok());
    let graph = state.graphs.create();
    let (_, address) = state.add_allocation(graph, &[], 0, 100).expect("a node");
    let executable = state.instantiate(graph, 0).expect("an executable");
    assert_eq!(launch(&mut state, executable), Ok(()));
    state.destroy_graph(graph).expect("a graph").run();
    state.destroy_executable(executable).expect("one").run();
    assert!(state.graphs.memory.addresses.contains_key(&address));
    assert_eq!(state.free_device(address), Ok(()));
    assert!(state.graphs.memory.addresses.is_empty());
    // An allocation that was never launched ends with its graph.
    let graph = state.graphs.create();
    assert!(state.add_allocation(graph, &[], 0, 100).is_ok());
    state.destroy_graph(graph).expect("a graph").run();
    assert!(state.graphs.memory.addresses.is_empty());
}

#[test]
fn nodes_run_after_those_that_they_depend_on() {
    let mut state = State::new(machine("1GiB"));
    let graph = state.graphs.create();
    let nodes: Vec<usize> = (0..4)
        .map(|_| state.graphs.add(graph, &[], Work::Empty).expect("a node"))
        .collect();
    let order = |state: &State| state.graphs.get(graph).and_then(|graph| graph.order());
    assert_eq!(order(&state), Ok(nodes.clone()), "as they were made");
    let connected = state.graphs.connect(graph, &nodes[3..], &nodes[..1]);
    assert_eq!(connected, Ok(()));
    assert_eq!(
        order(&state),
        Ok(vec![nodes[1], nodes[2], nodes[3], nodes[0]])
    );
    let circular = state.graphs.connect(graph, &nodes[..1], &nodes[3..]);
    assert_eq!(circular, Ok(()));
    assert_eq!(order(&state), Err(CuError::INVALID_VALUE));
    assert_eq!(state.instantiate(graph, 0), Err(CuError::INVALID_VALUE));
}

#[test]
fn a_capture_joins_what_it_forked() {
    let mut state = State::new(machine("1GiB"));
    assert!(state.retain_primary(0).is_ok());
    let current = at(&state, 0);
    super::context::push(current.context);
    let stream = super::stream::Stream {
        context: current.context,
        device: 0,
        flags: super::stream::NON_BLOCKING,
        priority: 0,
        id: 0,
    };
    let event = super::stream::Event {
        context: current.context,
        flags: 0,
        recorded: None,
        captured: None,
    };
    let one = On::legacy(state.streams.insert(stream));
    let two = On::legacy(state.streams.insert(stream));
    let (fork, join) = (
        state.events.insert(event.clone()),
        state.events.insert(event),
    );
    for (joins, expected) in [
        (true, Ok(())),
        (false, Err(CuError::STREAM_CAPTURE_UNJOINED)),
    ] {
        assert_eq!(state.begin_capture(one, None, GLOBAL), Ok(()));
        assert_eq!(state.captured_as(one, Work::Empty), Ok(true));
        assert_eq!(state.captured_as(two, Work::Empty), Ok(false));
        assert_eq!(state.record_captured(one, fork, 0), Ok(true));
        assert_eq!(state.wait_captured(two, fork, 0), Ok(()));
        assert_eq!(state.captured_as(two, Work::Empty), Ok(true));
        assert_eq!(state.record_captured(two, join, 0), Ok(true));
        if joins {
            assert_eq!(state.wait_captured(one, join, 0), Ok(()));
        }
        let ended = state.end_capture(one, &mut Ended::default());
        assert_eq!(ended.map(drop), expected);
        assert!(state.captures.of(two).is_none());
    }
    assert_eq!(state.begin_capture(one, None, RELAXED), Ok(()));
    assert_eq!(state.unsafe_call(), Ok(()));
    assert_eq!(
        state.context_call(current.context),
        Err(CuError::STREAM_CAPTURE_UNSUPPORTED)
    );
    super::context::pop();
}
