//! Python strings to UTF-8.

use super::layout::{ObjectLayout, type_object};
use super::memory::{load, plausible};

/// Characters of a name that are kept.
const LONGEST: usize = 4096;

/// Whether the object's type has `flag` set.
///
/// # Safety
/// `object` is a live Python object, laid out as `layout` says.
pub(super) unsafe fn has_type_flag(layout: &ObjectLayout, object: usize, flag: u64) -> bool {
    // SAFETY: promised by the caller; every object's type is a live type object.
    unsafe {
        let kind: usize = load(object, layout.kind);
        plausible(kind) && load::<u64>(kind, type_object::FLAGS) & flag != 0
    }
}

/// Appends the string `object` to `out` as UTF-8, cut to [`LONGEST`] characters; lone surrogates (from
/// file names that are not UTF-8) become U+FFFD. False if it is no string or there is no memory.
///
/// # Safety
/// `object` is 0 or a live Python object, laid out as `layout` says, that nobody changes.
pub(super) unsafe fn append(layout: &ObjectLayout, object: usize, out: &mut Vec<u8>) -> bool {
    // SAFETY: promised by the caller.
    if !plausible(object) || !unsafe { has_type_flag(layout, object, type_object::IS_TEXT) } {
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
        (false, _) => unsafe { load(object, layout.compact_data) },
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
