//! The path from a root to each object, and what stays alive if one object releases it.
//!
//! Roots have a rank, and all that one rank reaches is searched before the next: a tensor that a list of the program and
//! a local variable of a library's function both have belongs to the list. Within a rank the shortest path counts, but a
//! list or an object comes before a variable that is the tensor itself: the variable soon has another value.
//! Optimizers, tracebacks and frames, which refer to nearly everything, come after the program's own roots.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::heap::{Heap, Id};
use crate::limits::Limits;
use crate::object::{Object, bases, class_name, kind};
use crate::outside::Outside;
use crate::python::Locked;
use crate::roots::{Root, What};

/// How an object was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Not, because time ran out.
    Nowhere,
    /// From a root: its number.
    Root(usize),
    /// From another object.
    Object(Id),
}

/// Tensors that are variables, and how they were reached.
type Variables = Vec<(Id, u32)>;

const NOWHERE: u32 = u32::MAX;
/// Added to the number of a root.
const ROOT: u32 = 1 << 31;

/// The paths.
pub(crate) struct Search {
    from: Vec<u32>,
    /// Where the path of each object begins: below a namespace, or at another root's object.
    begins: Vec<u32>,
    /// All roots: those given, then objects that no root reaches.
    pub(crate) roots: Vec<Root>,
    /// Whether time ran out.
    pub(crate) is_cut: bool,
    is_tensor: Vec<bool>,
}

/// From this rank on optimizers, tracebacks and frames are followed.
const LATE: usize = usize::MAX / 2;

/// The rank of a root; the first one is searched first.
pub(crate) fn rank(root: &Root, frames: usize) -> usize {
    match (&root.what, root.is_own) {
        (What::Module(name), true) if name == "__main__" => 0,
        (What::Module(_), true) => 1,
        // The oldest frame, which keeps its variables for longest, comes first.
        (What::Local(frame, _) | What::Body(frame), true) => 2 + frames.saturating_sub(*frame),
        (What::Handled, _) => LATE,
        (What::Local(..) | What::Body(_), false) => LATE + 1,
        (What::Module(_), false) => LATE + 2,
        (What::Native(_) | What::Cycle, _) => LATE + 3,
    }
}

impl Search {
    /// Searches from all roots.
    pub(crate) fn run(
        locked: &Locked<'_>,
        heap: &Heap,
        roots: Vec<Root>,
        (frames, outside, tensors): (usize, &Outside, &[Id]),
        limits: &Limits,
    ) -> Self {
        let count = heap.objects.len();
        let mut is_tensor = vec![false; count];
        for tensor in tensors {
            if let Some(is_tensor) = is_tensor.get_mut(*tensor as usize) {
                *is_tensor = true;
            }
        }
        let mut search = Self {
            from: vec![NOWHERE; count],
            begins: vec![NOWHERE; count],
            roots,
            is_cut: false,
            is_tensor,
        };
        search.start_at_given(locked, heap, frames, limits);
        search.start_at_the_rest(heap, outside, limits);
        search
    }

    /// How an object was reached.
    pub(crate) fn from(&self, object: Id) -> From {
        match self.from.get(object as usize).copied() {
            None | Some(NOWHERE) => From::Nowhere,
            Some(root) if root >= ROOT => From::Root((root - ROOT) as usize),
            Some(object) => From::Object(object),
        }
    }

    /// The objects with which the path to an object begins: that of the root, and the one below it, if that is a
    /// namespace. None if the object was not reached.
    pub(crate) fn beginning(&self, object: Id) -> Option<(usize, Vec<Id>)> {
        let first = self.begins.get(object as usize).copied();
        let first = first.filter(|first| *first != NOWHERE)?;
        match self.from(first) {
            From::Root(root) => Some((root, vec![first])),
            From::Object(namespace) => match self.from(namespace) {
                From::Root(root) => Some((root, vec![namespace, first])),
                _ => None,
            },
            From::Nowhere => None,
        }
    }

    /// Notes how an object was reached; false if it had been reached before.
    fn reach(&mut self, object: Id, from: u32) -> bool {
        let begins = match from < ROOT && !self.is_namespace(from) {
            true => self.begins.get(from as usize).copied().unwrap_or(NOWHERE),
            false => object,
        };
        let at = object as usize;
        match self.from.get_mut(at).zip(self.begins.get_mut(at)) {
            Some((place, first)) if *place == NOWHERE => {
                (*place, *first) = (from, begins);
                true
            }
            _ => false,
        }
    }

    /// Whether an object is a tensor.
    fn is_tensor(&self, object: Id) -> bool {
        self.is_tensor
            .get(object as usize)
            .copied()
            .unwrap_or(false)
    }

    /// Whether an object is a variable itself: of a frame, or of a module.
    pub(crate) fn is_variable(&self, object: Id) -> bool {
        match self.from(object) {
            From::Object(from) => self.is_namespace(from),
            From::Root(_) | From::Nowhere => true,
        }
    }

