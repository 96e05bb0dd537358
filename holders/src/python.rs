//! The functions and types of CPython's C API that a walk uses, and the lock under which it uses them.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;

use gpumem_python_frames::symbol;

/// A Python object's address.
pub(crate) type Object = usize;

/// `visitproc`.
pub(crate) type Visit = unsafe extern "C" fn(Object, *mut c_void) -> c_int;
/// `traverseproc`.
pub(crate) type Traverse = unsafe extern "C" fn(Object, Visit, *mut c_void) -> c_int;

macro_rules! python {
    ($($(#[$of:meta])* $name:ident: fn($($argument:ty),*) -> $result:ty,)* ; types $($kind:ident,)*) => {
        /// The interpreter's functions and types.
        #[allow(non_snake_case)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Python {
            $($(#[$of])* pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            $(pub(crate) $kind: Object,)*
        }

        impl Python {
            /// None if a function or a type is missing.
            fn look_up() -> Option<Self> {
                let address = |name: &str| {
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
                    symbol(name)
                };
                Some(Self {
                    // SAFETY: the functions have had these types from 3.8 to 3.14.
                    $($name: unsafe {
                        transmute::<usize, unsafe extern "C" fn($($argument),*) -> $result>(address(concat!(stringify!($name), "\0"))?)
                    },)*
                    $($kind: address(concat!(stringify!($kind), "\0"))?,)*
                })
            }
        }
    };
}

python! {
    PyGILState_GetThisThreadState: fn() -> usize,
    PyGILState_Ensure: fn() -> c_int,
    PyGILState_Release: fn(c_int) -> (),
    PyErr_Fetch: fn(*mut Object, *mut Object, *mut Object) -> (),
    PyErr_Restore: fn(Object, Object, Object) -> (),
    PyErr_Clear: fn() -> (),
    PyErr_GetExcInfo: fn(*mut Object, *mut Object, *mut Object) -> (),
    PyImport_GetModuleDict: fn() -> Object,
    PyModule_GetDict: fn(Object) -> Object,
    PyDict_GetItemString: fn(Object, *const c_char) -> Object,
    PyDict_Next: fn(Object, *mut isize, *mut Object, *mut Object) -> c_int,
    PyDict_Size: fn(Object) -> isize,
    PyObject_GetAttrString: fn(Object, *const c_char) -> Object,
    PyObject_CallObject: fn(Object, Object) -> Object,
    PyObject_GenericGetDict: fn(Object, *mut c_void) -> Object,
    PyType_IsSubtype: fn(Object, Object) -> c_int,
    Py_DecRef: fn(Object) -> (),
    PyList_Size: fn(Object) -> isize,
    PyList_GetItem: fn(Object, isize) -> Object,
    PyTuple_Size: fn(Object) -> isize,
    PyTuple_GetItem: fn(Object, isize) -> Object,
    PyLong_AsLongLong: fn(Object) -> i64,
    PyUnicode_AsUTF8AndSize: fn(Object, *mut isize) -> *const u8,
    PyCode_Addr2Line: fn(Object, c_int) -> c_int,
    PyFunction_GetCode: fn(Object) -> Object,
    PyFunction_GetClosure: fn(Object) -> Object,
    PyInterpreterState_Main: fn() -> usize,
    PyInterpreterState_ThreadHead: fn(usize) -> usize,
    PyThreadState_Next: fn(usize) -> usize,
    ; types
    PyModule_Type,
    PyDict_Type,
    PyUnicode_Type,
    PyLong_Type,
    PyFunction_Type,
    PyMethod_Type,
    PyCell_Type,
    PyFrame_Type,
    PyTraceBack_Type,
    PyGen_Type,
    PyCoro_Type,
    PyAsyncGen_Type,
    PyBaseObject_Type,
}

/// Offsets in `PyTypeObject` of builds with the GIL, the same in all these versions.
mod type_object {
    pub(super) const NAME: usize = 24;
    pub(super) const FLAGS: usize = 168;
    pub(super) const TRAVERSE: usize = 184;
    pub(super) const MEMBERS: usize = 240;
    pub(super) const BASE: usize = 256;
    /// `Py_TPFLAGS_HAVE_GC`.
    pub(super) const HAVE_GC: u64 = 1 << 14;
    /// `Py_TPFLAGS_MANAGED_DICT` and, before 3.12, no flag that a class without it has.
    pub(super) const MANAGED_DICT: u64 = 1 << 4;
}

/// `Py_T_OBJECT` and `Py_T_OBJECT_EX` of a `PyMemberDef`.
const MEMBER_OBJECTS: [c_int; 2] = [6, 16];

/// The interpreter's lock, with the collector off and no exception set. Everything is as before once it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) python: Python,
    lock: c_int,
    errors: [Object; 3],
    /// `gc.enable`, if the collector was on.
    enable: Option<Object>,
    gc: Object,
}

impl Locked {
    /// Takes the lock. None if the thread has no state in the interpreter, or the interpreter has no `gc` yet.
    pub(crate) fn take() -> Option<Self> {
        let python = Python::look_up()?;
        // SAFETY: it needs no lock.
        if unsafe { (python.PyGILState_GetThisThreadState)() } == 0 {
            return None;
        }
        // SAFETY: the thread has a state; the rest runs with the lock. The dictionary of modules and `gc` are borrowed and
        // stay.
        unsafe {
            let mut locked = Self {
                python,
                lock: (python.PyGILState_Ensure)(),
                errors: [0; 3],
                enable: None,
                gc: 0,
            };
            let [kind, value, traceback] = &mut locked.errors;
            (python.PyErr_Fetch)(kind, value, traceback);
            let modules = (python.PyImport_GetModuleDict)();
            locked.gc = (python.PyDict_GetItemString)(modules, c"gc".as_ptr());
            if locked.gc == 0 {
                return None;
            }
            // A collection would run code of the program.
            let is_on = locked.call(c"isenabled");
            if is_on != 0 && locked.truth(is_on) {
                locked.enable = locked.attribute(locked.gc, c"enable");
                let done = locked.call(c"disable");
                locked.release(done);
            }
            locked.release(is_on);
            Some(locked)
        }
    }

    /// Whether a truth value is true.
    fn truth(&self, object: Object) -> bool {
        // SAFETY: a live truth value, which is an integer.
        unsafe { (self.python.PyLong_AsLongLong)(object) == 1 }
    }

    /// A new reference to the result of a function of `gc` without arguments; 0 if it failed.
    pub(crate) fn call(&self, name: &CStr) -> Object {
        let Some(function) = self.attribute(self.gc, name) else {
            return 0;
        };
        // SAFETY: a function, with the lock.
        unsafe {
            let result = (self.python.PyObject_CallObject)(function, 0);
            self.release(function);
            (self.python.PyErr_Clear)();
            result
        }
    }

    /// A new reference to an attribute of an object whose attributes run no code of the program: of a function, a code
    /// object, a generator, a module of the interpreter.
    pub(crate) fn attribute(&self, object: Object, name: &CStr) -> Option<Object> {
        // SAFETY: a live object, with the lock.
        let found = unsafe { (self.python.PyObject_GetAttrString)(object, name.as_ptr()) };
        if found == 0 {
            // SAFETY: with the lock.
            unsafe { (self.python.PyErr_Clear)() };
        }
        (found != 0).then_some(found)
    }

    /// Gives a reference back.
    pub(crate) fn release(&self, object: Object) {
        if object != 0 {
            // SAFETY: a reference of ours.
            unsafe { (self.python.Py_DecRef)(object) };
        }
    }

    /// The characters of a string; None for another object, or a string that is not UTF-8.
    pub(crate) fn text(&self, object: Object) -> Option<String> {
        if object == 0 || kind(object) != self.python.PyUnicode_Type {
            return None;
        }
        let mut length = 0;
        // SAFETY: a string, with the lock. Its characters live as long as it.
        unsafe {
            let text = (self.python.PyUnicode_AsUTF8AndSize)(object, &mut length);
            if text.is_null() {
                (self.python.PyErr_Clear)();
                return None;
            }
            let bytes = core::slice::from_raw_parts(text, usize::try_from(length).ok()?);
            Some(clean(&String::from_utf8_lossy(bytes)))
        }
    }

    /// The entries of a dictionary: key and value.
    pub(crate) fn entries(&self, dict: Object, mut each: impl FnMut(Object, Object) -> bool) {
        let (mut at, mut key, mut value) = (0, 0, 0);
        // SAFETY: a dictionary that nothing changes meanwhile: the lock is held, and no code of the program runs.
        while unsafe { (self.python.PyDict_Next)(dict, &mut at, &mut key, &mut value) } != 0 {
            if !each(key, value) {
                break;
            }
        }
    }

    /// The attribute `__slots__` of an object that refers to `value`.
    pub(crate) fn slot_name(&self, object: Object, value: Object) -> Option<String> {
        let mut class = kind(object);
        // SAFETY: a live object's class and its bases live; members are an array that ends with a null name, at offsets in
        // the object.
        unsafe {
            while class != 0 && class != self.python.PyBaseObject_Type {
                let mut member = word(class, type_object::MEMBERS);
                while member != 0 && word(member, 0) != 0 {
                    let is_object = MEMBER_OBJECTS.contains(&((member + 8) as *const c_int).read());
                    let offset = word(member, 16);
                    if is_object && offset < 1 << 16 && word(object, offset) == value {
                        let name = CStr::from_ptr(word(member, 0) as *const c_char);
                        return Some(clean(&name.to_string_lossy()));
                    }
                    member += 40;
                }
                class = base(class);
            }
        }
        None
    }

    /// A new reference to the dictionary of an object that stores its attributes without one. Creates it, if it has none
    /// yet, as reading its `__dict__` does.
    pub(crate) fn attributes(&self, object: Object) -> Option<Object> {
        let flags = flags(kind(object));
        if flags & type_object::MANAGED_DICT == 0 {
            return None;
        }
        // SAFETY: a live object whose class says that it has a dictionary.
        let dict = unsafe { (self.python.PyObject_GenericGetDict)(object, core::ptr::null_mut()) };
        if dict == 0 {
            // SAFETY: with the lock.
            unsafe { (self.python.PyErr_Clear)() };
        }
        (dict != 0).then_some(dict)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: with the lock, and our own references.
        unsafe {
            if let Some(enable) = self.enable {
                let done = (self.python.PyObject_CallObject)(enable, 0);
                self.release(done);
                self.release(enable);
            }
            (self.python.PyErr_Clear)();
            let [kind, value, traceback] = self.errors;
            (self.python.PyErr_Restore)(kind, value, traceback);
            (self.python.PyGILState_Release)(self.lock);
        }
    }
}

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
pub(crate) fn base(class: Object) -> Object {
    // SAFETY: a live class.
    unsafe { word(class, type_object::BASE) }
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

/// Kinds of built-in classes that have a flag, or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `list`.
    List,
    /// `tuple`.
    Tuple,
    /// `dict`.
    Dict,
    /// `set` and `frozenset`.
    Set,
    /// `BaseException`.
    Exception,
    /// `type`.
    Type,
}

/// Whether a class is one of these or derives from it.
pub(crate) fn is_a(class: Object, of: Class) -> bool {
    if class == 0 {
        return false;
    }
    let bit = match of {
        Class::List => 25,
        Class::Tuple => 26,
        Class::Dict => 29,
        Class::Exception => 30,
        Class::Type => 31,
        Class::Set => return matches!(full_name(class).as_str(), "set" | "frozenset"),
    };
    flags(class) & 1 << bit != 0
}

/// The name of a class, as it stands in the class: with its module for classes that C code defines.
pub(crate) fn full_name(class: Object) -> String {
    // SAFETY: a live class has a name that ends with a zero.
    let name = unsafe {
        let name = word(class, type_object::NAME) as *const c_char;
        if name.is_null() {
            return String::new();
        }
        CStr::from_ptr(name)
    };
    clean(&name.to_string_lossy())
}

/// The name of a class without its module.
pub(crate) fn class_name(class: Object) -> String {
    let name = full_name(class);
    name.rsplit('.').next().unwrap_or(&name).to_owned()
}

/// The longest name that is printed, in characters.
const LONGEST: usize = 120;

/// Names are the program's: without control characters, and not endless.
pub(crate) fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(LONGEST).map(shown).collect()
}
