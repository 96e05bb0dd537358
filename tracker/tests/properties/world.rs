//! A card that consists only of numbers, a program's view of it, and the tracker.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Seq};
use gpumem_tracker::{
    FunctionOf, Kind, Origin, Pending, Reading, Reservation, Seen, Tracker, Verdict,
};
use proptest::prelude::*;

pub const DEVICE: DeviceOrdinal = DeviceOrdinal(0);
pub const MIB: u64 = 1 << 20;

/// The operations of a program. Numbers select among existing objects.
#[derive(Clone, Copy, Debug)]
pub enum Op {
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
    /// A launch, which is not hooked.
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
    /// Creates a stream of this size. `is_asked`: whether free memory is queried before and after.
    Stream {
        pick: usize,
        mib: u64,
        is_asked: bool,
    },
    /// Memory that a call reports explicitly.
    Told {
        mib: u64,
    },
    Disturbed,
    Read,
}

pub fn ops() -> impl Strategy<Value = Op> {
    let pick = 0..64usize;
    prop_oneof![
        2 => Just(Op::MakeContext),
        1 => (pick.clone(), any::<bool>()).prop_map(|(pick, fails)| Op::EndContext { pick, fails }),
        4 => (pick.clone(), any::<bool>()).prop_map(|(pick, lazy)| Op::Load { pick, lazy }),
        4 => pick.clone().prop_map(|pick| Op::GetFunction { pick }),
        4 => pick.clone().prop_map(|pick| Op::Launch { pick }),
        2 => (pick.clone(), 0..64u64, any::<bool>())
            .prop_map(|(pick, mib, later)| Op::SetLimit { pick, mib, later }),
        3 => (pick.clone(), 0..3u64, any::<bool>())
            .prop_map(|(pick, mib, is_asked)| Op::Stream { pick, mib, is_asked }),
        2 => (pick, any::<bool>()).prop_map(|(pick, fails)| Op::Unload { pick, fails }),
        3 => (0..512u64).prop_map(|mib| Op::Told { mib }),
        1 => Just(Op::Disturbed),
        4 => Just(Op::Read),
    ]
}

/// A library in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    pub handle: u64,
    pub context: u64,
    /// The size of its code once it is loaded.
    pub size: u64,
    pub loaded: bool,
    pub has_function: bool,
}

/// The memory of a context: its base, its limits, the limits that take effect at the next launch, and its
/// streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    pub own: u64,
    pub limit: u64,
    pub later: Option<u64>,
    pub streams: u64,
}

/// The card, the program's view of it, and the tracker.
#[derive(Default)]
pub struct World {
    pub tracker: Tracker,
    pub contexts: BTreeMap<u64, Context>,
    pub libraries: Vec<Library>,
    /// Bytes that calls report explicitly.
    pub told: u64,
    pub next: u64,
    /// The size of every reservation according to the recorded changes.
    pub recorded: BTreeMap<(EventFlagsKey, u64), u64>,
    /// Whether any share was estimated.
    pub estimated: bool,
    pub origin: Origin,
}

pub type EventFlagsKey = u32;

impl World {
    pub fn handle(&mut self) -> u64 {
        self.next += 16;
        self.next
    }

    pub fn real(&self) -> u64 {
        let contexts = self.contexts.values();
        let contexts = contexts.map(|one| one.own + one.limit + one.streams);
        let code = self.libraries.iter().filter(|one| one.loaded);
        contexts.sum::<u64>() + code.map(|one| one.size).sum::<u64>()
    }

    /// Moves the queued events into the record, which must continue where it ended.
    pub fn record(&mut self) {
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

    pub fn explained_by_tracker(&self) -> u64 {
        let kinds = [Kind::Context, Kind::Module, Kind::Streams, Kind::Pool];
        let bytes = kinds.map(|kind| self.tracker.bytes_of(DEVICE, kind));
        bytes.iter().sum()
    }

    /// Queries the free memory from the driver; returns its decrease.
    pub fn ask(&mut self) -> Option<u64> {
        let free = 64 * 1024 * MIB - self.told - self.real();
        let explained = self.told + self.explained_by_tracker();
        self.tracker.asked_free(DEVICE, Some(free), explained)
    }

    /// Creates a stream of this size in a context.
    pub fn make_stream(&mut self, context: u64, bytes: u64, is_asked: bool) {
        let before = is_asked.then(|| self.ask());
        if let Some(context) = self.contexts.get_mut(&context) {
            context.streams += bytes;
        }
        let fell = before.and_then(|_| self.ask());
        assert!(fell.is_none_or(|fell| fell == bytes));
        if fell != Some(0) {
            let origin = self.origin;
            self.tracker.stream_made(DEVICE, context, fell, origin);
        }
    }

    pub fn reading(&self, is_still: bool) -> Reading {
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

    /// An accepted reading: explained and unexplained bytes add up to NVML's figure. Returns the unexplained
    /// bytes.
    pub fn read(&mut self) -> i64 {
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

    pub fn disturbed(&mut self) {
        let before = self.explained_by_tracker();
        let moving = self.reading(false);
        assert_eq!(self.tracker.read(&moving), Verdict::Disturbed);
        let stale = self.reading(true);
        // A change between the query and its answer.
        self.tracker.limit_set(DEVICE, 0, self.origin);
        assert_eq!(self.tracker.read(&stale), Verdict::Disturbed);
        assert_eq!(self.explained_by_tracker(), before);
        self.record();
    }

    pub fn context_at(&self, pick: usize) -> Option<u64> {
        let all: Vec<u64> = self.contexts.keys().copied().collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    pub fn library_at(&self, pick: usize) -> Option<usize> {
        (!self.libraries.is_empty()).then(|| pick % self.libraries.len())
    }

    pub fn settle(&mut self, pending: Pending, fails: bool, before: u64) {
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

    /// Records a context that the program created in the tracker.
    pub fn see(&mut self, context: u64, how: Seen) {
        let origin = self.origin;
        self.tracker.context_made(context, DEVICE, true, 0, origin);
        self.tracker.context_seen(DEVICE, context, how, origin);
    }

    pub fn run(&mut self, op: Op) {
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
            Op::Stream {
                pick,
                mib,
                is_asked,
            } => {
                if let Some(context) = self.context_at(pick) {
                    self.make_stream(context, mib * 2 * MIB, is_asked);
                }
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

    pub fn owner(&self, library: &Library) -> Reservation {
        Kind::Module.of(library.handle)
    }
}
