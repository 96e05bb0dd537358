//! The functions in NVTX's tables: one for each call that begins, ends or names a range. Each calls the
//! function that another tool had installed there, if any, and returns that one's result to the program.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::borrow::Cow;

use super::module::Module;
use super::ranges;
use super::state::NVTX;
use crate::thread;

/// The common type for all functions of the tables. They have at most two arguments. Each argument and the
/// result are passed in one word.
type Function = unsafe extern "C-unwind" fn(u64, u64) -> u64;

/// `NVTX_NO_PUSH_POP_TRACKING`: the result without a tool.
const NO_TRACKING: u64 = -2i32 as u32 as u64;

/// Set in the numbers that we assign to ranges, domains and strings.
const OURS: u64 = 1 << 62;

fn slot(module: Module, id: usize) -> Option<&'static AtomicUsize> {
    let row = match module {
        Module::Core => NVTX.theirs.first(),
        Module::Core2 => NVTX.theirs.last(),
    };
    row?.get(id)
}

/// Stores another tool's function that ours replaces.
pub(super) fn set_theirs(module: Module, id: usize, function: usize) {
    if let Some(slot) = slot(module, id) {
        slot.store(function, Ordering::Release);
    }
}

/// The result of another tool's function; None without one.
///
/// # Safety
/// The arguments are the program's, for this function.
unsafe fn theirs(module: Module, id: usize, a: u64, b: u64) -> Option<u64> {
    let function = slot(module, id)?.load(Ordering::Acquire);
    if function == 0 {
        return None;
    }
    // SAFETY: the tool has put it into the table as this function, which takes and gives such words.
    Some(unsafe { core::mem::transmute::<usize, Function>(function)(a, b) })
}

/// A new, unique number.
fn new_number() -> u64 {
    OURS | (NVTX.handed_out.fetch_add(1, Ordering::Relaxed) + 1)
}

/// A text of `char`; None for null.
///
/// # Safety
/// `address` is 0 or that of a NUL-terminated text.
unsafe fn narrow<'a>(address: u64) -> Option<Cow<'a, [u8]>> {
    // SAFETY: promised by the caller.
    (address != 0)
        .then(|| Cow::Borrowed(unsafe { CStr::from_ptr(address as *const c_char) }.to_bytes()))
}

