//! Random programs on a card that is nothing but numbers, against the tracker: no driver, no process, no simulator.
//!
//! The model knows what every context and library really takes. After each reading that counts, what is explained and what
//! is not add up to the card's figure; where calls come one at a time, every byte is whose it is.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Seq};
use gpumem_tracker::{
    FunctionOf, Kind, Origin, Pending, Reading, Reservation, Seen, Tracker, Verdict,
};
use proptest::prelude::*;

const DEVICE: DeviceOrdinal = DeviceOrdinal(0);
const MIB: u64 = 1 << 20;

/// What a program does. Numbers pick among what there is.
#[derive(Clone, Copy, Debug)]
enum Op {
    MakeContext,
    EndContext {
        pick: usize,
        fails: bool,
    },
    Load {
        pick: usize,
        lazy: bool,
    },
    GetFunction {
        pick: usize,
    },
    /// Not a call that is hooked.
    Launch {
        pick: usize,
    },
    SetLimit {
        pick: usize,
        mib: u64,
        later: bool,
    },
    Unload {
        pick: usize,
        fails: bool,
    },
    /// Something that a call tells.
    Told {
        mib: u64,
    },
    Disturbed,
    Read,
}

fn ops() -> impl Strategy<Value = Op> {
    let pick = 0..64usize;
    prop_oneof![
        2 => Just(Op::MakeContext),
        1 => (pick.clone(), any::<bool>()).prop_map(|(pick, fails)| Op::EndContext { pick, fails }),
        4 => (pick.clone(), any::<bool>()).prop_map(|(pick, lazy)| Op::Load { pick, lazy }),
        4 => pick.clone().prop_map(|pick| Op::GetFunction { pick }),
        4 => pick.clone().prop_map(|pick| Op::Launch { pick }),
        2 => (pick.clone(), 0..64u64, any::<bool>())
            .prop_map(|(pick, mib, later)| Op::SetLimit { pick, mib, later }),
        2 => (pick, any::<bool>()).prop_map(|(pick, fails)| Op::Unload { pick, fails }),
        3 => (0..512u64).prop_map(|mib| Op::Told { mib }),
        1 => Just(Op::Disturbed),
        4 => Just(Op::Read),
    ]
}

/// A library in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Library {
    handle: u64,
    context: u64,
    /// What its code takes once it is there.
    size: u64,
    loaded: bool,
    has_function: bool,
}

/// What a context takes: itself, its limits, and the limits that take effect at the next launch.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    own: u64,
    limit: u64,
    later: Option<u64>,
}

/// The card, the program's view of it, and the tracker.
#[derive(Default)]
struct World {
    tracker: Tracker,
    contexts: BTreeMap<u64, Context>,
    libraries: Vec<Library>,
    /// What calls tell.
    told: u64,
    next: u64,
    /// What every reservation has by the changes that were recorded.
    recorded: BTreeMap<(EventFlagsKey, u64), u64>,
    /// Whether any share was estimated.
    estimated: bool,
    origin: Origin,
}

type EventFlagsKey = u32;

impl World {
    fn handle(&mut self) -> u64 {
        self.next += 16;
        self.next
    }

    fn real(&self) -> u64 {
        let contexts = self.contexts.values().map(|one| one.own + one.limit);
        let code = self.libraries.iter().filter(|one| one.loaded);
        contexts.sum::<u64>() + code.map(|one| one.size).sum::<u64>()
    }

    /// Takes what was queued into the record, which must go on where it ended.
    fn record(&mut self) {
        while let Some(event) = self.tracker.unwritten() {
            let event: Event = *event;
            if event.kind != EventKind::RESIZE {
                self.tracker.written(Some(Seq(0)));
                continue;
            }
            let kind = event.flags.0 & !EventFlags::ESTIMATED.0;
            let key = (u32::from(kind), event.ptr);
            let before = self.recorded.insert(key, event.bytes).unwrap_or(0);
            assert_eq!(
                before, event.aux,
                "a change begins where the last one ended"
            );
            assert_ne!(event.aux, event.bytes, "no change is recorded that is none");
            assert_eq!(event.device, DEVICE);
            self.estimated |= event.flags.contains(EventFlags::ESTIMATED);
            self.tracker.written(Some(Seq(0)));
        }
        let sum: u64 = self.recorded.values().sum();
        assert_eq!(
            sum,
            self.explained_by_tracker(),
            "the events say what the tracker has"
        );
    }

