//! Which Python objects keep blocks of GPU memory.
//!
//! A block's stack says who *allocated* it. What keeps it is an object: a list of results, an attribute, a local variable
//! of a frame that an exception keeps. [`walk`] starts at what keeps objects alive (the variables of running frames, the
//! namespaces of modules, the exceptions that are being handled) and follows every reference of the interpreter's
//! collector to the tensors. A tensor gets the shortest path to it: `metric.preds[0…213]`, a local of `main`.
//!
//! | part | what it does |
//! |---|---|
//! | `python` | takes the interpreter's lock, with the collector off; reads objects without running code of the program |
//! | `heap` | lists the collector's objects and their references |
//! | `roots` | lists what keeps objects alive by itself |
//! | `search` | finds the shortest path from a root to each object, and what stays if one object lets go |
//! | `path` | writes a path as Python would |
//! | `groups` | puts like paths together |
//!
//! # Design constraints
//! - Only where the calling thread may take the interpreter's lock. The lock is never taken while the interpreter ends,
//!   or by a thread that Python does not know.
//! - No code of the program runs: no property, no `__getattr__`, no finalizer, no collection.
//! - Nothing panics. The time, the number of objects and the memory are bounded ([`Limits`]), and a walk that was cut
//!   says so ([`Holders::cut`]).
//! - Which objects are tensors, and where their memory is, is the caller's knowledge ([`Tensors`]).

mod groups;
mod heap;
mod path;
mod python;
mod roots;
mod search;

use std::time::{Duration, Instant};

use gpumem_python_frames::{Finding, Runtime, finding};

pub use crate::groups::{Holder, Kind};
pub use crate::heap::Cut;
use crate::heap::Heap;
use crate::python::Locked;

/// What a walk may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it ends.
    until: Instant,
    /// The maximum number of objects.
    pub objects: usize,
    /// The maximum number of references.
    pub references: usize,
}

impl Limits {
    /// This time from now on, and at most about 150 MB.
    pub fn new(time: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now.checked_add(time).unwrap_or(now),
            objects: 4 << 20,
            references: 16 << 20,
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// A tensor's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The block's address.
    pub block: u64,
    /// The block's bytes.
    pub bytes: u64,
    /// The number of references to the tensor, that of the Python object included.
    pub references: u32,
    /// The number of tensors that share the storage.
    pub sharers: u32,
}

/// A graph that a backward would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Its first node.
    pub node: usize,
    /// How far that is from the graph's leaves: a graph that contains another one has the larger number.
    pub order: u64,
}

/// What is known of tensors.
pub trait Tensors {
    /// Whether objects of the class with this name, and of classes that derive from it, are tensors. Classes that C code
    /// defines have their module in the name.
    fn is_tensor(&self, class: &str) -> bool;
    /// The memory of a tensor that is the Python object at this address; None if it is not on the device.
    fn memory(&mut self, object: usize) -> Option<Memory>;
    /// The memory of its gradient.
    fn gradient(&mut self, object: usize) -> Option<Memory>;
    /// The graph that hangs on it.
    fn graph(&mut self, object: usize) -> Option<Graph>;
    /// The memory that a graph keeps for its backward, without that of nodes that belong to graphs given before.
    fn saved(&mut self, graph: Graph) -> Vec<Memory>;
}

/// The result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// The holders, those with the most bytes first.
    pub holders: Vec<Holder>,
    /// The bytes of all blocks that have a holder, also one that is not in `holders`.
    pub bytes: u64,
    /// By block: the number of its holder in `holders`.
    pub blocks: Vec<(u64, u32)>,
    /// The collector's objects, and the references among them.
    pub objects: usize,
    /// See `objects`.
    pub references: usize,
    /// How long it took.
    pub time: Duration,
    /// Which bound ended it too early.
    pub cut: Option<Cut>,
}

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
    let locked = Locked::take()?;
    let mut holders = with_lock(&locked, runtime, tensors, limits)?;
    holders.time = began.elapsed();
    Some(holders)
}

fn with_lock(
    locked: &Locked,
    runtime: &Runtime,
    tensors: &mut dyn Tensors,
    limits: &Limits,
) -> Option<Holders> {
    let heap = Heap::read(locked, limits)?;
    let roots = roots::find(locked, runtime, &heap);
    let search = search::Search::run(locked, &heap, &roots, limits);
    let mut holders = groups::group(locked, runtime, (&heap, &roots, &search), tensors, limits);
    holders.objects = heap.objects.len();
    holders.references = heap.edges();
    holders.cut = heap.cut.or(holders.cut);
    Some(holders)
}