/// A text of `wchar_t`, which has four bytes; None for null.
///
/// # Safety
/// `address` is 0 or that of such a text, which ends with a NUL.
unsafe fn wide<'a>(address: u64) -> Option<Cow<'a, [u8]>> {
    let mut place = address as *const u32;
    if place.is_null() {
        return None;
    }
    let mut text = String::new();
    while text.len() < crate::names::LONGEST {
        // SAFETY: the NUL has not been met, so another character follows.
        match unsafe { place.read_unaligned() } {
            0 => break,
            value => text.push(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
        // SAFETY: as above.
        place = unsafe { place.add(1) };
    }
    Some(Cow::Owned(text.into_bytes()))
}

/// The message of an `nvtxEventAttributes_t`.
///
/// # Safety
/// `address` is 0 or that of such a structure.
unsafe fn message<'a>(address: u64) -> Option<Cow<'a, [u8]>> {
    /// Bytes of a structure that has a message.
    const SIZE: u16 = 48;
    const SIZE_AT: usize = 2;
    const KIND_AT: usize = 32;
    const VALUE_AT: usize = 40;
    const NARROW: i32 = 1;
    const WIDE: i32 = 2;
    const REGISTERED: i32 = 3;
    let start = address as *const u8;
    if start.is_null() {
        return None;
    }
    // SAFETY: the structure says itself how long it is; the offsets are those of its only version.
    unsafe {
        if start.add(SIZE_AT).cast::<u16>().read_unaligned() < SIZE {
            return None;
        }
        let value = start.add(VALUE_AT).cast::<u64>().read_unaligned();
        match start.add(KIND_AT).cast::<i32>().read_unaligned() {
            NARROW => narrow(value),
            WIDE => wide(value),
            REGISTERED => ranges::registered(value).map(Cow::Owned),
            _ => None,
        }
    }
}

/// Reads a text that the program passed.
type Read = unsafe fn(u64) -> Option<Cow<'static, [u8]>>;

/// Begins a range of this thread in a domain (0: the default one).
///
/// # Safety
/// `text` has the type that `read` expects.
unsafe fn push(domain: u64, read: Read, text: u64) {
    let _ = thread::in_hook(|thread| {
        // SAFETY: promised by the caller.
        let name = unsafe { read(text) };
        ranges::push(thread, domain, name.as_deref().unwrap_or_default());
    });
}

/// Begins a range that any thread may end.
///
/// # Safety
/// As [`push`].
unsafe fn start(number: u64, read: Read, text: u64) {
    let _ = thread::in_hook(|thread| {
        // SAFETY: promised by the caller.
        let name = unsafe { read(text) };
        ranges::start(thread, number, name.as_deref().unwrap_or_default());
    });
}

/// Keeps a text under a number.
///
/// # Safety
/// As [`push`].
unsafe fn register(number: u64, read: Read, text: u64) {
    let _ = thread::in_hook(|_| {
        // SAFETY: promised by the caller.
        if let Some(text) = unsafe { read(text) } {
            ranges::register(number, &text);
        }
    });
}

macro_rules! callbacks {
    ($($name:ident: $module:ident $id:literal, ($a:ident, $b:ident, $theirs:ident) $body:block)*) => {
        $(
            /// # Safety
            /// The requirements of the NVTX function that it replaces.
            unsafe extern "C-unwind" fn $name($a: u64, $b: u64) -> u64 {
                // SAFETY: the program's own arguments.
                let $theirs = || unsafe { theirs(Module::$module, $id, $a, $b) };
                // SAFETY: as above: texts and structures are what NVTX says that they are.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*

        /// Our function for the function with that number in a module's table.
        pub(super) fn ours(module: Module, id: usize) -> Option<usize> {
            $(
                if module == Module::$module && id == $id {
                    return Some($name as *const () as usize);
                }
            )*
            None
        }
    };
}

callbacks! {
    range_start_ex: Core 4, (attributes, unused, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        start(number, message, attributes);
        number
    }
    range_start_a: Core 5, (text, unused, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        start(number, narrow, text);
        number
    }
    range_start_w: Core 6, (text, unused, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        start(number, wide, text);
        number
    }
    range_end: Core 7, (number, unused, theirs) {
        let _ = thread::in_hook(|thread| ranges::end(thread, number));
        theirs().unwrap_or(0)
    }
    range_push_ex: Core 8, (attributes, unused, theirs) {
        push(0, message, attributes);
        theirs().unwrap_or(NO_TRACKING)
    }
    range_push_a: Core 9, (text, unused, theirs) {
        push(0, narrow, text);
        theirs().unwrap_or(NO_TRACKING)
    }
    range_push_w: Core 10, (text, unused, theirs) {
        push(0, wide, text);
        theirs().unwrap_or(NO_TRACKING)
    }
    range_pop: Core 11, (unused, unused_too, theirs) {
        let _ = thread::in_hook(|thread| ranges::pop(thread, 0));
        theirs().unwrap_or(NO_TRACKING)
    }
    domain_range_start_ex: Core2 2, (domain, attributes, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        start(number, message, attributes);
        number
    }
    domain_range_end: Core2 3, (domain, number, theirs) {
        let _ = thread::in_hook(|thread| ranges::end(thread, number));
        theirs().unwrap_or(0)
    }
    domain_range_push_ex: Core2 4, (domain, attributes, theirs) {
        push(domain, message, attributes);
        theirs().unwrap_or(NO_TRACKING)
    }
    domain_range_pop: Core2 5, (domain, unused, theirs) {
        let _ = thread::in_hook(|thread| ranges::pop(thread, domain));
        theirs().unwrap_or(NO_TRACKING)
    }
    domain_register_string_a: Core2 10, (domain, text, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        register(number, narrow, text);
        number
    }
    domain_register_string_w: Core2 11, (domain, text, theirs) {
        let number = theirs().unwrap_or_else(new_number);
        register(number, wide, text);
        number
    }
    domain_create_a: Core2 12, (name, unused, theirs) {
        theirs().unwrap_or_else(new_number)
    }
    domain_create_w: Core2 13, (name, unused, theirs) {
        theirs().unwrap_or_else(new_number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::module::MOST;
    use super::*;

    #[test]
    fn messages_are_read_in_all_three_forms() {
        let text = c"a step";
        let wide_text = ['g', 'r', 'ö', 'ß', 'e', '\0'].map(u32::from);
        let attributes = |kind: i32, value: u64, size: u16| {
            let mut bytes = [0u8; 48];
            bytes[..2].copy_from_slice(&2u16.to_le_bytes());
            bytes[2..4].copy_from_slice(&size.to_le_bytes());
            bytes[32..36].copy_from_slice(&kind.to_le_bytes());
            bytes[40..].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        let of = |kind, value, size| {
            let bytes = attributes(kind, value, size);
            // SAFETY: laid out as NVTX's structure.
            unsafe { message(bytes.as_ptr() as u64) }.map(Cow::into_owned)
        };
        assert_eq!(
            of(1, text.as_ptr() as u64, 48).as_deref(),
            Some(&b"a step"[..])
        );
        assert_eq!(
            of(2, wide_text.as_ptr() as u64, 48).as_deref(),
            Some("größe".as_bytes())
        );
        ranges::register(77, b"known");
        assert_eq!(of(3, 77, 48).as_deref(), Some(&b"known"[..]));
        assert_eq!(of(3, 78, 48), None);
        assert_eq!(of(0, text.as_ptr() as u64, 48), None);
        assert_eq!(of(1, text.as_ptr() as u64, 40), None);
        assert_eq!(of(1, 0, 48), None);
    }

    #[test]
    fn each_number_has_one_function() {
        let mut seen = std::collections::HashSet::new();
        for module in [Module::Core, Module::Core2] {
            for id in 0..MOST {
                if let Some(function) = ours(module, id) {
                    assert!(seen.insert(function));
                }
            }
        }
        assert_eq!(seen.len(), 16);
    }
}
