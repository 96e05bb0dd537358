//! Code objects: their identity, names and line tables.

use super::layout::{Layout, type_object};
use super::memory::{load, plausible};
use super::text;

/// Longest line table that is kept, in bytes.
const LONGEST_TABLE: usize = 1 << 20;

/// The interpreter's own number of a code object. 0 before 3.12, for the interpreter's internal code objects, and for
/// all that are created after the numbers have run out.
///
/// # Safety
/// `code` is a live code object with the layout `layout`.
#[inline(always)]
pub(crate) unsafe fn number(layout: &Layout, code: usize) -> u32 {
    // SAFETY: promised by the caller.
    layout
        .code
        .version
        .map_or(0, |at| unsafe { load(code, at) })
}

/// Distinguishes the code objects that have lived at the address `code` one after the other: an address is reused as
/// soon as a function is freed.
///
/// It is the [`number`] in the low bits and the number of the `interpreter` above it, because another interpreter may
/// reuse the memory of one that has ended and count from the start again. Without a number it is a hash over the
/// addresses of its names and line table and their first bytes; 20,000 functions created and dropped at one address all
/// differed.
///
/// # Safety
/// `code` is a live code object with the layout `layout`.
#[inline(always)]
pub(crate) unsafe fn identity(layout: &Layout, code: usize, number: u32, interpreter: u64) -> u64 {
    if number != 0 {
        numbered(number, interpreter)
    } else {
        // SAFETY: promised by the caller.
        unsafe { fingerprint(layout, code) }
    }
}

/// [`identity`] of code with a number.
#[inline(always)]
pub(crate) fn numbered(number: u32, interpreter: u64) -> u64 {
    u64::from(number) | interpreter << 32
}

/// # Safety
/// As [`identity`].
unsafe fn fingerprint(layout: &Layout, code: usize) -> u64 {
    let object = &layout.object;
    // SAFETY: promised by the caller; the three are objects of the code object, which holds them, and
    // each is at least a string's or bytes' header long.
    unsafe {
        let file: usize = load(code, layout.code.file);
        let name: usize = load(code, layout.code.qualified_name.unwrap_or(layout.code.name));
        let table: usize = load(code, layout.code.line_table);
        let first_line: u32 = load(code, layout.code.first_line);
        let text = |text: usize| -> (u64, u64) {
            if plausible(text) {
                (load(text, object.text_hash), load(text, object.text_len))
            } else {
                (0, 0)
            }
        };
        let (file_hash, file_len) = text(file);
        let (name_hash, name_len) = text(name);
        let (mut table_len, mut begin, mut end) = (0, 0, 0);
        if plausible(table) {
            table_len = load::<usize>(table, object.bytes_len);
            if (8..LONGEST_TABLE).contains(&table_len) {
                begin = load(table, object.bytes_data);
                end = load(table, object.bytes_data + table_len - 8);
            }
        }
        // Three independent products.
        let lengths = file_len << 40 ^ name_len << 20 ^ table_len as u64;
        mix(
            file as u64 ^ file_hash,
            (name as u64).rotate_left(32) ^ name_hash,
        ) ^ mix(table as u64 ^ u64::from(first_line) << 40, lengths).rotate_left(21)
            ^ mix(begin, end).rotate_left(42)
    }
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xc2b2_ae3d_27d4_eb4f);
    (product as u64) ^ (product >> 64) as u64
}

/// The names and the line table of a code object.
#[derive(Debug)]
pub struct CodeText<'a> {
    /// `co_filename`, UTF-8.
    pub file: &'a [u8],
    /// `co_qualname` from 3.11, before that `co_name`; UTF-8.
    pub name: &'a [u8],
    /// `co_firstlineno`.
    pub first_line: u32,
    /// `co_lnotab` to 3.9, `co_linetable` from 3.10: as the interpreter holds it.
    pub line_table: &'a [u8],
}

/// Reads a code object. The names are written to `scratch`, which is emptied first. Invalid fields are empty. None if
/// the interpreter ends meanwhile: CPython 3.14 frees interned names then, including those of code objects that stay
/// alive.
///
/// # Safety
/// `code` is a live code object with the layout `layout`, and lives as long as the result. Its names do so as long as
/// `is_finalizing`, which queries the interpreter, returns false.
pub(crate) unsafe fn read<'a>(
    layout: &Layout,
    code: usize,
    scratch: &'a mut Vec<u8>,
    is_finalizing: impl Fn() -> bool,
) -> Option<CodeText<'a>> {
    let at = &layout.code;
    scratch.clear();
    // SAFETY: promised by the caller.
    let (first_line, line_table) = unsafe {
        (
            load::<i32>(code, at.first_line),
            line_table(layout, load(code, at.line_table)),
        )
    };
    // SAFETY: promised by the caller; strings never change.
    let append = |object: usize, scratch: &mut Vec<u8>| unsafe {
        text::append(&layout.object, object, scratch, &is_finalizing)
    };
    // SAFETY: promised by the caller.
    if !append(unsafe { load(code, at.file) }, scratch) {
        scratch.clear();
    }
    let split = scratch.len();
    let qualified = at
        .qualified_name
        // SAFETY: as above.
        .is_some_and(|at| append(unsafe { load(code, at) }, scratch));
    if !qualified {
        scratch.truncate(split);
        // SAFETY: as above.
        if !append(unsafe { load(code, at.name) }, scratch) {
            scratch.truncate(split);
        }
    }
    if is_finalizing() {
        return None;
    }
    let (file, name) = scratch.split_at_checked(split).unwrap_or_default();
    Some(CodeText {
        file,
        name,
        first_line: u32::try_from(first_line).unwrap_or(0),
        line_table,
    })
}

/// # Safety
/// `object` is 0 or a live object with the layout `layout` that lives as long as the result.
unsafe fn line_table<'a>(layout: &Layout, object: usize) -> &'a [u8] {
    let at = &layout.object;
    if !plausible(object) {
        return &[];
    }
    // SAFETY: promised by the caller.
    if !unsafe { text::has_flag(load(object, at.kind), type_object::IS_BYTES) } {
        return &[];
    }
    // SAFETY: it is a bytes object, which has `len` bytes there and never changes.
    unsafe {
        let len: usize = load(object, at.bytes_len);
        if len > LONGEST_TABLE {
            return &[];
        }
        core::slice::from_raw_parts((object + at.bytes_data) as *const u8, len)
    }
}
