//! Lists the objects of the interpreter's collector, those that `gc.freeze` has set aside included.
//!
//! Neither way creates an object. `gc.get_objects`, which does, raises an audit event and leaves such objects out.

use core::ffi::{c_int, c_void};

use crate::object::{Object, word};
use crate::python::Locked;

/// Bytes before an object: the addresses of the next and the previous one in its list, with two flags.
const HEAD: usize = 16;
const FLAGS: usize = 3;

/// In the interpreter up to 3.13: three lists, 24 bytes each, then the address of the first, then the list of what
/// `gc.freeze` has set aside.
const LISTS: [usize; 4] = [0, 24, 48, 80];
const FIRST: usize = 72;

/// Passes each object to `each`, until it returns false. False if the objects cannot be listed.
pub(crate) fn objects(locked: &Locked<'_>, mut each: impl FnMut(Object) -> bool) -> bool {
    // The function leaves out what `gc.freeze` has set aside before 3.14.
    let has_lists = locked.runtime.version().minor() < (3, 14);
    if has_lists && of_lists(locked, &mut each) {
        return true;
    }
    let Some(visit) = locked.python.visit else {
        return false;
    };
    // SAFETY: with the lock. The function is called with this closure for each object, and no longer.
    unsafe { visit(visited(&each), (&raw mut each).cast()) };
    true
}

fn visited<F: FnMut(Object) -> bool>(_: &F) -> crate::python::Each {
    unsafe extern "C" fn visited<F: FnMut(Object) -> bool>(
        object: Object,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: the address of the closure of `objects`.
        let each = unsafe { &mut *each.cast::<F>() };
        c_int::from(each(object))
    }
    visited::<F>
}

/// An empty list that the collector does not know, with room before it for the collector's own data.
#[repr(C)]
struct Fake {
    head: [usize; 2],
    references: usize,
    class: usize,
    contents: [usize; 3],
}

fn of_lists(locked: &Locked<'_>, each: &mut impl FnMut(Object) -> bool) -> bool {
    let mut fake = Fake {
        head: [0; 2],
        references: 1,
        class: locked.python.PyList_Type,
        contents: [0; 3],
    };
    let object = (&raw mut fake.references).cast::<c_void>();
    // SAFETY: with the lock. A new object is the last one of the first list, so the list's head comes next. The lists
    // are the interpreter's, and each leads back to its head.
    unsafe {
        (locked.python.PyObject_GC_Track)(object);
        let first = word(object as usize - HEAD, 0);
        (locked.python.PyObject_GC_UnTrack)(object);
        if !first.is_multiple_of(8) || word(first, FIRST) != first {
            return false;
        }
        for list in LISTS {
            let head = first + list;
            let mut next = word(head, 0);
            if next == 0 || word(next, 8) & !FLAGS != head {
                return false;
            }
            while next != head {
                if !each(next + HEAD) {
                    return true;
                }
                next = word(next, 0);
            }
        }
    }
    true
}
