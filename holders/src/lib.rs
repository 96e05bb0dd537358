//! Which Python objects keep blocks of GPU memory.
//!
//! A block's stack says who *allocated* it. What keeps it is an object: a list of results, an attribute, a local variable
//! of a frame that an exception keeps. [`walk`] starts at what keeps objects alive (the variables of running frames, the
//! namespaces of modules, the exceptions that are being handled) and follows every reference of the interpreter's
//! collector to the tensors. A tensor gets the shortest path to it: `metric.preds[0…213]`, a local of `main`.
//!
//! | part | what it does |
//! |---|---|
//! | `python` | takes the interpreter's lock; functions of the interpreter |
//! | `object`, `inline` | read objects and classes from memory |
//! | `collector`, `heap` | list the collector's objects and their references |
//! | `frames`, `roots` | list what keeps objects alive by itself |
//! | `outside` | counts references to objects from where the collector sees none |
//! | `search` | finds the shortest path from a root to each object |
//! | `path`, `contents`, `text` | write a path as Python would |
//! | `blocks` | the blocks of all tensors |
//! | `collect`, `groups` | put like paths together |
//! | `freed` | finds what stays if one object releases the others |
//! | `unused`, `live`, `opcodes` | find out whether a function reads a variable again |
//! | `shared` | finds another container that has the same tensors |
//!
//! # Design constraints
//! - Only where the calling thread may take the interpreter's lock. The lock is never taken while the interpreter ends,
//!   by a thread that Python does not know, or for another interpreter than the main one.
//! - No code of the program runs: no property, no `__getattr__`, no finalizer, no collection, no hook for audits. No
//!   object is created that the collector knows.
//! - Nothing panics. The time, the number of objects and the memory are bounded ([`Limits`]), and a walk that was cut
//!   is marked ([`Holders::cut`]).
//! - Which objects are tensors, and where their memory is, is the caller's knowledge ([`Tensors`]).

mod blocks;
mod collect;
mod collector;
mod contents;
mod frames;
mod freed;
mod groups;
mod heap;
mod inline;
mod limits;
mod live;
mod names;
mod object;
mod opcodes;
mod outside;
mod path;
mod python;
mod result;
mod roots;
mod search;
mod shared;
mod tensors;
mod text;
mod unused;

use std::time::Instant;

use gpumem_python_frames::{Finding, finding};

pub use crate::limits::{Cut, Limits};
pub use crate::python::{Called, Lock};
pub use crate::result::{Holder, Holders, Kind};
pub use crate::tensors::{Graph, Memory, Saved, Tensors};

use crate::frames::{Codes, Frames};
use crate::heap::Heap;
use crate::outside::Outside;
use crate::python::Locked;
use crate::search::Search;

/// Takes the interpreter's lock. None if the calling thread must not take it, or the interpreter is one that cannot be read.
///
/// If the interpreter begins to end meanwhile, CPython may end the thread here, which unwinds the callers: they must not
/// catch panics, have values that must be dropped, or be `extern "C"`.
pub fn lock() -> Option<Lock> {
    match finding() {
        Some(Finding::Readable(runtime)) if !runtime.is_finalizing() => Lock::take(runtime),
        _ => None,
    }
}

/// Lets the interpreter call `function` in its main thread, between two instructions of the program, with its lock. False if
/// it does not. Takes no lock of the interpreter, and may be called by any thread.
pub fn call_soon(function: Called) -> bool {
    let is_here = match finding() {
        Some(Finding::Readable(runtime)) => !runtime.is_finalizing(),
        _ => false,
    };
    is_here && python::call_soon(function)
}

/// Finds who keeps the tensors of a device. None if there is no memory for it.
pub fn walk(lock: &Lock, tensors: &mut dyn Tensors, limits: &Limits) -> Option<Holders> {
    let began = Instant::now();
    let locked = Locked::of(lock);
    let mut holders = with_lock(&locked, tensors, limits)?;
    holders.time = began.elapsed();
    Some(holders)
}

/// Whether the function with this live code object may read a variable before it stores or deletes it, from the instruction
/// on that is at this offset in bytes: for [`Holder::unused`]. None: not known.
pub fn reads(lock: &Lock, code: usize, offset: i32, variable: usize) -> Option<bool> {
    live::Live::default().reads(&Locked::of(lock), (code, offset), variable)
}

fn with_lock(locked: &Locked<'_>, tensors: &mut dyn Tensors, limits: &Limits) -> Option<Holders> {
    let frames = Frames::list(locked, limits);
    let mut codes = Codes::default();
    let heap = Heap::read(locked, &frames.objects(), limits)?;
    let roots = roots::find(locked, &heap, &frames, &mut codes);
    let outside = Outside::count(locked, &heap, &roots, &frames, &mut codes);
    let given = roots.len();
    let all = tensors::objects(&heap, tensors);
    let known = (frames.all.len(), &outside, &all[..]);
    let search = Search::run(locked, &heap, roots, known, limits);
    let kept = freed::Kept {
        locked,
        heap: &heap,
        frames: &frames,
        outside: &outside,
        roots: search.roots.get(..given).unwrap_or_default(),
    };
    let paths = path::Paths::new(locked, &heap, &search, (&frames, codes));
    let mut holders = groups::group(paths, &kept, &search, (tensors, &all), limits);
    holders.objects = heap.objects.len();
    holders.references = heap.edges().len();
    Some(holders)
}