    fn explained_by_tracker(&self) -> u64 {
        self.tracker.bytes_of(DEVICE, Kind::Context) + self.tracker.bytes_of(DEVICE, Kind::Module)
    }

    fn reading(&self, is_still: bool) -> Reading {
        let mine = self.told + self.real();
        Reading {
            device: DEVICE,
            mine: Some(mine),
            others: Some(0),
            used: mine,
            explained: self.told + self.explained_by_tracker(),
            managed: 0,
            ticket: self.tracker.begin_reading(),
            is_still,
        }
    }

    /// A reading that counts: explained and unexplained bytes are NVML's figure. What stays unexplained.
    fn read(&mut self) -> i64 {
        let reading = self.reading(true);
        let Verdict::Taken {
            explained,
            unexplained,
        } = self.tracker.read(&reading)
        else {
            panic!("nothing moved meanwhile");
        };
        self.record();
        assert_eq!(explained, self.told + self.explained_by_tracker());
        let mine = reading.mine.unwrap_or(0) as i64;
        assert_eq!(explained as i64 + unexplained, mine);
        assert!(!self.tracker.has_fresh_evidence(DEVICE));
        unexplained
    }

    fn disturbed(&mut self) {
        let before = self.explained_by_tracker();
        let moving = self.reading(false);
        assert_eq!(self.tracker.read(&moving), Verdict::Disturbed);
        let stale = self.reading(true);
        // Anything that changes between the question and its answer.
        self.tracker.limit_set(DEVICE, 0, self.origin);
        assert_eq!(self.tracker.read(&stale), Verdict::Disturbed);
        assert_eq!(self.explained_by_tracker(), before);
        self.record();
    }

