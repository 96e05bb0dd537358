//! What becomes free if one object releases what it refers to.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::frames::Frames;
use crate::heap::{Heap, Id};
use crate::limits::Limits;
use crate::outside::Outside;
use crate::python::Locked;
use crate::roots::Root;

/// What releases what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Releases {
    /// A root.
    Root(usize),
    /// One object, of all.
    Object(Id),
    /// One object, of one other: one of its references to it.
    Reference(Id, Id),
}

/// What keeps objects.
pub(crate) struct Kept<'a> {
    pub(crate) locked: &'a Locked<'a>,
    pub(crate) heap: &'a Heap,
    pub(crate) frames: &'a Frames,
    pub(crate) outside: &'a Outside,
    /// The roots, without those objects that are roots because nothing refers to them.
    pub(crate) roots: &'a [Root],
}

impl Kept<'_> {
    /// Which objects stay once `let_go` has released them, and the calls for which the frame of `root` waits have returned, if
    /// `root` is a local variable. `counted`: objects whose one reference from outside does not keep them, because it is that
    /// of their C++ object, which has other references: whether those go is not known. None if time runs out.
    pub(crate) fn without(
        &self,
        releases: Releases,
        root: usize,
        (counted, limits): (&FxHashSet<Id>, &Limits),
    ) -> Option<Vec<bool>> {
        let of = self.roots.get(root).and_then(|root| root.what.frame());
        let has_returned = |root: &Root| {
            let pair = root.what.frame().zip(of);
            pair.is_some_and(|(newer, of)| self.frames.has_returned(newer, of))
        };
        let mut stays = vec![false; self.heap.objects.len()];
        let mut queue = VecDeque::new();
        let mut reach = |object: Id, queue: &mut VecDeque<Id>| {
            if let Some(stays) = stays.get_mut(object as usize)
                && !core::mem::replace(stays, true)
            {
                queue.push_back(object);
            }
        };
        for (number, root) in self.roots.iter().enumerate() {
            if releases != Releases::Root(number) && !has_returned(root) {
                reach(root.object, &mut queue);
            }
        }
        let Self {
            locked,
            heap,
            frames,
            outside,
            ..
        } = self;
        for (object, count) in outside.remaining(locked, heap, frames, of) {
            if count != 1 || !counted.contains(&object) {
                reach(object, &mut queue);
            }
        }
        let mut count = 0u32;
        while let Some(object) = queue.pop_front() {
            count += 1;
            if count.is_multiple_of(4096) && limits.is_over() {
                return None;
            }
            if releases == Releases::Object(object) {
                continue;
            }
            let mut is_first = true;
            for &other in heap.references(object) {
                if releases == Releases::Reference(object, other) && is_first {
                    is_first = false;
                    continue;
                }
                reach(other, &mut queue);
            }
        }
        Some(stays)
    }
}
