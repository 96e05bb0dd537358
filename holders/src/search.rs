//! The path from a root to each object, and what stays alive if one object lets go.
//!
//! Roots have a rank, and all that one rank reaches is searched before the next: a tensor that a list of the program and
//! a local variable of a library's function both have belongs to the list. Within a rank the shortest path counts.
//! Optimizers, tracebacks and frames, which refer to nearly everything, come after the program's own roots.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::Limits;
use crate::heap::{Heap, Id};
use crate::python::{Locked, Object, base, class_name, kind, references};
use crate::roots::{Root, Roots, What};

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

const NOWHERE: u32 = u32::MAX;
/// Added to the number of a root.
const ROOT: u32 = 1 << 31;

/// The paths.
pub(crate) struct Search {
    from: Vec<u32>,
    /// All roots: those given, then objects that no root reaches.
    pub(crate) roots: Vec<Root>,
    /// Whether time ran out.
    pub(crate) is_cut: bool,
}

/// From this rank on optimizers, tracebacks and frames are followed.
const LATE: usize = usize::MAX / 2;

/// The rank of a root; the first one is searched first.
pub(crate) fn rank(root: &Root, frames: usize) -> usize {
    match (&root.what, root.is_own) {
        (What::Module(name), true) if name == "__main__" => 0,
        (What::Module(_), true) => 1,
        // The oldest frame, which keeps its variables for longest, comes first.
        (What::Local(frame, _), true) => 2 + frames.saturating_sub(*frame),
        (What::Handled, _) => LATE,
        (What::Local(..), false) => LATE + 1,
        (What::Module(_), false) => LATE + 2,
        (What::Native | What::Cycle, _) => LATE + 3,
    }
}

impl Search {
    /// Searches from all roots.
    pub(crate) fn run(locked: &Locked, heap: &Heap, roots: &Roots, limits: &Limits) -> Self {
        let mut search = Self {
            from: vec![NOWHERE; heap.objects.len()],
            roots: roots.all.clone(),
            is_cut: false,
        };
        search.start_at_given(locked, heap, roots.frames.len(), limits);
        search.start_at_the_rest(heap, limits);
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

    /// Notes how an object was reached; false if it had been reached before.
    fn reach(&mut self, object: Id, from: u32) -> bool {
        match self.from.get_mut(object as usize) {
            Some(place) if *place == NOWHERE => {
                *place = from;
                true
            }
            _ => false,
        }
    }

    fn start_at_given(&mut self, locked: &Locked, heap: &Heap, frames: usize, limits: &Limits) {
        let mut order: Vec<_> = (self.roots.iter().enumerate())
            .map(|(number, root)| (rank(root, frames), number, root.object))
            .collect();
        order.sort_unstable();
        // A namespace is never reached through a function of its module.
        for (_, number, object) in &order {
            if matches!(self.roots.get(*number), Some(root) if matches!(root.what, What::Module(_)))
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
                self.follow(heap, &mut queue, limits, |_| true);
            }
            for (_, number, object) in now {
                let is_new = self.reach(*object, ROOT + *number as u32);
                if is_new || self.from(*object) == From::Root(*number) {
                    queue.push_back(*object);
                }
            }
            let is_late = *rank >= LATE;
            self.follow(heap, &mut queue, limits, |number| {
                let follows = is_late || !kinds.is_late(heap.object(number));
                if !follows {
                    later.push(number);
                }
                follows
            });
        }
        queue.extend(later);
        self.follow(heap, &mut queue, limits, |_| true);
    }

