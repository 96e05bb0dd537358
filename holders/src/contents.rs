//! What the objects in a container, or the attributes of an object, are called.

use rustc_hash::FxHashMap;

use crate::heap::Heap;
use crate::inline;
use crate::object::{Class, Object, is_a, kind, slot_name};
use crate::python::Locked;
use crate::text::Part;

/// The maximum number of entries of a dictionary whose keys are printed.
const FEW: isize = 16;

/// Finds names.
pub(crate) struct Contents<'a> {
    locked: &'a Locked<'a>,
    heap: &'a Heap,
    /// By container: its objects that the collector has.
    known: FxHashMap<Object, FxHashMap<Object, Part>>,
}

impl<'a> Contents<'a> {
    pub(crate) fn new(locked: &'a Locked<'a>, heap: &'a Heap) -> Self {
        Self {
            locked,
            heap,
            known: FxHashMap::default(),
        }
    }

    /// What `child` is called in a dictionary, which may have attributes.
    pub(crate) fn in_dict(
        &mut self,
        dict: Object,
        has_attributes: bool,
        child: Object,
    ) -> Option<Part> {
        let (locked, heap) = (self.locked, self.heap);
        let known = self.known.entry(dict);
        let known = known.or_insert_with(|| {
            let mut parts = FxHashMap::default();
            // SAFETY: a live dictionary, with the lock.
            let is_long = unsafe { (locked.python.PyDict_Size)(dict) } > FEW;
            locked.entries(dict, |key, value| {
                if heap.number(value).is_some() {
                    let name = || entry(locked, key, has_attributes, is_long);
                    parts.entry(value).or_insert_with(name);
                }
                true
            });
            parts
        });
        known.get(&child).cloned()
    }

    /// What `child` is called in a list or a tuple.
    pub(crate) fn in_list(&mut self, list: Object, child: Object) -> Option<Part> {
        let (locked, heap) = (self.locked, self.heap);
        let known = self.known.entry(list);
        let known = known.or_insert_with(|| {
            let mut parts = FxHashMap::default();
            let python = &locked.python;
            let (size, get) = match is_a(kind(list), Class::List) {
                true => (python.PyList_Size, python.PyList_GetItem),
                false => (python.PyTuple_Size, python.PyTuple_GetItem),
            };
            // SAFETY: a live list or tuple, with the lock.
            let length = unsafe { size(list) };
            for at in 0..length {
                // SAFETY: as above; borrowed.
                let object = unsafe { get(list, at) };
                if heap.number(object).is_some() {
                    let part = || Part::Index(at as i64);
                    parts.entry(object).or_insert_with(part);
                }
            }
            parts
        });
        known.get(&child).cloned()
    }

    /// The attribute that an object stores in itself.
    pub(crate) fn attribute(&self, object: Object, child: Object) -> Option<Part> {
        let name = inline::attribute_name(self.locked, object, child);
        name.or_else(|| slot_name(object, child)).map(Part::Name)
    }
}

fn entry(locked: &Locked<'_>, key: Object, has_attributes: bool, is_long: bool) -> Part {
    let class = kind(key);
    if class == locked.python.PyUnicode_Type && (has_attributes || !is_long) {
        let name = locked.text(key).unwrap_or_default();
        return match has_attributes {
            true => Part::Name(name),
            false => Part::Key(name),
        };
    }
    let number = (class == locked.python.PyLong_Type).then(|| locked.number(key));
    number.flatten().map_or(Part::Element, Part::Index)
}
