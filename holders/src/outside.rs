//! References to objects from where the collector sees none: from native code, and from values that frames work with.

use rustc_hash::FxHashMap;

use crate::frames::{Codes, Frames};
use crate::heap::{Heap, Id};
use crate::object::{Object, kind, references};
use crate::python::Locked;
use crate::roots::{Root, What};

/// Objects with more references than objects and variables have to them.
pub(crate) struct Outside {
    /// The objects, and the number of such references.
    pub(crate) objects: Vec<(Id, u32)>,
    /// The frames that work with an object, as often as they refer to it.
    frames: FxHashMap<Id, Vec<usize>>,
}

impl Outside {
    /// Counts the references.
    pub(crate) fn count(
        locked: &Locked<'_>,
        heap: &Heap,
        roots: &[Root],
        frames: &Frames,
        codes: &mut Codes,
    ) -> Self {
        let mut counts = vec![0u32; heap.objects.len()];
        let mut add = |object: Id| {
            if let Some(count) = counts.get_mut(object as usize) {
                *count += 1;
            }
        };
        heap.edges().iter().for_each(|object| add(*object));
        for root in roots {
            if let What::Local(frame, variable) = root.what
                && let Some(frame) = frames.all.get(frame)
                // SAFETY: a live frame's variable, with the lock.
                && unsafe { frame.locals.get(variable) }.is_some_and(|value| value.is_counted)
            {
                add(root.object);
            }
        }
        let objects: Vec<(Id, u32)> = (0..)
            .zip(counts)
            .map(|(object, count)| {
                let all = references(heap.object(object)) as u32;
                (object, all.saturating_sub(count))
            })
            .filter(|(_, outside)| *outside != 0)
            .collect();
        Self {
            frames: working(locked, heap, &objects, frames, codes),
            objects,
        }
    }

    /// The oldest frame that works with an object.
    pub(crate) fn frame(&self, object: Id) -> Option<usize> {
        self.frames.get(&object)?.iter().copied().max()
    }

    /// The objects to which such references remain, once the frame `of` goes on, if there is one, and how many.
    pub(crate) fn remaining(
        &self,
        locked: &Locked<'_>,
        heap: &Heap,
        frames: &Frames,
        of: Option<usize>,
    ) -> impl Iterator<Item = (Id, usize)> {
        self.objects.iter().filter_map(move |(object, count)| {
            let works = self.frames.get(object).zip(of);
            let gone = works.map_or(0, |(working, of)| {
                let is_gone = |frame: &&usize| {
                    frames.has_returned(**frame, of)
                        || **frame == of && !stays(locked, heap.object(*object))
                };
                working.iter().filter(is_gone).count()
            });
            let count = (*count as usize).saturating_sub(gone);
            (count != 0).then_some((*object, count))
        })
    }
}

/// Whether a frame that works with an object does so after the call that it waits for: what a loop goes over, and what
/// the end of a `with` calls. Other values belong to the expression with the call.
fn stays(locked: &Locked<'_>, object: Object) -> bool {
    // SAFETY: a live object, with the lock; only its class is read.
    kind(object) == locked.python.PyMethod_Type
        || unsafe { (locked.python.PyIter_Check)(object) } != 0
}

/// Finds the frames that work with these objects. What is in a frame's places beyond those in use may be old, so only
/// references that are to be explained are looked for.
fn working(
    locked: &Locked<'_>,
    heap: &Heap,
    objects: &[(Id, u32)],
    frames: &Frames,
    codes: &mut Codes,
) -> FxHashMap<Id, Vec<usize>> {
    let mut working: FxHashMap<Id, Vec<usize>> = FxHashMap::default();
    for (number, frame) in frames.all.iter().enumerate() {
        let code = codes.get(locked, frame.locals.code);
        let first = code.variables.len();
        for place in first..first + code.evaluation {
            // SAFETY: a live frame's place, with the lock. It may have an old address, which is only compared.
            let value = unsafe { frame.locals.get(place) };
            if let Some(value) = value.filter(|value| value.is_counted)
                && let Some(object) = heap.number(value.object)
                && objects
                    .binary_search_by_key(&object, |(object, _)| *object)
                    .is_ok()
            {
                working.entry(object).or_default().push(number);
            }
        }
    }
    working
}
