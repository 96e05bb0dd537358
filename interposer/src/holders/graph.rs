//! Reads autograd's graphs: which blocks their nodes keep for the backward.
//!
//! ```text
//! Node ─┬─ next_edges ─► nodes that run after it
//!       └─ fields of its class ─► SavedVariable ─► TensorImpl ─► … ─► a block
//! ```
//! Where a class has its saved tensors is not known, so every word of a node's own fields that points to a tensor counts,
//! unless the tensor counts fewer references than words of that place point to it.
//! Another thread may run or free a graph meanwhile: everything is read by the kernel, which reports what is not there.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use gpumem_holders::{Memory, Saved};
use gpumem_sys::c_library;

use crate::session::Session;

/// The maximum number of nodes of a walk, and the bytes of a node's own fields that are read.
const NODES: usize = 1 << 17;
const FIELDS: usize = 768;
/// The bytes by which the heap may make an object larger; the last fields of a node, which have no tensor, are longer.
const BEHIND: usize = 24;
/// The maximum bytes of a list of saved tensors.
const LIST: usize = 64 << 10;

/// Where a node has what.
#[derive(Clone, Copy)]
struct Layout {
    /// The number of a node among its thread's; its distance from the leaves follows.
    sequence: usize,
    edges: usize,
    /// Bytes of an edge, which begins with the address of its node.
    edge: usize,
    /// The first of its class's own fields.
    fields: usize,
}

impl Layout {
    fn of(session: &Session) -> Layout {
        let node = session.nodes.layout();
        // After the thread's number: a lock of 40 bytes. An edge has a pointer, which is two words where nodes are
        // shared, and a number.
        let is_shared = node.sequence == 24;
        Layout {
            sequence: node.sequence,
            edges: node.thread + 48,
            edge: if is_shared { 24 } else { 16 },
            fields: node.variable,
        }
    }
}

/// Copies memory of this process; false if not all of it is there.
fn copy(address: usize, out: &mut [u8]) -> bool {
    let local = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: out.len(),
    };
    // SAFETY: the kernel writes at most the bytes of `out`, and reports addresses that cannot be read.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(copied) == Ok(out.len())
}

fn word_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(usize::from_ne_bytes(bytes.try_into().ok()?))
}

/// A word of this process's memory.
pub(super) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    (is_plausible(address) && copy(address, &mut bytes)).then(|| usize::from_ne_bytes(bytes))
}

fn is_plausible(address: usize) -> bool {
    address & 7 == 0 && (0x1_0000..1 << 47).contains(&address)
}

/// How far a node is from the leaves of its graph.
pub(super) fn order(session: &Session, node: usize) -> Option<u64> {
    word(node + Layout::of(session).sequence + 8).map(|order| order as u64)
}

/// A word of a node that points to a tensor.
struct Found {
    /// The number of the graph.
    graph: usize,
    /// The vtable of the node, and where the word is in it.
    class: usize,
    place: usize,
    tensor: usize,
    memory: Memory,
}

/// Added to the place of a list in a node, for what the list has.
const IN_LIST: usize = 1 << 16;

/// Added to the place of a leaf in a node, for its gradient, which it keeps.
const GRADIENT: usize = 1 << 17;

/// What each of these graphs keeps. `read` reads the memory of a tensor at an address where something else may be, and
/// `gradient` the address of its gradient.
pub(super) fn saved(
    session: &Session,
    read: &dyn Fn(usize) -> Option<Memory>,
    gradient: &dyn Fn(usize) -> Option<usize>,
    graphs: &[usize],
) -> Vec<Saved> {
    let mut walk = Walk {
        layout: Layout::of(session),
        read,
        gradient,
        visited: HashMap::new(),
        joins: vec![None; graphs.len()],
        known: HashMap::new(),
        found: Vec::new(),
    };
    if !session.nodes.is_refuted() && c_library::has_heap() {
        for (graph, node) in graphs.iter().enumerate() {
            walk.follow(graph, *node);
        }
    }
    // A saved tensor counts a reference. A place that has more than its tensor counts, or one that is gone, has no tensors:
    // it is not always written.
    let mut counts: HashMap<(usize, usize, usize), u32> = HashMap::new();
    let mut wrong = HashSet::new();
    for found in &walk.found {
        let count = counts.entry((found.class, found.place, found.tensor));
        let count = count.and_modify(|count| *count += 1).or_insert(1);
        if *count > found.memory.references {
            wrong.insert((found.class, found.place));
        }
    }
    let of = |joins| Saved {
        memories: Vec::new(),
        joins,
    };
    let mut saved: Vec<Saved> = walk.joins.into_iter().map(of).collect();
    for found in walk.found {
        if !wrong.contains(&(found.class, found.place))
            && let Some(of) = saved.get_mut(found.graph)
        {
            of.memories.push(found.memory);
        }
    }
    saved
}