    /// Follows the references of what is in the queue, breadth first.
    fn follow(
        &mut self,
        heap: &Heap,
        queue: &mut VecDeque<Id>,
        limits: &Limits,
        mut may: impl FnMut(Id) -> bool,
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
            for &other in heap.references(object) {
                if self.reach(other, object) {
                    queue.push_back(other);
                }
            }
        }
    }

    /// What no root reaches: objects with more references than other objects have to them are kept by native code, or
    /// by what a running frame works with; the others by a cycle.
    fn start_at_the_rest(&mut self, heap: &Heap, limits: &Limits) {
        if self.is_cut {
            return;
        }
        let rest: Vec<Id> = (0..heap.objects.len() as Id)
            .filter(|&object| self.from(object) == From::Nowhere)
            .collect();
        let mut counts: FxHashMap<Id, usize> = rest.iter().map(|object| (*object, 0)).collect();
        for object in &rest {
            for other in heap.references(*object) {
                if let Some(count) = counts.get_mut(other) {
                    *count += 1;
                }
            }
        }
        let mut queue = VecDeque::new();
        for (what, is_native) in [(What::Native, true), (What::Cycle, false)] {
            for object in &rest {
                let within = counts.get(object).copied().unwrap_or(0);
                if is_native && references(heap.object(*object)) <= within {
                    continue;
                }
                let number = self.roots.len() as u32;
                if self.reach(*object, ROOT + number) {
                    self.roots.push(Root {
                        object: *object,
                        what: what.clone(),
                        is_own: false,
                    });
                    queue.push_back(*object);
                }
                if !is_native {
                    self.follow(heap, &mut queue, limits, |_| true);
                }
            }
            self.follow(heap, &mut queue, limits, |_| true);
        }
    }

    /// The objects that roots reach once something lets go of what it refers to, and the calls of the frame of `root`, if
    /// it is a local variable, have returned. None if time runs out.
    pub(crate) fn without(
        &self,
        heap: &Heap,
        let_go: LetGo,
        root: usize,
        limits: &Limits,
    ) -> Option<Vec<bool>> {
        let frame = |root: &Root| match root.what {
            What::Local(frame, _) => Some(frame),
            _ => None,
        };
        let of = self.roots.get(root).and_then(frame);
        let has_returned = |root: &Root| of.zip(frame(root)).is_some_and(|(of, it)| it < of);
        let mut reached = vec![false; heap.objects.len()];
        let mut queue = VecDeque::new();
        for (number, root) in self.roots.iter().enumerate() {
            if let_go != LetGo::Root(number)
                && !has_returned(root)
                && let Some(is_reached) = reached.get_mut(root.object as usize)
                && !core::mem::replace(is_reached, true)
            {
                queue.push_back(root.object);
            }
        }
        let mut count = 0u32;
        while let Some(object) = queue.pop_front() {
            count += 1;
            if count.is_multiple_of(4096) && limits.is_over() {
                return None;
            }
            if let_go == LetGo::Object(object) {
                continue;
            }
            for &other in heap.references(object) {
                if let_go != LetGo::Reference(object, other)
                    && let Some(is_reached) = reached.get_mut(other as usize)
                    && !core::mem::replace(is_reached, true)
                {
                    queue.push_back(other);
                }
            }
        }
        Some(reached)
    }
}

/// What lets go of what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// A root.
    Root(usize),
    /// One object, of all.
    Object(Id),
    /// One object, of one other.
    Reference(Id, Id),
}

/// Which classes are followed late.
struct Kinds<'a> {
    locked: &'a Locked,
    known: FxHashMap<Object, bool>,
}

impl<'a> Kinds<'a> {
    fn new(locked: &'a Locked) -> Self {
        let python = &locked.python;
        let late = [python.PyTraceBack_Type, python.PyFrame_Type];
        Self {
            locked,
            known: late.into_iter().map(|class| (class, true)).collect(),
        }
    }

    fn is_late(&mut self, object: Object) -> bool {
        let class = kind(object);
        let object = self.locked.python.PyBaseObject_Type;
        *self.known.entry(class).or_insert_with(|| {
            let mut class = class;
            while class != 0 && class != object {
                if class_name(class) == "Optimizer" {
                    return true;
                }
                class = base(class);
            }
            false
        })
    }
}
