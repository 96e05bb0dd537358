//! The attributes that an object stores without a dictionary, from 3.11 on: its class has their names, the object their
//! values. Reading them by the interpreter's functions would give the object a dictionary.

use crate::object::{Object, has_managed_attributes, kind, word};
use crate::python::Locked;

/// The offset of the shared names (`ht_cached_keys`) in a class that Python code defines, in 3.11, and since.
const NAMES: [usize; 2] = [872, 880];
/// `tp_basicsize`, and that of `type` in each version of which the offsets are known.
const BASIC_SIZE: usize = 32;
const SIZES: [(u32, usize); 4] = [(11, 904), (12, 920), (13, 928), (14, 936)];

/// `PyDictKeysObject`: the size of its index as a power of two, what kind it is, the number of names, and where the
/// index begins, which the names follow.
mod names {
    pub(super) const INDEX: usize = 9;
    pub(super) const KIND: usize = 10;
    pub(super) const COUNT: usize = 24;
    pub(super) const START: usize = 32;
    /// A name and a value that is not used.
    pub(super) const ENTRY: usize = 16;
    /// `DICT_KEYS_SPLIT`.
    pub(super) const SHARED: u8 = 2;
}

/// The maximum number of attributes that are stored without a dictionary.
const MOST: usize = 64;

/// The name of the attribute that refers to `value`.
pub(crate) fn attribute_name(locked: &Locked<'_>, object: Object, value: Object) -> Option<String> {
    let (_, minor) = locked.runtime.version().minor();
    // SAFETY: a live class. Those whose objects store attributes like this are defined by Python code, and have names.
    unsafe {
        let size = word(locked.python.PyType_Type, BASIC_SIZE);
        if !SIZES.contains(&(minor, size)) || !has_managed_attributes(object) {
            return None;
        }
        let names = word(kind(object), if minor == 11 { NAMES[0] } else { NAMES[1] });
        let values = values(object, minor)?;
        if names == 0 || byte(names, names::KIND) != names::SHARED {
            return None;
        }
        let count = word(names, names::COUNT).min(MOST);
        let at = (0..count).find(|at| word(values, at * 8) == value)?;
        let first = names + names::START + (1usize << byte(names, names::INDEX));
        locked.text(word(first, at * names::ENTRY))
    }
}

/// The address of an object's values; None if a dictionary has them.
///
/// # Safety
/// A live object that may have such values.
unsafe fn values(object: Object, minor: u32) -> Option<usize> {
    // SAFETY: promised by the caller.
    unsafe {
        match minor {
            11 => Some(word(object - 32, 0)).filter(|values| *values != 0),
            // One less than their address, unlike that of a dictionary.
            12 => Some(word(object - 24, 0))
                .filter(|values| values & 1 == 1)
                .map(|values| values + 1),
            // Behind the object: their capacity, number, where they are, and whether they are used.
            _ => {
                let head = object + word(kind(object), BASIC_SIZE);
                (has_inline_values(kind(object)) && byte(head, 3) != 0).then_some(head + 8)
            }
        }
    }
}

/// `Py_TPFLAGS_INLINE_VALUES`.
fn has_inline_values(class: Object) -> bool {
    const FLAGS: usize = 168;
    // SAFETY: a live class.
    unsafe { word(class, FLAGS) & 1 << 2 != 0 }
}

/// # Safety
/// As [`word`].
unsafe fn byte(object: Object, offset: usize) -> u8 {
    // SAFETY: promised by the caller.
    unsafe { ((object + offset) as *const u8).read() }
}
