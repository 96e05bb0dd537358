//! Thread-local storage with the initial-exec model: the address is one addition away. A library's ordinary
//! thread-local variables cost a call into the loader at each access. A preloaded library always has room for
//! initial-exec variables. They have no destructor; [`ThreadEnd`] registers what runs at the end of a thread.

use core::ffi::c_void;
use std::sync::OnceLock;

/// Declares a zero-initialised value for each thread, and a function that returns its address. The value has no
/// destructor: it exists before the first and after the last line of a thread's own code.
#[macro_export]
macro_rules! thread_static {
    ($(#[$doc:meta])* fn $name:ident() -> $type:ty as $symbol:literal;) => {
        core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", @object"),
            concat!(".size ", $symbol, ", {size}"),
            ".balign {align}",
            concat!($symbol, ":"),
            ".zero {size}",
            ".popsection",
            size = const size_of::<$type>(),
            align = const align_of::<$type>(),
        );

        $(#[$doc])*
        #[inline(always)]
        fn $name() -> *mut $type {
            let place: *mut $type;
            // SAFETY: the value is in this thread's static thread-local storage, whose address fs:0
            // holds. What is read never changes on a thread: so one reading serves a whole function.
            unsafe {
                core::arch::asm!(
                    "mov {place}, fs:[0]",
                    concat!("add {place}, [rip + ", $symbol, "@GOTTPOFF]"),
                    place = out(reg) place,
                    options(nostack, nomem, pure),
                );
            }
            place
        }
    };
}
/// A function that runs at the end of each thread that registers it.
pub struct ThreadEnd {
    /// Created on first use; None if there are no more keys.
    key: OnceLock<Option<libc::pthread_key_t>>,
    run: unsafe extern "C" fn(*mut c_void),
}

impl ThreadEnd {
    /// `run` gets the pointer that the thread registered.
    pub const fn new(run: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self {
            key: OnceLock::new(),
            run,
        }
    }

    /// Calls `run` once with `what`, which is not null, when the calling thread ends. If the thread's own
    /// destructors register again after that, `run` is called once more.
    #[cold]
    pub fn ask<T>(&self, what: *const T) {
        let key = *self.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `key` is valid for writing; the destructor is never unloaded with this library, as a
            // preloaded library stays.
            (unsafe { libc::pthread_key_create(&raw mut key, Some(self.run)) } == 0).then_some(key)
        });
        if let Some(key) = key {
            // SAFETY: the key exists; its destructor takes the pointer that was registered.
            unsafe { libc::pthread_setspecific(key, what.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    thread_static! {
        /// Three words.
        fn words() -> [u64; 3] as "gpumem_test_words";
    }

    #[test]
    fn every_thread_has_its_own() {
        let mine = words();
        // SAFETY: the value is this thread's alone.
        unsafe {
            assert_eq!(*mine, [0; 3]);
            *mine = [1, 2, 3];
        }
        let theirs = std::thread::spawn(|| {
            let place = words();
            // SAFETY: as above.
            unsafe {
                assert_eq!(*place, [0; 3]);
                (*place)[1] = 7;
            }
            place as usize
        });
        assert_ne!(theirs.join().unwrap(), mine as usize);
        // SAFETY: as above.
        assert_eq!(unsafe { *words() }, [1, 2, 3]);
    }
}
