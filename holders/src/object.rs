//! Reads objects and classes of CPython from memory. The interpreter's lock is held whenever this is used.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;

use crate::names::clean;

/// A Python object's address.
pub(crate) type Object = usize;

/// `visitproc`.
pub(crate) type Visit = unsafe extern "C" fn(Object, *mut c_void) -> c_int;
/// `traverseproc`.
pub(crate) type Traverse = unsafe extern "C-unwind" fn(Object, Visit, *mut c_void) -> c_int;

/// Offsets in `PyTypeObject` of builds with the GIL, the same in all these versions.
mod type_object {
    pub(super) const NAME: usize = 24;
    pub(super) const BASIC_SIZE: usize = 32;
    pub(super) const ITEM_SIZE: usize = 40;
    pub(super) const FLAGS: usize = 168;
    pub(super) const TRAVERSE: usize = 184;
    pub(super) const MEMBERS: usize = 240;
    pub(super) const BASE: usize = 256;
    pub(super) const DICT: usize = 264;
    pub(super) const DICT_OFFSET: usize = 288;
    /// `Py_TPFLAGS_HAVE_GC`.
    pub(super) const HAVE_GC: u64 = 1 << 14;
    /// `Py_TPFLAGS_MANAGED_DICT`; before 3.11, no flag that a class has.
    pub(super) const MANAGED_DICT: u64 = 1 << 4;
}

/// The pointer to the dictionary of an object whose class has `MANAGED_DICT`.
const MANAGED: usize = 24;
/// `ob_size`.
const SIZE: usize = 16;
/// A `PyMemberDef`: its name, type and offset.
const MEMBER: [usize; 3] = [0, 8, 16];
const MEMBER_BYTES: usize = 40;
/// `Py_T_OBJECT` and `Py_T_OBJECT_EX` of a `PyMemberDef`.
const MEMBER_OBJECTS: [c_int; 2] = [6, 16];

/// A word of an object.
///
/// # Safety
/// The object lives, and has a word there.
pub(crate) unsafe fn word(object: Object, offset: usize) -> usize {
    // SAFETY: promised by the caller.
    unsafe { ((object + offset) as *const usize).read() }
}

/// The class of a live object; 0 for no object.
pub(crate) fn kind(object: Object) -> Object {
    if object == 0 {
        return 0;
    }
    // SAFETY: all objects of builds with the GIL begin with the count of references and the class.
    unsafe { word(object, 8) }
}

/// The references to a live object. Immortal objects have a very large count.
pub(crate) fn references(object: Object) -> usize {
    // SAFETY: as in `kind`. The count is 32 bits of it in some versions, with flags above.
    unsafe { word(object, 0) & 0xffff_ffff }
}

/// The base of a class; 0: none.
fn base(class: Object) -> Object {
    // SAFETY: a live class.
    unsafe { word(class, type_object::BASE) }
}

/// A class and those from which it derives, up to `object`.
pub(crate) fn bases(class: Object) -> impl Iterator<Item = Object> {
    let next = |class: &Object| Some(base(*class)).filter(|base| *base != 0);
    core::iter::successors(Some(class).filter(|class| *class != 0), next)
}

/// The dictionary of a class; 0 if the class has no separate one.
pub(crate) fn class_dict(class: Object) -> Object {
    // SAFETY: a live class.
    unsafe { word(class, type_object::DICT) }
}

fn flags(class: Object) -> u64 {
    // SAFETY: a live class.
    unsafe { word(class, type_object::FLAGS) as u64 }
}

/// The function that lists what an object refers to.
pub(crate) fn traverse(object: Object) -> Option<Traverse> {
    let class = kind(object);
    // SAFETY: a live class with this flag has such a function.
    let function = unsafe { word(class, type_object::TRAVERSE) };
    (flags(class) & type_object::HAVE_GC != 0 && function != 0)
        // SAFETY: as above.
        .then(|| unsafe { transmute::<usize, Traverse>(function) })
}

/// Kinds of built-in classes that have a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `list`.
    List = 25,
    /// `tuple`.
    Tuple = 26,
    /// `dict`.
    Dict = 29,
    /// `BaseException`.
    Exception = 30,
    /// `type`.
    Type = 31,
}

/// Whether a class is one of these or derives from it.
pub(crate) fn is_a(class: Object, of: Class) -> bool {
    class != 0 && flags(class) & 1 << of as u32 != 0
}

/// Whether an object has its attributes in a separate dictionary, also if that does not exist yet.
pub(crate) fn has_managed_attributes(object: Object) -> bool {
    flags(kind(object)) & type_object::MANAGED_DICT != 0
}

/// Whether `dict` has the attributes of `object`, rather than being one of them.
pub(crate) fn is_attributes_of(dict: Object, object: Object) -> bool {
    if object == 0 {
        return false;
    }
    let class = kind(object);
    // SAFETY: a live object and its class. The dictionary is where the class says; from the end of an object with items
    // if that is negative, which then counts these at `SIZE`.
    unsafe {
        if is_a(class, Class::Type) && class_dict(object) == dict {
            return true;
        }
        if has_managed_attributes(object) {
            return word(object - MANAGED, 0) == dict;
        }
        match word(class, type_object::DICT_OFFSET) as isize {
            0 => false,
            offset @ 1.. => word(object, offset as usize) == dict,
            offset => {
                let items = (word(object, SIZE) as isize).unsigned_abs();
                let size = word(class, type_object::BASIC_SIZE)
                    + items * word(class, type_object::ITEM_SIZE);
                let offset = size.next_multiple_of(8).wrapping_add_signed(offset);
                word(object, offset) == dict
            }
        }
    }
}

/// The name of the attribute that a class stores in its objects (`__slots__`), if `value` is there.
pub(crate) fn slot_name(object: Object, value: Object) -> Option<String> {
    // SAFETY: a live object's class and its bases live; members are an array that ends with a null name, at offsets in
    // the object.
    unsafe {
        for class in bases(kind(object)) {
            let mut member = word(class, type_object::MEMBERS);
            while member != 0 && word(member, MEMBER[0]) != 0 {
                let kind = ((member + MEMBER[1]) as *const c_int).read();
                let offset = word(member, MEMBER[2]);
                if MEMBER_OBJECTS.contains(&kind)
                    && offset < word(class, type_object::BASIC_SIZE)
                    && word(object, offset) == value
                {
                    let name = CStr::from_ptr(word(member, MEMBER[0]) as *const c_char);
                    return Some(clean(name.to_string_lossy().chars()));
                }
                member += MEMBER_BYTES;
            }
        }
    }
    None
}

/// The name of a class, as the class has it: with its module for classes that C code defines.
pub(crate) fn full_name(class: Object) -> String {
    // SAFETY: a live class has a name that ends with a zero.
    let name = unsafe {
        let name = word(class, type_object::NAME) as *const c_char;
        if name.is_null() {
            return String::new();
        }
        CStr::from_ptr(name)
    };
    clean(name.to_string_lossy().chars())
}

/// The name of a class without its module.
pub(crate) fn class_name(class: Object) -> String {
    let name = full_name(class);
    name.rsplit('.').next().unwrap_or(&name).to_owned()
}
