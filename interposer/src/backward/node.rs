//! The data that is read from an autograd node: its key in the map, its class, its parameter.

use gpumem_capture::StackId;
use gpumem_tracker::Block;

use super::layout::{DATA_PATHS, DataPath, NodeLayout};
use super::memory;
use crate::session;

/// The sequence number of nodes without one: those that accumulate a parameter's gradient.
pub(super) const NO_SEQUENCE: u64 = u64::MAX;

/// A running node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Its address.
    pub(super) address: usize,
    /// The vtable of its class.
    pub(super) class: usize,
}

impl Node {
    /// The node at `address`; None if there is no object.
    ///
    /// # Safety
    /// PyTorch passes the address as that of a node.
    pub(super) unsafe fn at(address: usize) -> Option<Self> {
        if !memory::plausible(address) {
            return None;
        }
        // SAFETY: an object with virtual functions begins with the address of their table.
        let class = unsafe { (address as *const usize).read() };
        Some(Self { address, class })
    }

    /// The number at `offset`.
    fn number(self, offset: usize) -> u64 {
        // SAFETY: the node lives while it runs, and is larger than the offsets of its numbers, which
        // are the same for all classes.
        unsafe { ((self.address + offset) as *const u64).read_unaligned() }
    }

    /// The thread that created it and its number among that thread's nodes.
    pub(super) fn key(self, layout: &NodeLayout) -> (u64, u64) {
        (self.number(layout.thread), self.number(layout.sequence))
    }

    /// The Python stack that allocated the parameter whose gradient the node accumulates. None if it is
    /// another kind of node, or the parameter's data is not a live block.
    pub(super) fn parameters_stack(self, layout: &NodeLayout) -> Option<StackId> {
        let variable = self.variable(layout)?;
        let (_, block) = path_to_block(variable)?;
        (!block.py_stack.is_named()).then_some(block.py_stack)
    }

    /// The parameter whose gradient the node accumulates, if it is such a node: its `TensorImpl`.
    pub(super) fn variable(self, layout: &NodeLayout) -> Option<usize> {
        if self.number(layout.sequence) != NO_SEQUENCE
            || !is_of_class(self.class, b"N5torch8autograd14AccumulateGradE")
        {
            return None;
        }
        let variable = memory::word(self.address.checked_add(layout.variable)?)?;
        // Rejects other objects, in case the layout of nodes is unknown.
        is_of_class(memory::word(variable)?, TENSOR).then_some(variable)
    }
}

/// The class of tensors with a storage.
const TENSOR: &[u8] = b"N3c1010TensorImplE";

/// Whether a vtable belongs to a class, by its name in C++ type information.
pub(crate) fn is_of_class(class: usize, name: &[u8]) -> bool {
    let mut room = [0; 64];
    let length = class_name(class, &mut room);
    room.get(..length) == Some(name)
}

/// The path from a tensor to its data that leads to a live block, and that block.
pub(super) fn path_to_block(tensor: usize) -> Option<(DataPath, Block)> {
    let tensors = session::session()?.tensors;
    let block = |path: &DataPath| tensors.at(data_of(tensor, path)?);
    DATA_PATHS
        .iter()
        .find_map(|path| Some((*path, block(path)?)))
}

/// The address of a tensor's storage.
fn data_of(tensor: usize, [storage, data]: &DataPath) -> Option<u64> {
    let storage = memory::word(tensor.checked_add(*storage)?)?;
    Some(memory::word(storage.checked_add(*data)?)? as u64)
}

/// Writes the name of a class, from C++ type information, to `out`; returns its length, 0 if there is no
/// readable name. `class` is the address of its vtable.
pub(super) fn class_name(class: usize, out: &mut [u8]) -> usize {
    let name = class
        .checked_sub(8)
        .and_then(memory::word)
        .and_then(|information| memory::word(information.checked_add(8)?));
    let Some(mut name) = name else { return 0 };
    let mut first = [0];
    // One character is never a whole name, so this one is the first of several, or the address is invalid.
    if memory::text(name, &mut first) == 0 && first == *b"*" {
        name += 1;
    }
    memory::text(name, out)
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;

    /// A class in C++ layout: its name, its type information, its vtable.
    fn class(name: &'static [u8]) -> usize {
        let information: &'static [usize; 2] = Box::leak(Box::new([0, name.as_ptr() as usize]));
        let table: &'static [usize; 3] = Box::leak(Box::new([information.as_ptr() as usize, 0, 0]));
        table.as_ptr() as usize + 8
    }

    #[test]
    fn names_are_those_of_the_type_information() {
        let mut room = [0; 64];
        for (given, expected) in [
            (
                &b"N5torch8autograd9generated12AddBackward0E\0"[..],
                &b"N5torch8autograd9generated12AddBackward0E"[..],
            ),
            (b"*N12_GLOBAL__N_14NodeE\0", b"N12_GLOBAL__N_14NodeE"),
            (b"not a name\0", b""),
        ] {
            let length = class_name(class(given), &mut room);
            assert_eq!(&room[..length], expected);
        }
        for address in [0, 7, 0x2_0000, usize::MAX] {
            assert_eq!(class_name(address, &mut room), 0);
        }
    }

    #[test]
    fn only_nodes_that_accumulate_have_parameters() {
        let object = [class(b"N4NodeE\0"), 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: laid out as a node begins.
        let node = unsafe { Node::at(object.as_ptr() as usize) }.unwrap();
        let layout = layout::chosen(|_| false);
        assert_eq!(node.parameters_stack(&layout), None);
        // SAFETY: nothing is read there.
        assert!(unsafe { Node::at(8) }.is_none());
    }
}
