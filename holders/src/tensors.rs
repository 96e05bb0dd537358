//! What the caller knows of tensors.

use rustc_hash::FxHashMap;

use crate::heap::{Heap, Id};
use crate::object::{Object, bases, full_name, kind};

/// A tensor's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The block's address.
    pub block: u64,
    /// The block's bytes.
    pub bytes: u64,
    /// The bytes of the block that are elements of the tensor, which a view has few of; all if that is not known.
    pub covers: u64,
    /// Whether its elements are known to be float64.
    pub is_double: bool,
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

/// What a graph keeps for its backward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The memory, without that of nodes that belong to graphs before it.
    pub memories: Vec<Memory>,
    /// The number of a graph before it, of which it has nodes.
    pub joins: Option<usize>,
}

/// What is known of tensors.
pub trait Tensors {
    /// Whether objects of the class with this name, and of classes that derive from it, are tensors. Classes that C code
    /// defines have their module in the name.
    fn is_tensor(&self, class: &str) -> bool;
    /// Passes the memory of each tensor on the device, in any order, with the number of its Python object among these addresses.
    fn memories(&mut self, objects: &[usize], each: &mut dyn FnMut(usize, Memory));
    /// The memory of its gradient.
    fn gradient(&mut self, object: usize) -> Option<Memory>;
    /// The graph that hangs on it.
    fn graph(&mut self, object: usize) -> Option<Graph>;
    /// The graph that hangs on its gradient, which `backward(create_graph=True)` makes.
    fn graph_of_gradient(&mut self, object: usize) -> Option<Graph>;
    /// What each graph keeps for its backward.
    fn saved(&mut self, graphs: &[Graph]) -> Vec<Saved>;
}

/// The objects of a heap that are tensors.
pub(crate) fn objects(heap: &Heap, tensors: &dyn Tensors) -> Vec<Id> {
    let mut known: FxHashMap<Object, bool> = FxHashMap::default();
    let mut is_tensor = |class: Object| {
        let of = |class| tensors.is_tensor(&full_name(class));
        *known.entry(class).or_insert_with(|| bases(class).any(of))
    };
    let objects = (0..).zip(&heap.objects);
    objects
        .filter(|(_, object)| is_tensor(kind(**object)))
        .map(|(number, _)| number)
        .collect()
}
