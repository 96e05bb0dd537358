//! The functions and types of CPython's C API that a walk uses, and the lock under which it uses them.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;
use core::mem::transmute;

use gpumem_python_frames::{Runtime, symbol};

use crate::names::{LONGEST, clean, is_program};
use crate::object::{Object, kind, word};

/// A function that the interpreter calls with each object of its collector. 0 ends it.
pub(crate) type Each = unsafe extern "C" fn(Object, *mut c_void) -> c_int;

/// A function that the interpreter calls with its lock. It returns 0.
pub type Called = extern "C-unwind" fn(*mut c_void) -> c_int;

/// Adds a call that the main thread makes. False if there is no room for it.
pub(crate) fn call_soon(function: Called) -> bool {
    type Add = unsafe extern "C-unwind" fn(Called, *mut c_void) -> c_int;
    let Some(add) = symbol(c"Py_AddPendingCall") else {
        return false;
    };
    // SAFETY: `Py_AddPendingCall` has had this type since 2.7. It needs no lock.
    let add = unsafe { transmute::<usize, Add>(add) };
    // SAFETY: the function ignores its argument.
    unsafe { add(function, core::ptr::null_mut()) == 0 }
}

macro_rules! python {
    ($($(#[$of:meta])* $name:ident: fn($($argument:ty),*) -> $result:ty,)* ; types $($kind:ident,)*) => {
        /// The interpreter's functions and types.
        #[allow(non_snake_case)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Python {
            $($(#[$of])* pub(crate) $name: unsafe extern "C-unwind" fn($($argument),*) -> $result,)*
            $(pub(crate) $kind: Object,)*
            /// `PyUnstable_GC_VisitObjects`: from 3.12 on.
            pub(crate) visit: Option<unsafe extern "C-unwind" fn(Each, *mut c_void)>,
            current: unsafe extern "C-unwind" fn() -> usize,
        }

        impl Python {
            /// None if a function or a type is missing.
            fn look_up() -> Option<Self> {
                let address = |name: &str| {
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
                    symbol(name)
                };
                let current = address("PyThreadState_GetUnchecked\0");
                let current = current.or_else(|| address("_PyThreadState_UncheckedGet\0"))?;
                Some(Self {
                    // SAFETY: the functions have had these types from 3.8 to 3.14.
                    $($name: unsafe {
                        transmute::<usize, unsafe extern "C-unwind" fn($($argument),*) -> $result>(address(concat!(stringify!($name), "\0"))?)
                    },)*
                    $($kind: address(concat!(stringify!($kind), "\0"))?,)*
                    // SAFETY: as above.
                    visit: address("PyUnstable_GC_VisitObjects\0").map(|function| unsafe {
                        transmute::<usize, unsafe extern "C-unwind" fn(Each, *mut c_void)>(function)
                    }),
                    // SAFETY: as above.
                    current: unsafe { transmute::<usize, unsafe extern "C-unwind" fn() -> usize>(current) },
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
    PyImport_GetModuleDict: fn() -> Object,
    PyModule_GetDict: fn(Object) -> Object,
    PyDict_GetItemString: fn(Object, *const c_char) -> Object,
    PyDict_Next: fn(Object, *mut isize, *mut Object, *mut Object) -> c_int,
    PyDict_Size: fn(Object) -> isize,
    PyObject_GetAttr: fn(Object, Object) -> Object,
    PyUnicode_InternFromString: fn(*const c_char) -> Object,
    PyObject_GC_Track: fn(*mut c_void) -> (),
    PyObject_GC_UnTrack: fn(*mut c_void) -> (),
    Py_DecRef: fn(Object) -> (),
    PyList_Size: fn(Object) -> isize,
    PyList_GetItem: fn(Object, isize) -> Object,
    PyTuple_Size: fn(Object) -> isize,
    PyTuple_GetItem: fn(Object, isize) -> Object,
    PyLong_AsLongLongAndOverflow: fn(Object, *mut c_int) -> i64,
    PyBytes_AsStringAndSize: fn(Object, *mut *mut c_char, *mut isize) -> c_int,
    PyUnicode_GetLength: fn(Object) -> isize,
    PyUnicode_ReadChar: fn(Object, isize) -> u32,
    PyCode_Addr2Line: fn(Object, c_int) -> c_int,
    PyIter_Check: fn(Object) -> c_int,
    PyFunction_GetCode: fn(Object) -> Object,
    PyFunction_GetClosure: fn(Object) -> Object,
    PyFunction_GetDefaults: fn(Object) -> Object,
    PyFunction_GetKwDefaults: fn(Object) -> Object,
    PyInterpreterState_Main: fn() -> usize,
    PyInterpreterState_Head: fn() -> usize,
    PyInterpreterState_ThreadHead: fn(usize) -> usize,
    PyThreadState_Next: fn(usize) -> usize,
    ; types
    PyModule_Type,
    PyDict_Type,
    PyUnicode_Type,
    PyLong_Type,
    PyList_Type,
    PySet_Type,
    PyFrozenSet_Type,
    PyFunction_Type,
    PyMethod_Type,
    PyCell_Type,
    PyFrame_Type,
    PyTraceBack_Type,
    PyGen_Type,
    PyCoro_Type,
    PyAsyncGen_Type,
    PyType_Type,
}

/// The offset of the interpreter in a thread's state.
const INTERPRETER: usize = 16;
/// The longest path of a file, in characters.
const LONGEST_PATH: isize = 4096;

/// With the interpreter's lock, and no exception set. The exception is as before once it is dropped.
///
/// What is done under it creates no object of the collector, which therefore does not run, raises no audit event and
/// calls no code of the program.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    pub(crate) python: Python,
    pub(crate) runtime: &'a Runtime,
    errors: [Object; 3],
    _lock: PhantomData<&'a Lock>,
}

/// A reference of ours, such as that to an attribute.
pub(crate) struct Attribute<'a> {
    locked: &'a Locked<'a>,
    pub(crate) object: Object,
}

impl Attribute<'_> {
    /// The bytes of a bytes object; none of another one.
    pub(crate) fn bytes(&self) -> &[u8] {
        let python = &self.locked.python;
        let (mut bytes, mut length) = (core::ptr::null_mut(), 0);
        // SAFETY: a live object, with the lock; its bytes never change, and live as long as the reference.
        unsafe {
            if (python.PyBytes_AsStringAndSize)(self.object, &raw mut bytes, &raw mut length) != 0 {
                (python.PyErr_Clear)();
                return &[];
            }
            core::slice::from_raw_parts(bytes.cast(), length as usize)
        }
    }
}

impl Drop for Attribute<'_> {
    fn drop(&mut self) {
        // SAFETY: a reference of ours, with the lock.
        unsafe { (self.locked.python.Py_DecRef)(self.object) };
    }
}

/// The interpreter's lock. Released when dropped.
#[derive(Debug)]
pub struct Lock {
    python: Python,
    runtime: &'static Runtime,
    lock: c_int,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the lock that was taken, on the same thread: the type is not sent to others.
        unsafe { (self.python.PyGILState_Release)(self.lock) };
    }
}

impl Lock {
    /// Takes the lock. None if the thread has no state in the main interpreter, or runs code of another one.
    ///
    /// If the interpreter begins to end while this waits for the lock, this does not return: the interpreter ends the
    /// thread, which unwinds the callers, or stops it for good. So it must not be called within a function that catches
    /// panics, or with values that must be dropped.
    pub(crate) fn take(runtime: &'static Runtime) -> Option<Self> {
        let python = Python::look_up()?;
        // SAFETY: these need no lock. The thread's own state lives.
        unsafe {
            let own = (python.PyGILState_GetThisThreadState)();
            let main = (python.PyInterpreterState_Main)();
            if own == 0 || main == 0 || word(own, INTERPRETER) != main {
                return None;
            }
            // Another state of this thread may have the lock, which would never become free. Up to 3.11 the current
            // state can be that of another thread.
            let current = (python.current)();
            let is_of_thread = runtime.version().minor() >= (3, 12);
            let is_alone = (python.PyInterpreterState_Head)() == main;
            if current != 0 && current != own && (is_of_thread || !is_alone) {
                return None;
            }
        }
        Some(Self {
            python,
            runtime,
            // SAFETY: the thread has a state.
            lock: unsafe { (python.PyGILState_Ensure)() },
            _thread: PhantomData,
        })
    }
}

impl<'a> Locked<'a> {
    /// Sets the current exception aside, until this is dropped.
    pub(crate) fn of(lock: &'a Lock) -> Self {
        let mut locked = Self {
            python: lock.python,
            runtime: lock.runtime,
            errors: [0; 3],
            _lock: PhantomData,
        };
        let [kind, value, traceback] = &mut locked.errors;
        // SAFETY: with the lock.
        unsafe { (locked.python.PyErr_Fetch)(kind, value, traceback) };
        locked
    }

    /// The qualified name of a function, as text.
    pub(crate) fn function_name(&self, function: Object) -> String {
        let name = self.attribute(function, c"__qualname__");
        let text = name.and_then(|name| self.text(name.object));
        text.unwrap_or_default().replace("<locals>.", "")
    }

    /// An attribute of a live function, code object or future of C code: these run no code of the program.
    pub(crate) fn attribute(&self, object: Object, name: &CStr) -> Option<Attribute<'_>> {
        // The class has this string already. Classes remember the strings of queries, by address.
        // SAFETY: with the lock.
        let name =
            self.owned(unsafe { (self.python.PyUnicode_InternFromString)(name.as_ptr()) })?;
        // SAFETY: live objects, with the lock.
        self.owned(unsafe { (self.python.PyObject_GetAttr)(object, name.object) })
    }

    /// A new reference; None if there was an error.
    fn owned(&self, object: Object) -> Option<Attribute<'_>> {
        if object == 0 {
            // SAFETY: with the lock.
            unsafe { (self.python.PyErr_Clear)() };
            return None;
        }
        Some(Attribute {
            locked: self,
            object,
        })
    }

    /// The characters of a string that is printed; None for another object.
    pub(crate) fn text(&self, object: Object) -> Option<String> {
        let characters = self.characters(object, LONGEST as isize + 1)?;
        Some(clean(characters))
    }

    /// The path of a file; None for another object than a string.
    pub(crate) fn path(&self, object: Object) -> Option<String> {
        Some(self.characters(object, LONGEST_PATH)?.collect())
    }

    fn characters(&self, object: Object, most: isize) -> Option<impl Iterator<Item = char>> {
        if object == 0 || kind(object) != self.python.PyUnicode_Type {
            return None;
        }
        let read = self.python.PyUnicode_ReadChar;
        // SAFETY: a live string, with the lock, and places in it.
        let length = unsafe { (self.python.PyUnicode_GetLength)(object) }.min(most);
        // SAFETY: as above.
        let characters = (0..length).map(move |at| unsafe { read(object, at) });
        // One half of a pair alone is no character.
        Some(characters.map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)))
    }

    /// The strings of a tuple.
    pub(crate) fn texts(&self, tuple: Object) -> Vec<String> {
        // SAFETY: a tuple, with the lock; its entries are borrowed.
        unsafe {
            let length = (self.python.PyTuple_Size)(tuple);
            (0..length)
                .map(|at| (self.python.PyTuple_GetItem)(tuple, at))
                .map(|text| self.text(text).unwrap_or_default())
                .collect()
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

    /// Whether a namespace is that of a module whose file is the program's.
    pub(crate) fn is_own_namespace(&self, namespace: Object) -> bool {
        let file = self.path(self.entry(namespace, c"__file__"));
        file.is_some_and(|file| is_program(&file))
    }

    /// The name of the module of a namespace.
    pub(crate) fn module_name(&self, namespace: Object) -> Option<String> {
        self.text(self.entry(namespace, c"__name__"))
    }

    /// A borrowed object in a namespace; 0 if it has no such object.
    pub(crate) fn entry(&self, namespace: Object, name: &CStr) -> Object {
        if kind(namespace) != self.python.PyDict_Type {
            return 0;
        }
        // SAFETY: a dictionary, with the lock.
        unsafe { (self.python.PyDict_GetItemString)(namespace, name.as_ptr()) }
    }

    /// The number of an integer object; None if it is too large.
    pub(crate) fn number(&self, object: Object) -> Option<i64> {
        let mut overflow = 0;
        // SAFETY: an integer, with the lock; no exception is set.
        let number =
            unsafe { (self.python.PyLong_AsLongLongAndOverflow)(object, &raw mut overflow) };
        (overflow == 0).then_some(number)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: with the lock, and our own references.
        unsafe {
            let [kind, value, traceback] = self.errors;
            (self.python.PyErr_Restore)(kind, value, traceback);
        }
    }
}