    /// Whether an object is the namespace of a module.
    fn is_namespace(&self, object: Id) -> bool {
        let From::Root(root) = self.from(object) else {
            return false;
        };
        let root = self.roots.get(root);
        root.is_some_and(|root| root.what.is_namespace())
    }

    fn start_at_given(&mut self, locked: &Locked<'_>, heap: &Heap, frames: usize, limits: &Limits) {
        let mut order: Vec<_> = (self.roots.iter().enumerate())
            .map(|(number, root)| (rank(root, frames), number, root.object))
            .collect();
        order.sort_unstable();
        // A namespace is never reached through a function of its module.
        for (_, number, object) in &order {
            if self
                .roots
                .get(*number)
                .is_some_and(|root| root.what.is_namespace())
            {
                self.reach(*object, ROOT + *number as u32);
            }
        }
        let mut kinds = Kinds::new(locked);
        let (mut queue, mut later) = (VecDeque::new(), Vec::new());
        let mut rest = order.as_slice();
        while let Some((rank, ..)) = rest.first() {
            let end = rest.partition_point(|(of, ..)| of <= rank);
            let (now, after) = rest.split_at(end);
            rest = after;
            if *rank >= LATE && !later.is_empty() {
                queue.extend(later.drain(..));
                self.follow(heap, &mut queue, limits, (&mut |_| true, None));
            }
            let mut variables = Variables::new();
            for (rank, number, object) in now {
                if *rank < LATE && self.is_tensor(*object) {
                    variables.push((*object, ROOT + *number as u32));
                    continue;
                }
                let is_new = self.reach(*object, ROOT + *number as u32);
                if is_new || self.from(*object) == From::Root(*number) {
                    queue.push_back(*object);
                }
            }
            let is_late = *rank >= LATE;
            let mut may = |number| {
                let follows = is_late || !kinds.is_late(heap.object(number));
                if !follows {
                    later.push(number);
                }
                follows
            };
            let deferred = (!is_late).then_some(&mut variables);
            self.follow(heap, &mut queue, limits, (&mut may, deferred));
            for (object, from) in variables {
                if self.reach(object, from) {
                    queue.push_back(object);
                }
            }
            self.follow(heap, &mut queue, limits, (&mut may, None));
        }
        queue.extend(later);
        self.follow(heap, &mut queue, limits, (&mut |_| true, None));
    }

    /// Follows the references of what is in the queue that `may` be followed, breadth first. Tensors that are variables of
    /// a namespace are deferred, if there is a list for them.
    fn follow(
        &mut self,
        heap: &Heap,
        queue: &mut VecDeque<Id>,
        limits: &Limits,
        (may, mut deferred): (&mut dyn FnMut(Id) -> bool, Option<&mut Variables>),
    ) {
        let mut count = 0u32;
        while let Some(object) = queue.pop_front() {
            count += 1;
            if count.is_multiple_of(4096) && limits.is_over() {
                self.is_cut = true;
                queue.clear();
                return;
            }
            if !may(object) {
                continue;
            }
            let has_variables = deferred.is_some() && self.is_namespace(object);
            for &other in heap.references(object) {
                if has_variables && self.is_tensor(other) {
                    if let Some(deferred) = &mut deferred {
                        deferred.push((other, object));
                    }
                } else if self.reach(other, object) {
                    queue.push_back(other);
                }
            }
        }
    }

    /// What no root reaches: objects with references from outside are kept by native code, or by what a running frame
    /// works with; the others by a cycle.
    fn start_at_the_rest(&mut self, heap: &Heap, outside: &Outside, limits: &Limits) {
        let mut queue = VecDeque::new();
        for (object, _) in &outside.objects {
            let what = What::Native(outside.frame(*object));
            self.start(*object, what, &mut queue);
        }
        self.follow(heap, &mut queue, limits, (&mut |_| true, None));
        for object in 0..heap.objects.len() as Id {
            if self.is_cut {
                return;
            }
            if self.from(object) == From::Nowhere {
                self.start(object, What::Cycle, &mut queue);
                self.follow(heap, &mut queue, limits, (&mut |_| true, None));
            }
        }
    }

    /// Makes an object that was not reached a root.
    fn start(&mut self, object: Id, what: What, queue: &mut VecDeque<Id>) {
        if self.reach(object, ROOT + self.roots.len() as u32) {
            self.roots.push(Root {
                object,
                what,
                is_own: false,
            });
            queue.push_back(object);
        }
    }
}

/// Which classes are followed late.
struct Kinds(FxHashMap<Object, bool>);

impl Kinds {
    fn new(locked: &Locked<'_>) -> Self {
        let python = &locked.python;
        let late = [python.PyTraceBack_Type, python.PyFrame_Type];
        Self(late.into_iter().map(|class| (class, true)).collect())
    }

    fn is_late(&mut self, object: Object) -> bool {
        let class = kind(object);
        let is_late = |class| bases(class).any(|class| class_name(class) == "Optimizer");
        *self.0.entry(class).or_insert_with(|| is_late(class))
    }
}