    fn context_at(&self, pick: usize) -> Option<u64> {
        let all: Vec<u64> = self.contexts.keys().copied().collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    fn library_at(&self, pick: usize) -> Option<usize> {
        (!self.libraries.is_empty()).then(|| pick % self.libraries.len())
    }

    fn settle(&mut self, pending: Pending, fails: bool, before: u64) {
        self.tracker.settle(pending, !fails, self.origin);
        self.record();
        if fails {
            assert_eq!(
                self.explained_by_tracker(),
                before,
                "what did not end has what it had"
            );
        }
    }

    /// The tracker sees a context that the program made.
    fn see(&mut self, context: u64, how: Seen) {
        let origin = self.origin;
        self.tracker.context_made(context, DEVICE, true, 0, origin);
        self.tracker.context_seen(DEVICE, context, how, origin);
    }

    fn run(&mut self, op: Op) {
        let origin = self.origin;
        match op {
            Op::MakeContext => {
                let context = self.handle();
                self.contexts.insert(
                    context,
                    Context {
                        own: 500 * MIB,
                        ..Context::default()
                    },
                );
                self.see(context, Seen::Made);
            }
            Op::EndContext { pick, fails } => {
                let Some(context) = self.context_at(pick) else {
                    return;
                };
                let before = self.explained_by_tracker();
                let ending = self.tracker.context_ending(context, true, origin);
                self.record();
                assert_eq!(self.tracker.bytes(Kind::Context.of(context)), 0);
                self.settle(ending.expect("it is the program's own"), fails, before);
                if !fails {
                    self.contexts.remove(&context);
                    self.libraries.retain(|one| one.context != context);
                }
            }
            Op::Load { pick, lazy } => {
                let Some(context) = self.context_at(pick) else {
                    return;
                };
                let handle = self.handle();
                let size = (1 + handle / 16 % 7) * 2 * MIB;
                let (loaded, has_function) = (!lazy, false);
                self.libraries.push(Library {
                    handle,
                    context,
                    size,
                    loaded,
                    has_function,
                });
                self.tracker.loaded(DEVICE, context, handle, origin);
            }
            Op::GetFunction { pick } => {
                let Some(place) = self.library_at(pick) else {
                    return;
                };
                let function = self.handle();
                self.libraries[place].has_function = true;
                let Library {
                    handle, context, ..
                } = self.libraries[place];
                let of = FunctionOf::Module(handle);
                self.tracker
                    .function_got(DEVICE, context, function, of, origin);
                assert!(self.tracker.knows_function(function));
            }
            Op::Launch { pick } => {
                let Some(place) = self.library_at(pick) else {
                    return;
                };
                if self.libraries[place].has_function {
                    self.libraries[place].loaded = true;
                    let context = self.contexts.get_mut(&self.libraries[place].context);
                    if let Some(context) = context
                        && let Some(limit) = context.later.take()
                    {
                        context.limit = limit;
                    }
                }
            }
            Op::SetLimit { pick, mib, later } => {
                let Some(context) = self.context_at(pick) else {
                    return;
                };
                if let Some(state) = self.contexts.get_mut(&context) {
                    match later {
                        true => state.later = Some(mib * MIB),
                        false => state.limit = mib * MIB,
                    }
                }
                self.tracker.limit_set(DEVICE, context, origin);
            }
            Op::Unload { pick, fails } => {
                let Some(place) = self.library_at(pick) else {
                    return;
                };
                let handle = self.libraries[place].handle;
                let before = self.explained_by_tracker();
                let ended = self.tracker.unloading(handle, origin);
                self.record();
                self.settle(ended, fails, before);
                if !fails {
                    self.libraries.retain(|one| one.handle != handle);
                }
            }
            Op::Told { mib } => self.told = mib * MIB,
            Op::Disturbed => self.disturbed(),
            Op::Read => {
                self.read();
            }
        }
        self.record();
    }

    fn owner(&self, library: &Library) -> Reservation {
        Kind::Module.of(library.handle)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes between two readings: the sum is right, events are in order, nothing is negative.
    #[test]
    fn explained_and_unexplained_bytes_are_the_cards(program in prop::collection::vec(ops(), 1..120)) {
        let mut world = World::default();
        for op in program {
            world.run(op);
        }
        world.read();
    }

    /// Read after every call, with one library at most that could run: every byte is whose it is, and none is an estimate.
    #[test]
    fn one_call_at_a_time_is_exact(program in prop::collection::vec(ops(), 1..80)) {
        let mut world = World::default();
        for op in program {
            let several = world.libraries.iter().filter(|one| one.has_function).count() > 1;
            let ambiguous = match op {
                // It shows at a launch, with what else is to show then; one that changes nothing may show at any time.
                Op::SetLimit { pick, mib, later } => {
                    let state = world.context_at(pick).and_then(|one| world.contexts.get(&one));
                    later || state.is_none_or(|state| state.limit == mib * MIB)
                }
                Op::Launch { .. } => several,
                Op::GetFunction { .. } => world.libraries.len() > 1,
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
            }
            for library in &world.libraries {
                let real = if library.loaded { library.size } else { 0 };
                prop_assert_eq!(world.tracker.bytes(world.owner(library)), real);
            }
        }
    }

    /// Two that weigh nothing are told apart by the free memory that is asked for before each load.
    #[test]
    fn what_is_asked_before_loads_tells_them_apart(sizes in prop::collection::vec(1..64u64, 1..8), others in any::<bool>()) {
        let mut world = World::default();
        world.run(Op::MakeContext);
        world.read();
        let context = world.context_at(0).unwrap_or(0);
        let card = 64 * 1024 * MIB;
        let mut handles = Vec::new();
        for size in &sizes {
            let explained = world.told + world.explained_by_tracker();
            let free = card - world.told - world.real();
            world.tracker.asked_free(DEVICE, Some(free), explained);
            let handle = world.handle();
            let library = Library { handle, context, size: size * MIB, loaded: true, has_function: false };
            world.libraries.push(library);
            world.tracker.loaded(DEVICE, context, handle, world.origin);
            handles.push((handle, size * MIB));
            // What calls tell in between is no one's weight.
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
        // Weights are of the card's free memory: if others moved, they may be theirs.
        prop_assert_eq!(world.estimated, others && sizes.len() > 1);
    }

    /// What managed memory may have on the card is nobody's until it is gone; then the sum is right.
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

    /// Without NVML's figure of this process the card's own serves, from before the first context; all is an estimate.
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

/// A context that comes back unseen after the last one has ended is charged when it is seen, whatever was read meanwhile.
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

/// What other processes keep of a context's memory after its end is no cost of the next one.
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

/// A library that is loaded into two contexts has bytes in each, and the end of one takes its own.
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

/// The end of one device's primary context leaves alone what was loaded on another one and has not been read yet.
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

/// Two that weigh nothing, in one interval: the sum is right, and whose it is is said to be an estimate.
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

/// What the driver keeps of a library that was unloaded is its context's.
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

/// Millions of transitions a second, so that properties may make many.
#[test]
fn transitions_are_quick() {
    let mut world = World::default();
    world.run(Op::MakeContext);
    let began = std::time::Instant::now();
    for step in 0..100_000u64 {
        world.told = step % 7 * MIB;
        world.read();
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
