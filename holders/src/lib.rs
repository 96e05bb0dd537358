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
//! | `groups` | puts like paths together |
//! | `freed` | finds what stays if one object releases what it has |
//!
//! # Design constraints
//! - Only where the calling thread may take the interpreter's lock. The lock is never taken while the interpreter ends,
//!   by a thread that Python does not know, or for another interpreter than the main one.
//! - No code of the program runs: no property, no `__getattr__`, no finalizer, no collection, no hook for audits. No
//!   object is created that the collector knows.
//! - Nothing panics. The time, the number of objects and the memory are bounded ([`Limits`]), and [`Holders::cut`] is the one that
//!   ended a walk.
//! - Which objects are tensors, and where their memory is, is the caller's knowledge ([`Tensors`]).

mod collector;
mod contents;
mod frames;
mod freed;
mod groups;
mod heap;
mod inline;
mod limits;
mod names;
mod object;
mod outside;
mod path;
mod python;
mod result;
mod roots;
mod search;
mod tensors;
mod text;

use std::time::Instant;

use gpumem_python_frames::{Finding, finding};

pub use crate::limits::{Cut, Limits};
pub use crate::result::{Holder, Holders, Kind};
pub use crate::tensors::{Graph, Memory, Tensors};

use crate::frames::{Codes, Frames};
use crate::heap::Heap;
use crate::outside::Outside;
use crate::python::Locked;
use crate::search::Search;

/// Finds who keeps the tensors of a device. None if the calling thread must not take the interpreter's lock, or the
/// interpreter is one that cannot be read.
pub fn walk(tensors: &mut dyn Tensors, limits: &Limits) -> Option<Holders> {
    let began = Instant::now();
    let Some(Finding::Readable(runtime)) = finding() else {
        return None;
    };
    if runtime.is_finalizing() {
        return None;
    }
    let locked = Locked::take(runtime)?;
    let mut holders = with_lock(&locked, tensors, limits)?;
    holders.time = began.elapsed();
    Some(holders)
}

fn with_lock(locked: &Locked<'_>, tensors: &mut dyn Tensors, limits: &Limits) -> Option<Holders> {
    let frames = Frames::list(locked, limits);
    let mut codes = Codes::default();
    let heap = Heap::read(locked, &frames.objects(), limits)?;
    let roots = roots::find(locked, &heap, &frames, &mut codes);
    let outside = Outside::count(locked, &heap, &roots, &frames, &mut codes);
    let given = roots.len();
    let search = Search::run(locked, &heap, roots, (frames.all.len(), &outside), limits);
    let kept = freed::Kept {
        locked,
        heap: &heap,
        frames: &frames,
        outside: &outside,
        roots: search.roots.get(..given).unwrap_or_default(),
    };
    let paths = path::Paths::new(locked, &heap, &search, (&frames, codes));
    let mut holders = groups::group(paths, &kept, &search, tensors, limits);
    holders.objects = heap.objects.len();
    holders.references = heap.edges().len();
    Some(holders)
}
