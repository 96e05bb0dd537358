//! What the objects in a container, or the attributes of an object, are called.

use core::ffi::{CStr, c_int, c_void};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::heap::Heap;
use crate::inline;
use crate::object::{
    Class, Object, bases, class_dict, class_name, full_name, is_a, is_attributes_of, kind,
    slot_name, traverse,
};
use crate::python::Locked;
use crate::text::Part;

/// The maximum number of entries of a dictionary whose keys are printed.
const FEW: isize = 16;

/// The elements of a list.
#[derive(Default)]
struct Elements {
    /// The place after that of the last element that was found.
    next: isize,
    /// The first place of each, once one was not found near the last one.
    places: Option<FxHashMap<Object, u32>>,
}

/// Finds names.
pub(crate) struct Contents<'a> {
    locked: &'a Locked<'a>,
    heap: &'a Heap,
    /// By container: its objects that the collector has.
    known: FxHashMap<Object, FxHashMap<Object, Part>>,
    lists: FxHashMap<Object, Elements>,
    /// By cached function: the dictionary of its cache, or 0.
    caches: FxHashMap<Object, Object>,
    /// By dictionary of a cache: its keys that the collector has.
    keys: FxHashMap<Object, FxHashSet<Object>>,
    /// By class and attribute: whether it is a cached property.
    properties: FxHashMap<(Object, String), bool>,
}

impl<'a> Contents<'a> {
    pub(crate) fn new(locked: &'a Locked<'a>, heap: &'a Heap) -> Self {
        Self {
            locked,
            heap,
            known: FxHashMap::default(),
            lists: FxHashMap::default(),
            caches: FxHashMap::default(),
            keys: FxHashMap::default(),
            properties: FxHashMap::default(),
        }
    }

    /// The dictionary of a function with `functools.lru_cache`; 0 if it is not found.
    pub(crate) fn cache(&mut self, function: Object) -> Object {
        let python = &self.locked.python;
        let cache = self.caches.entry(function);
        *cache.or_insert_with(|| {
            let mut last = Last {
                class: python.PyDict_Type,
                of: function,
                dict: 0,
            };
            if let Some(traverse) = traverse(function) {
                // SAFETY: a live object of a class with this function, with the lock.
                unsafe { traverse(function, is_last, (&raw mut last).cast()) };
            }
            last.dict
        })
    }

    /// The number of entries of a dictionary.
    pub(crate) fn length(&self, dict: Object) -> usize {
        // SAFETY: a live dictionary, with the lock.
        unsafe { (self.locked.python.PyDict_Size)(dict) as usize }
    }

    /// Whether an object is one of a dictionary's keys.
    pub(crate) fn is_key(&mut self, dict: Object, object: Object) -> bool {
        let (locked, heap) = (self.locked, self.heap);
        let keys = self.keys.entry(dict).or_insert_with(|| {
            let mut keys = FxHashSet::default();
            locked.entries(dict, |key, _| {
                keys.extend(heap.number(key).map(|_| key));
                true
            });
            keys
        });
        keys.contains(&object)
    }

    /// Whether `child` is the result of a future of `asyncio`'s C code.
    pub(crate) fn is_result(&self, future: Object, child: Object) -> bool {
        let class = full_name(kind(future));
        if !matches!(&*class, "_asyncio.Task" | "_asyncio.Future") {
            return false;
        }
        let result = self.locked.attribute(future, c"_result");
        result.is_some_and(|result| result.object == child)
    }

    /// An attribute, with what is special about it.
    pub(crate) fn named(&mut self, object: Object, name: String) -> Part {
        let class = kind(object);
        if name == "_result" && class_name(class) == "Future" {
            return Part::Name(String::from("result()"));
        }
        let locked = self.locked;
        let is_cached = self.properties.entry((class, name.clone()));
        let is_cached = *is_cached.or_insert_with(|| {
            let mut text = name.clone();
            text.push('\0');
            let text = CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default();
            let property = bases(class)
                .map(|class| locked.entry(class_dict(class), text))
                .find(|of| *of != 0);
            property.is_some_and(|of| class_name(kind(of)) == "cached_property")
        });
        match is_cached {
            true => Part::Cached(name),
            false => Part::Name(name),
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
        let python = &self.locked.python;
        let (size, get) = match is_a(kind(list), Class::List) {
            true => (python.PyList_Size, python.PyList_GetItem),
            false => (python.PyTuple_Size, python.PyTuple_GetItem),
        };
        // SAFETY: a live list or tuple, with the lock; borrowed.
        let (length, get) = unsafe { (size(list), |at| get(list, at)) };
        let elements = self.lists.entry(list).or_default();
        // Mostly one element is looked up after the other.
        let near = [elements.next - 1, elements.next].into_iter();
        let is_there = |at: &isize| (0..length).contains(at) && get(*at) == child;
        if let Some(at) = near.filter(|at| *at >= 0).find(is_there) {
            elements.next = at + 1;
            return Some(Part::Index(at as i64));
        }
        let places = elements.places.get_or_insert_with(|| {
            let objects = self.heap.number(list);
            let objects = objects.map_or(0, |list| self.heap.references(list).len());
            let mut places = FxHashMap::default();
            places.reserve(objects);
            for at in 0..length {
                let object = get(at);
                if objects as isize == length || self.heap.number(object).is_some() {
                    places.entry(object).or_insert(at as u32);
                }
            }
            places
        });
        let at = *places.get(&child)?;
        elements.next = at as isize + 1;
        Some(Part::Index(at.into()))
    }

    /// The attribute that an object stores in itself.
    pub(crate) fn attribute(&self, object: Object, child: Object) -> Option<Part> {
        let name = inline::attribute_name(self.locked, object, child);
        name.or_else(|| slot_name(object, child)).map(Part::Name)
    }
}

/// Looks for the last dictionary that a function refers to and that does not have its attributes.
struct Last {
    class: Object,
    of: Object,
    dict: Object,
}

/// `visitproc`: a cached function's results, which may be dictionaries, come before its cache.
unsafe extern "C" fn is_last(object: Object, last: *mut c_void) -> c_int {
    // SAFETY: the address of the value of the call of `traverse`.
    let last = unsafe { &mut *last.cast::<Last>() };
    if kind(object) == last.class && !is_attributes_of(object, last.of) {
        last.dict = object;
    }
    0
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
