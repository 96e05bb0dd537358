//! The layout of PyTorch's objects that are read: byte offsets, chosen by the functions that PyTorch
//! exports and checked at run time.
//!
//! Verified by runs of PyTorch 1.12.1, 2.1, 2.6, 2.9, 2.11 and 2.15, and with the headers of 1.13 and 2.0
//! (docs/measured/backward.md). In between, `Node` has grown twice and came to be held by
//! `c10::intrusive_ptr`, and `intrusive_ptr_target` lost a word, in different releases.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Offsets into `torch::autograd::Node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeLayout {
    /// The sequence number, u64.
    pub(crate) sequence: usize,
    /// Number of the thread that created it, u64.
    pub(crate) thread: usize,
    /// In `AccumulateGrad`: the variable, a pointer to a `TensorImpl`.
    pub(crate) variable: usize,
}

/// From the pointer to a `TensorImpl` to its `StorageImpl`, and from there to the data's address.
pub(crate) type DataPath = [usize; 2];

/// A node held by `std::shared_ptr`, with the offset of `AccumulateGrad`'s own fields.
const fn shared(variable: usize) -> NodeLayout {
    NodeLayout {
        sequence: 24,
        thread: 48,
        variable,
    }
}

/// Up to 1.12.
const SHARED: NodeLayout = shared(376);
/// 1.13: shapes of inputs are symbolic.
const SHARED_SYMBOLIC: NodeLayout = shared(392);
/// From 2.0 on: with hooks of tensors.
const SHARED_HOOKED: NodeLayout = shared(472);

/// A node held by `c10::intrusive_ptr`: 2.15.
const INTRUSIVE: NodeLayout = NodeLayout {
    sequence: 16,
    thread: 40,
    variable: 464,
};

/// With two words and with three before an `intrusive_ptr_target`'s own fields.
pub(crate) const DATA_PATHS: [DataPath; 2] = [[16, 16], [24, 24]];

/// Functions that only PyTorch with a layout exports, the newest layout first.
const LAYOUTS: [(&CStr, NodeLayout); 3] = [
    // Nodes are given as `c10::intrusive_ptr`.
    (
        c"_ZN5torch8autograd6Engine23execute_with_graph_taskERKSt10shared_ptrINS0_9GraphTaskEEN3c1013intrusive_ptrINS0_4NodeENS7_6detail34intrusive_target_default_null_typeIS9_EEEEONS0_11InputBufferE",
        INTRUSIVE,
    ),
    // A tensor's hook may be that of a retained gradient.
    (
        c"_ZN5torch8autograd4impl15create_cpp_hookERKN2at10TensorBaseEb",
        SHARED_HOOKED,
    ),
    (
        c"_ZN5torch8autograd37get_current_graph_task_nodes_in_graphEv",
        SHARED_SYMBOLIC,
    ),
];

/// The layout of the PyTorch that exports the functions for which `exported` returns true.
pub(super) fn chosen(exported: impl Fn(&CStr) -> bool) -> NodeLayout {
    let known = LAYOUTS.iter().find(|(name, _)| exported(name));
    known.map_or(SHARED, |(_, layout)| *layout)
}

/// The number of look-ups after which the layout is judged.
const TRIAL: u32 = 64;

/// Whether look-ups of nodes succeed as expected.
pub(super) struct Check {
    found: AtomicU32,
    missed: AtomicU32,
}

/// The result of a look-up for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The layout is still trusted.
    Fine,
    /// The layout does not match this PyTorch. Returned once.
    Refuted,
}

impl Check {
    /// No look-ups so far.
    pub(super) const fn new() -> Self {
        Self {
            found: AtomicU32::new(0),
            missed: AtomicU32::new(0),
        }
    }

    /// Counts a look-up of a node that some thread must have created.
    pub(super) fn looked_up(&self, found: bool) -> Verdict {
        let hits = self.found.load(Ordering::Relaxed);
        let misses = self.missed.load(Ordering::Relaxed);
        if hits + misses >= TRIAL {
            return Verdict::Fine;
        }
        let counter = if found { &self.found } else { &self.missed };
        let before = counter.fetch_add(1, Ordering::Relaxed);
        // Only one thread counts the miss that makes misses the majority.
        if !found && before + 1 == TRIAL / 2 + 1 {
            return Verdict::Refuted;
        }
        Verdict::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mostly_missing_is_refuted_once() {
        let check = Check::new();
        let verdicts: Vec<_> = (0..1000).map(|i| check.looked_up(i % 3 == 0)).collect();
        let refuted = verdicts.iter().filter(|&&v| v == Verdict::Refuted).count();
        assert_eq!(refuted, 1);
    }

    #[test]
    fn mostly_found_is_fine_for_ever() {
        let check = Check::new();
        assert!((0..64).all(|i| check.looked_up(i % 3 != 0) == Verdict::Fine));
        assert!((0..1000).all(|_| check.looked_up(false) == Verdict::Fine));
    }

    #[test]
    fn the_newest_layout_that_is_exported_is_taken() {
        let [(intrusive, _), (hooked, _), (symbolic, _)] = LAYOUTS;
        let of = |names: &[&CStr]| chosen(|name| names.contains(&name));
        assert_eq!(of(&[]), SHARED);
        assert_eq!(of(&[symbolic]), SHARED_SYMBOLIC);
        assert_eq!(of(&[hooked, symbolic]), SHARED_HOOKED);
        assert_eq!(of(&[intrusive, hooked, symbolic]), INTRUSIVE);
    }
}
