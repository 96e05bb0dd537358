//! Tests of native stacks with the interner, in this program without Python. Python stacks are tested
//! in real interpreters by tests/test_python_frames.py.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use gpumem_capture::{CodeId, DefKind, Lost, PyFrame, StackId};
use gpumem_python_frames::Position;

use crate::{DefinitionSink, Interner, Stacks};

/// Keeps definitions in order; refuses every `fails`-th.
#[derive(Default)]
struct Collector {
    kept: Mutex<Vec<(DefKind, Vec<u8>)>>,
    asked: AtomicU32,
    fails: u32,
}

impl DefinitionSink for Collector {
    fn is_open(&self) -> bool {
        true
    }

    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails != 0 && asked.is_multiple_of(self.fails) {
            return Err(Lost::RingFull);
        }
        self.kept.lock().unwrap().push((kind, parts.concat()));
        Ok(())
    }
}

#[test]
fn a_position_is_a_frames_word_in_a_capture() {
    for offset in [
        i32::MIN,
        -17,
        -16,
        -2,
        0,
        2,
        40_000,
        i32::MAX - 16,
        i32::MAX,
    ] {
        for entered_from_c in [false, true] {
            let position = Position::new(offset, entered_from_c);
            let frame = PyFrame::from_words(7, position.bits());
            assert_eq!(frame.code, CodeId(7));
            assert_eq!(frame.offset, position.offset());
            assert_eq!(frame.entered_from_c, position.entered_from_c());
            assert_eq!(frame.entered_from_c, entered_from_c);
            assert_eq!(frame.word(), position.bits());
            let written = PyFrame { offset, ..frame };
            assert_eq!(written.word(), position.bits());
        }
    }
}

fn u32_at(payload: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(payload[at..at + 4].try_into().unwrap())
}

fn u64_at(payload: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(payload[at..at + 8].try_into().unwrap())
}

#[derive(Debug)]
struct Stack {
    truncated: bool,
    frames: Vec<u64>,
}

/// The native stacks by id; checks that each frame's module was defined before it.
fn stacks(collector: &Collector) -> HashMap<u32, Stack> {
    let (mut modules, mut stacks) = (Vec::new(), HashMap::new());
    for (kind, payload) in collector.kept.lock().unwrap().iter() {
        match *kind {
            DefKind::MODULE => modules.push((u64_at(payload, 12), u64_at(payload, 20))),
            DefKind::NATIVE_STACK => {
                let count = u32_at(payload, 8) as usize;
                assert_eq!(payload.len(), 12 + 8 * count);
                let stack = Stack {
                    truncated: u32_at(payload, 4) != 0,
                    frames: (0..count).map(|i| u64_at(payload, 12 + 8 * i)).collect(),
                };
                for address in &stack.frames {
                    let call = address - 1;
                    let known = modules
                        .iter()
                        .any(|(start, end)| (*start..*end).contains(&call));
                    assert!(
                        known,
                        "{call:#x} is in no module that was defined before it"
                    );
                }
                let earlier = stacks.insert(u32_at(payload, 0), stack);
                assert!(earlier.is_none(), "an id defined twice");
            }
            kind => panic!("{kind:?} without a reason"),
        }
    }
    stacks
}

fn names(addresses: &[u64]) -> Vec<String> {
    let mut names = Vec::new();
    for address in addresses {
        backtrace::resolve((address - 1) as *mut _, |symbol| {
            names.extend(symbol.name().map(|name| name.to_string()));
        });
    }
    names
}

/// Calls `take` below as many calls as `path` has bits; each bit selects one of two functions.
#[inline(never)]
fn along(path: u32, length: u32, take: &dyn Fn() -> StackId) -> StackId {
    #[inline(never)]
    fn left(path: u32, length: u32, take: &dyn Fn() -> StackId) -> StackId {
        let id = along(path, length, take);
        // Makes the code differ, because the compiler merges identical functions.
        std::hint::black_box(1u8);
        id
    }
    #[inline(never)]
    fn right(path: u32, length: u32, take: &dyn Fn() -> StackId) -> StackId {
        let id = along(path, length, take);
        std::hint::black_box(2u64);
        id
    }
    match length {
        0 => std::hint::black_box(take()),
        _ if path & 1 == 0 => left(path >> 1, length - 1, take),
        _ => right(path >> 1, length - 1, take),
    }
}

#[test]
fn a_native_stack_names_the_functions_that_called() {
    let (interner, collector) = (Interner::new(), Collector::default());
    let take = || interner.take(&collector, Stacks::Native, None).1;
    let id = along(0b010, 3, &take);
    let stacks = stacks(&collector);
    let names = names(&stacks[&id.0].frames);
    let path: Vec<_> = names
        .iter()
        .filter_map(|name| {
            // Debug builds include the path and a hash, optimised builds do not.
            let is = |wanted: &str| name == wanted || name.contains(&format!("::{wanted}"));
            ["left", "right"].into_iter().find(|wanted| is(wanted))
        })
        .collect();
    assert_eq!(path, ["left", "right", "left"], "{names:#?}");
    assert!(
        names
            .iter()
            .any(|name| name.contains("a_native_stack_names")),
        "{names:#?}"
    );
}

