//! Whether functions could have deleted the variables with which paths begin.

use rustc_hash::FxHashSet;

use crate::blocks::{Block, Blocks};
use crate::collect::Group;
use crate::freed::Kept;
use crate::heap::Id;
use crate::live::Live;
use crate::object::{kind, references};
use crate::path::Paths;
use crate::result::Kind;
use crate::roots::What;
use crate::search::Search;

/// The maximum number of variables of one holder.
const VARIABLES: usize = 1 << 16;

/// See [`crate::Holder::unused`].
pub(crate) struct Unused<'a> {
    kept: &'a Kept<'a>,
    search: &'a Search,
    live: Live,
    /// Objects that several variables of running functions refer to: from 3.14 on, not every reference is counted.
    several: FxHashSet<Id>,
}

impl<'a> Unused<'a> {
    pub(crate) fn new(kept: &'a Kept<'a>, search: &'a Search) -> Self {
        let mut seen = FxHashSet::default();
        let roots = search.roots.iter();
        let variables = roots.filter(|root| matches!(root.what, What::Local(..)));
        let objects = variables.map(|root| root.object);
        Self {
            kept,
            search,
            live: Live::default(),
            several: objects.filter(|object| !seen.insert(*object)).collect(),
        }
    }

    /// Whether it is so of all variables of a group.
    pub(crate) fn all(&mut self, group: &Group, paths: &mut Paths<'_>, blocks: &Blocks) -> bool {
        let is_one = |block: &Block| match blocks.tensors(block) {
            [(tensor, memory)] => {
                let of_object = references(self.kept.heap.object(*tensor));
                (memory.references, memory.sharers, of_object) == (1, 1, 1)
            }
            _ => false,
        };
        group.kind == Kind::Object
            && group.is_own
            && (1..=VARIABLES).contains(&group.variables.len())
            && blocks.of(&group.blocks).all(is_one)
            && group.variables.iter().all(|(call, object)| {
                let call = (*call, group.waits());
                self.is_read(call, *object, paths) == Some(false)
            })
    }

    /// Whether the variable with this object is read again, in the frame of a root, or of a call that waits. None if that is
    /// not known, or there is another reference to the object.
    fn is_read(
        &mut self,
        (call, waits): (usize, bool),
        object: Id,
        paths: &mut Paths<'_>,
    ) -> Option<bool> {
        let Kept { locked, heap, .. } = self.kept;
        let address = heap.object(object);
        let locals = match self.search.roots.get(call).map(|root| &root.what) {
            _ if waits => {
                let call = heap.object(Id::try_from(call).ok()?);
                let is_frame = kind(call) == locked.python.PyFrame_Type;
                // SAFETY: a live frame object, or a generator or coroutine, with the lock.
                unsafe {
                    match is_frame {
                        true => locked.runtime.locals_of(call),
                        false => locked.runtime.locals_of_generator(call),
                    }
                }?
            }
            Some(What::Local(frame, _)) => self.kept.frames.all.get(*frame)?.locals,
            _ => return None,
        };
        let [variables, evaluation] = paths.places(locals.code);
        let mut places = (0..variables + evaluation).filter(|place| {
            // SAFETY: the frame is live, with the lock, and has these places. One for the evaluation may be old.
            let value = unsafe { locals.get(*place) };
            let is_own = |is_counted: bool| *place < variables || !is_counted;
            value.is_some_and(|value| value.object == address && is_own(value.is_counted))
        });
        let variable = places.next()?;
        let is_one = places.next().is_none() && references(address) == 1;
        if !is_one || self.several.contains(&object) {
            return None;
        }
        self.live
            .reads(locked, (locals.code, locals.offset), variable)
    }
}
