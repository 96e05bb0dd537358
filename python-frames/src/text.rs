//! Python strings to UTF-8.

use super::layout::{ObjectLayout, type_object};
use super::memory::{load, plausible};

/// The maximum number of characters of a name that are kept.
const LONGEST: usize = 4096;

/// Whether a type has `flag` set.
///
/// # Safety
/// `kind` is the type of a live Python object.
pub(crate) unsafe fn has_flag(kind: usize, flag: u64) -> bool {
    // SAFETY: every object's type is a live type object.
    plausible(kind) && unsafe { load::<u64>(kind, type_object::FLAGS) } & flag != 0
}

/// Appends the string `object` to `out` as UTF-8, cut to [`LONGEST`] characters. Lone surrogates (from file names that
/// are not UTF-8) become U+FFFD. False if it is not a string, if there is no memory, or if the interpreter is being
/// torn down.
///
/// # Safety
/// `object` is 0 or a Python object with the layout `layout` that is not modified and is live as long as
/// `is_finalizing` returns false.
pub(crate) unsafe fn append(
    layout: &ObjectLayout,
    object: usize,
    out: &mut Vec<u8>,
    is_finalizing: &impl Fn() -> bool,
) -> bool {
    if !plausible(object) {
        return false;
    }
    // SAFETY: promised by the caller.
    let kind: usize = unsafe { load(object, layout.kind) };
    // A pointer that was read from a freed string is not followed.
    // SAFETY: the object was live when its type was read.
    if is_finalizing() || !unsafe { has_flag(kind, type_object::IS_TEXT) } {
        return false;
    }
    // SAFETY: it is a string, so it has these fields.
    let (length, state): (usize, u32) = unsafe {
        (
            load(object, layout.text_len),
            load(object, layout.text_state),
        )
    };
    let (width, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    let data = match (compact, ascii) {
        (true, true) => object + layout.ascii_data,
        (true, false) => object + layout.compact_data,
        // SAFETY: strings that are not compact have a pointer there.
        (false, _) => match unsafe { load(object, layout.compact_data) } {
            _ if is_finalizing() => return false,
            pointer => pointer,
        },
    };
    let length = length.min(LONGEST);
    if data == 0 || out.try_reserve(length * 4).is_err() {
        return false;
    }
    if width == 1 && ascii {
        // SAFETY: the string has at least `length` bytes at `data`.
        out.extend_from_slice(unsafe { core::slice::from_raw_parts(data as *const u8, length) });
        return true;
    }
    for index in 0..length {
        // SAFETY: the string has at least `length` characters of this width at `data`.
        let character = unsafe {
            match width {
                1 => u32::from(load::<u8>(data, index)),
                2 => u32::from(load::<u16>(data, index * 2)),
                4 => load::<u32>(data, index * 4),
                _ => return false,
            }
        };
        let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    true
}
