//! Wraps a `std::function` of the program in a gpumem function that observes its calls.

use core::ffi::c_void;

use crate::function::FUNCTION_BYTES;

/// Operations that libstdc++ requests from a function's manager.
const TYPE: u32 = 0;
const CLONE: u32 = 2;
const DESTROY: u32 = 3;

type Manager = unsafe extern "C-unwind" fn(*mut [u64; 2], *const [u64; 2], u32) -> bool;

/// A `std::function` of libstdc++, of any type.
#[repr(C)]
struct Raw {
    data: [u64; 2],
    /// None if it is empty.
    manager: Option<Manager>,
    invoker: *const c_void,
}

const _: () = assert!(size_of::<Raw>() == FUNCTION_BYTES);

/// The program's function, and the data for the wrapper's calls.
pub struct Wrapped<T> {
    inner: Raw,
    /// The data for the wrapper.
    pub known: T,
}

impl<T: Clone> Wrapped<T> {
    /// Replaces the program's function with one that calls `invoker`. `invoker` gets the arguments of the program's
    /// function, with data that [`Wrapped::of`] converts to this struct. Returns whether there was a function.
    ///
    /// # Safety
    /// `place` holds a `std::function` that its owner continues to use, and `invoker` has its type.
    pub unsafe fn put(place: u64, known: T, invoker: *const c_void) -> bool {
        let place = place as *mut Raw;
        // SAFETY: the caller's promise; libstdc++ itself moves a function by its words.
        unsafe {
            if (*place).manager.is_none() {
                return false;
            }
            let inner = place.read();
            let wrapped = Box::into_raw(Box::new(Self { inner, known }));
            place.write(Raw {
                data: [wrapped as u64, 0],
                manager: Some(manage::<T>),
                invoker,
            });
        }
        true
    }

    /// The wrapper behind a function's data.
    ///
    /// # Safety
    /// They are the data that an `invoker` was called with.
    pub unsafe fn of<'a>(data: *const c_void) -> &'a Self {
        // SAFETY: the first word is the address of the box, which lives while its function is called.
        unsafe { &**data.cast::<*const Self>() }
    }

    /// Calls the program's function with one argument, which is passed by address.
    ///
    /// # Safety
    /// It has a type that takes one argument and returns a bool.
    pub unsafe fn call(&self, argument: *const c_void) -> bool {
        type Call = unsafe extern "C-unwind" fn(*const [u64; 2], *const c_void) -> bool;
        // SAFETY: libstdc++ calls a function so; the caller says that its type is this one.
        unsafe {
            let call: Call = core::mem::transmute(self.inner.invoker);
            call(&raw const self.inner.data, argument)
        }
    }
}

/// Copies and destroys the wrapper, and with it the program's function.
unsafe extern "C-unwind" fn manage<T: Clone>(
    to: *mut [u64; 2],
    from: *const [u64; 2],
    what: u32,
) -> bool {
    // SAFETY: libstdc++ passes the places of two functions' data; ours has the address of its box.
    unsafe {
        match what {
            TYPE => to.write([0; 2]),
            CLONE => {
                let wrapped = &*((*from)[0] as *const Wrapped<T>);
                let mut inner = Raw {
                    data: [0; 2],
                    ..wrapped.inner
                };
                if let Some(manager) = inner.manager {
                    manager(&raw mut inner.data, &raw const wrapped.inner.data, CLONE);
                }
                let known = wrapped.known.clone();
                let copy = Box::into_raw(Box::new(Wrapped { inner, known }));
                to.write([copy as u64, 0]);
            }
            DESTROY => {
                let mut wrapped = Box::from_raw((*to)[0] as *mut Wrapped<T>);
                if let Some(manager) = wrapped.inner.manager {
                    let data = &raw mut wrapped.inner.data;
                    manager(data, data, DESTROY);
                }
            }
            // Requests for the address of the data do not occur.
            _ => to.write([0; 2]),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The number of live functions of the program.
    static ALIVE: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C-unwind" fn own(to: *mut [u64; 2], from: *const [u64; 2], what: u32) -> bool {
        match what {
            CLONE => {
                // SAFETY: both are places of data.
                unsafe { to.write(from.read()) };
                ALIVE.fetch_add(1, Ordering::Relaxed);
            }
            DESTROY => drop(ALIVE.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        false
    }

    unsafe extern "C-unwind" fn is_even(data: *const [u64; 2], number: *const u64) -> bool {
        // SAFETY: the test passes both.
        unsafe { *data == [7, 8] && (*number).is_multiple_of(2) }
    }

    static HEARD: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C-unwind" fn heard(data: *const c_void, number: *const c_void) -> bool {
        // SAFETY: it is called with the data of a wrapped function of one argument.
        unsafe {
            let wrapped = Wrapped::<u64>::of(data);
            HEARD.store(wrapped.known, Ordering::Relaxed);
            wrapped.call(number)
        }
    }

    /// Calls a function as libstdc++ does.
    fn call(function: &Raw, number: u64) -> bool {
        type Call = unsafe extern "C-unwind" fn(*const [u64; 2], *const u64) -> bool;
        // SAFETY: both functions of this test are of this type.
        unsafe {
            let call: Call = core::mem::transmute(function.invoker);
            call(&raw const function.data, &raw const number)
        }
    }

    fn ask(function: &mut Raw, from: *const [u64; 2], what: u32) {
        // SAFETY: as libstdc++ calls it.
        unsafe { function.manager.unwrap()(&raw mut function.data, from, what) };
    }

    #[test]
    fn ours_hears_of_calls_and_ends_with_the_programs() {
        ALIVE.store(1, Ordering::Relaxed);
        let mut function = Raw {
            data: [7, 8],
            manager: Some(own),
            invoker: is_even as *const c_void,
        };
        let place = (&raw mut function) as u64;
        // SAFETY: it is a function of this type.
        assert!(unsafe { Wrapped::put(place, 42_u64, heard as *const c_void) });
        assert!(call(&function, 4) && !call(&function, 5));
        assert_eq!(HEARD.load(Ordering::Relaxed), 42);

        let mut copy = Raw {
            data: [0; 2],
            ..function
        };
        ask(&mut copy, &raw const function.data, CLONE);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 2);
        let own_data = &raw const function.data;
        ask(&mut function, own_data, DESTROY);
        assert!(call(&copy, 4) && ALIVE.load(Ordering::Relaxed) == 1);
        let own_data = &raw const copy.data;
        ask(&mut copy, own_data, DESTROY);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_empty_function_stays_empty() {
        let mut function = Raw {
            data: [0; 2],
            manager: None,
            invoker: core::ptr::null(),
        };
        let place = (&raw mut function) as u64;
        // SAFETY: it is a function, and is not called.
        assert!(!unsafe { Wrapped::put(place, 1_u64, heard as *const c_void) });
        assert!(function.manager.is_none());
    }
}
