//! The session's autograd nodes: their creators, and their layout in PyTorch.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::OnceLock;

use gpumem_stacks::ThreadEnd;

use super::known::Gradients;
use super::layout::{self, Check, NodeLayout};
use super::sequence_map::SequenceMap;
use crate::resolve::elf;

/// The state of the session's nodes.
pub(crate) struct Nodes {
    /// The creators of all threads' nodes.
    pub(super) made: SequenceMap,
    /// Whether the layout of PyTorch's nodes is the expected one.
    pub(super) check: Check,
    /// The layout is unknown and is not used any more.
    pub(super) refuted: AtomicBool,
    /// Releases the rings of threads that end.
    pub(super) at_end: ThreadEnd,
    /// The layout for finding parameters and gradients.
    pub(super) gradients: Gradients,
    /// PyTorch's function that returns whether gradients are on; 0: not looked up yet, 1: missing.
    grad_mode: AtomicUsize,
    layout: OnceLock<NodeLayout>,
    /// PyTorch's function that numbers threads; 0: not found.
    ask_thread: AtomicUsize,
}

impl Nodes {
    /// An empty state. `thread_ends` is called when a thread with a ring ends.
    pub(super) fn new(thread_ends: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self {
            made: SequenceMap::new(),
            check: Check::new(),
            refuted: AtomicBool::new(false),
            at_end: ThreadEnd::new(thread_ends),
            gradients: Gradients::default(),
            grad_mode: AtomicUsize::new(0),
            layout: OnceLock::new(),
            ask_thread: AtomicUsize::new(0),
        }
    }

    /// Whether the layout of nodes is unknown.
    #[inline]
    pub(crate) fn is_refuted(&self) -> bool {
        self.refuted.load(Ordering::Relaxed)
    }

    /// The layout of this process's PyTorch.
    pub(crate) fn layout(&self) -> &NodeLayout {
        self.layout
            .get_or_init(|| layout::chosen(|name| elf::anywhere(name, 0) != 0))
    }

    /// Whether gradients are off on the calling thread.
    #[inline]
    pub(crate) fn no_grad(&self) -> bool {
        let ask = match self.grad_mode.load(Ordering::Relaxed) {
            0 => self.find_grad_mode(),
            ask => ask,
        };
        // SAFETY: a static function of PyTorch's that takes nothing and returns a bool; it has had that type in all
        // releases since 1.0, and only reads a variable of the thread's.
        ask != 1 && !unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> bool>(ask)() }
    }

    #[cold]
    fn find_grad_mode(&self) -> usize {
        let names = [
            c"_ZN3c108GradMode10is_enabledEv",
            c"_ZN2at8GradMode10is_enabledEv",
        ];
        let found = names.iter().map(|name| elf::anywhere(name, 0));
        let ask = found.into_iter().find(|at| *at != 0).unwrap_or(1);
        self.grad_mode.store(ask, Ordering::Relaxed);
        ask
    }

    /// PyTorch's own number of the calling thread; None if it is not available.
    pub(super) fn this_thread(&self) -> Option<u64> {
        let mut ask = self.ask_thread.load(Ordering::Relaxed);
        if ask == 0 {
            ask = elf::anywhere(c"_ZN2at14RecordFunction15currentThreadIdEv", 0);
            self.ask_thread.store(ask, Ordering::Relaxed);
        }
        if ask == 0 {
            return None;
        }
        // SAFETY: a static function of PyTorch's that takes nothing and returns a number of 64 bits; it has
        // had that type in all releases since 1.8.
        Some(unsafe { core::mem::transmute::<usize, unsafe extern "C-unwind" fn() -> u64>(ask)() })
    }
}