#[test]
fn equal_stacks_have_one_id_and_others_have_others() {
    let (interner, collector) = (Interner::new(), Collector::default());
    let take = || interner.take(&collector, Stacks::Native, None).1;
    let mut ids = HashSet::new();
    for path in 0..64 {
        let mut rounds = HashSet::new();
        for _ in 0..std::hint::black_box(3) {
            rounds.insert(along(path, 6, &take));
        }
        assert_eq!(rounds.len(), 1);
        for id in rounds {
            assert!(ids.insert(id), "path {path:b} shares an id");
        }
    }
    assert_eq!(stacks(&collector).len(), 64);
}

#[test]
fn an_id_that_is_remembered_is_of_the_same_interner() {
    let interners = [const { Interner::new() }; 2];
    let collector = [Collector::default(), Collector::default()];
    // Makes the two interners assign different ids to the same stacks.
    interners[1].take(&collector[1], Stacks::Native, None);
    let mut seen = [const { Vec::new() }; 2];
    for turn in 0..std::hint::black_box(12) {
        let one = turn / 3 % 2;
        let take = || interners[one].take(&collector[one], Stacks::Native, None).1;
        seen[one].push(along(5, 6, &take));
    }
    let [first, second] = seen;
    assert!(first.iter().all(|id| *id == first[0]), "{first:?}");
    assert!(second.iter().all(|id| *id == second[0]), "{second:?}");
    assert!(stacks(&collector[1]).contains_key(&second[0].0));
    assert_ne!(first[0], second[0]);
}

#[test]
fn deep_stacks_keep_the_newest_frames() {
    let (interner, collector) = (Interner::new(), Collector::default());
    let take = || interner.take(&collector, Stacks::Native, None).1;
    let (deep, shallow) = (along(0, 900, &take), along(0, 3, &take));
    let stacks = stacks(&collector);
    assert!(stacks[&deep.0].truncated);
    assert_eq!(stacks[&deep.0].frames.len(), gpumem_unwind::FRAMES);
    assert!(!stacks[&shallow.0].truncated);
    // The newest frames are in the unwinder and the interner; where the tests' own are depends on
    // inlining.
    let newest = names(&stacks[&deep.0].frames[..16]);
    assert!(
        newest.iter().any(|name| name.contains("along")),
        "{newest:#?}"
    );
}

#[test]
fn what_is_not_wanted_or_not_there_is_none() {
    let (interner, collector) = (Interner::new(), Collector::default());
    let none = (StackId::NONE, StackId::NONE);
    assert_eq!(interner.take(&collector, Stacks::Off, None), none);
    assert_eq!(interner.take(&collector, Stacks::Python, None), none);
    assert_eq!(collector.asked.load(Ordering::Relaxed), 0);
    let (python, native) = interner.take(&collector, Stacks::Mixed, None);
    assert!(python == StackId::NONE && native != StackId::NONE);
}

#[test]
fn a_stack_that_could_not_be_defined_is_tried_again() {
    let interner = Interner::new();
    let collector = Collector {
        fails: 2,
        ..Collector::default()
    };
    let take = || interner.take(&collector, Stacks::Native, None).1;
    let mut nones = 0;
    for path in 0..32 {
        let mut seen = HashSet::new();
        for _ in 0..std::hint::black_box(20) {
            seen.insert(along(path, 5, &take));
        }
        nones += u32::from(seen.remove(&StackId::NONE));
        assert_eq!(seen.len(), 1, "one id in the end");
    }
    assert!(nones > 0, "no definition failed: nothing was tested");
    assert_eq!(stacks(&collector).len(), 32);
}

#[test]
fn eight_threads_meet_the_same_stacks() {
    // The threads' stacks begin with the same frames: the path distinguishes them, not the thread.
    let interner = Interner::new();
    let collector = Collector {
        fails: 7,
        ..Collector::default()
    };
    let ids: Vec<HashMap<u32, StackId>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u32)
            .map(|_| {
                scope.spawn(|| {
                    let take = || interner.take(&collector, Stacks::Native, None).1;
                    let mut ids = HashMap::new();
                    for round in 0..std::hint::black_box(3) {
                        for path in 0..256 {
                            let id = along(path, 8, &take);
                            if id != StackId::NONE {
                                let known = *ids.entry(path).or_insert(id);
                                assert_eq!(known, id, "path {path:b} in round {round}");
                            }
                        }
                    }
                    ids
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut all = HashMap::new();
    for (path, id) in ids.into_iter().flatten() {
        assert_eq!(*all.entry(path).or_insert(id), id, "path {path:b}");
    }
    assert_eq!(all.len(), 256);
    let defined = stacks(&collector);
    assert_eq!(all.values().collect::<HashSet<_>>().len(), 256);
    assert!(
        all.values().all(|id| defined.contains_key(&id.0)),
        "an id without a definition"
    );
    assert_eq!(defined.len(), 256);
}