/// A walk through graphs.
struct Walk<'a> {
    layout: Layout,
    read: &'a dyn Fn(usize) -> Option<Memory>,
    gradient: &'a dyn Fn(usize) -> Option<usize>,
    /// The nodes, and the graph to which each belongs. Those without edges, such as that of a parameter, belong to many.
    visited: HashMap<usize, Option<usize>>,
    /// By graph: one before it, of which it has nodes.
    joins: Vec<Option<usize>>,
    /// What words point to: the memory of a tensor, or something else.
    known: HashMap<usize, Option<Memory>>,
    found: Vec<Found>,
}

impl Walk<'_> {
    fn follow(&mut self, graph: usize, node: usize) {
        let layout = self.layout;
        let mut rest = vec![node];
        let mut bytes = vec![0; layout.fields + FIELDS];
        while let Some(node) = rest.pop() {
            if !is_plausible(node) || self.visited.len() >= NODES {
                continue;
            }
            match self.visited.entry(node) {
                Entry::Vacant(entry) => {
                    entry.insert(None);
                }
                Entry::Occupied(of) => {
                    let of = *of.get();
                    self.join(graph, of);
                    continue;
                }
            }
            let length = size(node).unwrap_or(0).min(bytes.len());
            let Some(contents) = bytes.get_mut(..length) else {
                continue;
            };
            if length < layout.fields || !copy(node, contents) {
                continue;
            }
            let address = node;
            let node = &*contents;
            let edges = word_at(node, layout.edges).zip(word_at(node, layout.edges + 8));
            for edge in edges.and_then(|(from, to)| list(from, to)).iter() {
                let nodes = edge.chunks_exact(layout.edge);
                rest.extend(nodes.filter_map(|edge| word_at(edge, 0)));
                self.visited.insert(address, Some(graph));
            }
            let class = word_at(node, 0).unwrap_or(0);
            // What lies behind the last field, up to the next object, is what was there before.
            let end = node.len().saturating_sub(BEHIND).max(layout.fields + 8);
            let own = node.get(layout.fields..end).unwrap_or_default();
            for at in (0..own.len()).step_by(8) {
                self.tensor((graph, class, at), word_at(own, at));
                let bounds = [0, 8, 16].map(|word| word_at(own, at + word).unwrap_or(0));
                if let [from, to, end] = bounds
                    && from < to
                    && to <= end
                    && is_object(from, end)
                    && let Some(list) = list(from, to)
                {
                    for word in list.chunks_exact(8) {
                        self.tensor((graph, class, at + IN_LIST), word_at(word, 0));
                    }
                }
            }
        }
    }

    /// A graph has nodes of another one.
    fn join(&mut self, graph: usize, of: Option<usize>) {
        let joins = self.joins.get_mut(graph);
        if let (Some(joins), Some(of)) = (joins, of.filter(|of| *of != graph)) {
            joins.get_or_insert(of);
        }
    }

    /// Adds the memory of a tensor, if a word points to one.
    fn tensor(&mut self, (graph, class, place): (usize, usize, usize), word: Option<usize>) {
        let Some(tensor) = word.filter(|address| is_plausible(*address)) else {
            return;
        };
        let is_new = !self.known.contains_key(&tensor);
        let memory = *self
            .known
            .entry(tensor)
            .or_insert_with(|| (self.read)(tensor));
        let Some(memory) = memory else {
            return;
        };
        let found = |place, tensor, memory| Found {
            graph,
            class,
            place,
            tensor,
            memory,
        };
        self.found.push(found(place, tensor, memory));
        if is_new
            && let Some(gradient) = (self.gradient)(tensor)
            && let Some(memory) = (self.read)(gradient)
        {
            self.found.push(found(place + GRADIENT, gradient, memory));
        }
    }
}

/// The bytes of an object on glibc's heap, which stores the size before it; None for another heap.
fn size(object: usize) -> Option<usize> {
    const LEAST: usize = 32;
    const MOST: usize = 1 << 20;
    let size = word(object.checked_sub(8)?)? & !7;
    (LEAST..MOST).contains(&size).then(|| size - 8)
}

/// Whether the heap has an object of these bounds.
fn is_object(from: usize, to: usize) -> bool {
    let bytes = to.wrapping_sub(from);
    size(from).is_some_and(|size| size >= bytes && size < bytes + 32)
}

/// The contents of a list, if it can be one.
fn list(from: usize, to: usize) -> Option<Vec<u8>> {
    let bytes = to.checked_sub(from).filter(|bytes| *bytes <= LIST)?;
    if !is_plausible(from) || bytes % 8 != 0 {
        return None;
    }
    let mut contents = vec![0; bytes];
    copy(from, &mut contents).then_some(contents)
}
