//! What is read of an autograd node: its key in the map, its class, its parameter.

use gpumem_capture::StackId;

use super::layout::{DATA_PATHS, NodeLayout};
use super::memory;
use crate::session;

/// The sequence number of nodes that have none: those that accumulate a parameter's gradient.
pub(super) const NO_SEQUENCE: u64 = u64::MAX;

/// A node that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Its address.
    address: usize,
    /// The table of its class's virtual functions.
    pub(super) class: usize,
}

impl Node {
    /// The node at `address`; None if nothing is.
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

    /// The thread that made it and its number among that thread's nodes.
    pub(super) fn key(self, layout: &NodeLayout) -> (u64, u64) {
        (self.number(layout.thread), self.number(layout.sequence))
    }

    /// The Python stack that allocated the parameter whose gradient the node accumulates; None if it is
    /// no such node, or the parameter's data is none of the live blocks.
    pub(super) fn parameters_stack(self, layout: &NodeLayout) -> Option<StackId> {
        let mut room = [0; 64];
        let length = class_name(self.class, &mut room);
        if room.get(..length) != Some(b"N5torch8autograd14AccumulateGradE") {
            return None;
        }
        let variable = memory::word(self.address.checked_add(layout.variable)?)?;
        // No other object is taken for one, where a node is laid out in a way that is not known.
        let length = class_name(memory::word(variable)?, &mut room);
        if room.get(..length) != Some(b"N3c1010TensorImplE") {
            return None;
        }
        DATA_PATHS.iter().find_map(|[storage, data]| {
            let storage = memory::word(variable.checked_add(*storage)?)?;
            let data = memory::word(storage.checked_add(*data)?)?;
            let block = session::session()?.tensors.at(data as u64)?;
            (!block.py_stack.is_named()).then_some(block.py_stack)
        })
    }
}

/// Writes the name of a class, as C++'s type information has it, to `out`; how long it is, 0 if there is
/// none to be read. `class` is the address of the table of its virtual functions.
pub(super) fn class_name(class: usize, out: &mut [u8]) -> usize {
    let name = class
        .checked_sub(8)
        .and_then(memory::word)
        .and_then(|information| memory::word(information.checked_add(8)?));
    let Some(mut name) = name else { return 0 };
    let mut first = [0];
    // A name of one character is no name, so this one is the first of several or none.
    if memory::text(name, &mut first) == 0 && first == *b"*" {
        name += 1;
    }
    memory::text(name, out)
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;

    /// A class as C++ lays it out: its name, its type information, the table of its functions.
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
