//! Reads autograd's graphs: which blocks their nodes keep for the backward.
//!
//! ```text
//! Node ─┬─ next_edges ─► nodes that run after it
//!       └─ fields of its class ─► SavedVariable ─► TensorImpl ─► … ─► a block
//! ```
//! Where a class has its saved tensors is not known, so every word of a node's own fields that points to a tensor counts.
//! Another thread may run or free a graph meanwhile: everything is read by the kernel, which reports what is not there.

use std::collections::{HashMap, HashSet};

use gpumem_holders::Memory;
use gpumem_sys::c_library;

use crate::session::Session;

/// The maximum number of nodes of a walk, and the bytes of a node's own fields that are read.
const NODES: usize = 1 << 17;
const FIELDS: usize = 768;
/// The maximum bytes of a list of saved tensors.
const LIST: usize = 64 << 10;

/// Nodes that were visited.
#[derive(Default)]
pub(super) struct Graphs {
    visited: HashSet<usize>,
    /// What words point to: the memory of a tensor, or something else.
    known: HashMap<usize, Option<Memory>>,
}

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

/// The blocks that the nodes of a graph keep which were not visited before. `read` reads the memory of a tensor at an address
/// where something else may be.
pub(super) fn saved(
    session: &Session,
    graphs: &mut Graphs,
    read: &dyn Fn(usize) -> Option<Memory>,
    node: usize,
) -> Vec<Memory> {
    let layout = Layout::of(session);
    let mut found = Vec::new();
    if session.nodes.is_refuted() || !c_library::has_heap() {
        return found;
    }
    let mut rest = vec![node];
    let mut bytes = vec![0; layout.fields + FIELDS];
    while let Some(node) = rest.pop() {
        if !is_plausible(node) || graphs.visited.len() >= NODES || !graphs.visited.insert(node) {
            continue;
        }
        let length = size(node).unwrap_or(0).min(bytes.len());
        let Some(contents) = bytes.get_mut(..length) else {
            continue;
        };
        if length < layout.fields || !copy(node, contents) {
            continue;
        }
        let node = &*contents;
        let edges = word_at(node, layout.edges).zip(word_at(node, layout.edges + 8));
        for edge in edges.and_then(|(from, to)| list(from, to)).iter() {
            let nodes = edge.chunks_exact(layout.edge);
            rest.extend(nodes.filter_map(|edge| word_at(edge, 0)));
        }
        let own = node.get(layout.fields..).unwrap_or_default();
        tensors(own, read, graphs, &mut found);
        for at in (0..own.len()).step_by(8) {
            let bounds = [0, 8, 16].map(|word| word_at(own, at + word).unwrap_or(0));
            if let [from, to, end] = bounds
                && from < to
                && to <= end
                && is_object(from, end)
                && let Some(list) = list(from, to)
            {
                tensors(&list, read, graphs, &mut found);
            }
        }
    }
    found
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

/// Adds the memory of the tensors to which words point.
fn tensors(
    bytes: &[u8],
    read: &dyn Fn(usize) -> Option<Memory>,
    graphs: &mut Graphs,
    found: &mut Vec<Memory>,
) {
    for at in (0..bytes.len()).step_by(8) {
        let tensor = word_at(bytes, at).filter(|address| is_plausible(*address));
        let known = tensor.and_then(|tensor| {
            let known = graphs.known.entry(tensor);
            *known.or_insert_with(|| read(tensor))
        });
        found.extend(known);
    }
}
