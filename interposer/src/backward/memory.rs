//! Checked reads of PyTorch's memory.

use core::ffi::c_void;

const PAGE: usize = 4096;

/// Whether a PyTorch object may be at `address`.
pub(super) fn plausible(address: usize) -> bool {
    address & 7 == 0 && (0x1_0000..1 << 47).contains(&address)
}

/// Whether `bytes` from `address` on are mapped, according to the kernel.
fn is_mapped(address: usize, bytes: usize) -> bool {
    let first = address & !(PAGE - 1);
    let Some(end) = address.checked_add(bytes) else {
        return false;
    };
    let mut state = [0u8; 2];
    let pages = (end - first).div_ceil(PAGE);
    // SAFETY: the kernel reads nothing there; the vector has a byte for each page of the range.
    pages <= state.len()
        && unsafe { libc::mincore(first as *mut c_void, pages * PAGE, state.as_mut_ptr()) } == 0
}

/// The word at `address`; None if nothing can be there.
pub(crate) fn word(address: usize) -> Option<usize> {
    // SAFETY: the address is mapped, and as an object's or a table's it is readable.
    (plausible(address) && is_mapped(address, 8))
        .then(|| unsafe { (address as *const usize).read() })
}

/// The word at `offset` into a live object; None where no object can be.
///
/// # Safety
/// `object` is null, or the address of a live object that has a word there.
pub(crate) unsafe fn field(object: usize, offset: usize) -> Option<usize> {
    // SAFETY: promised by the caller.
    plausible(object).then(|| unsafe { ((object + offset) as *const usize).read() })
}

/// Copies the text at `address`, up to its NUL, to `out`; returns its length, 0 if it is too long
/// or not plain text.
pub(super) fn text(address: usize, out: &mut [u8]) -> usize {
    if !(0x1_0000..1 << 47).contains(&address) {
        return 0;
    }
    let mut checked = 0;
    for (length, place) in out.iter_mut().enumerate() {
        let at = address + length;
        if at >= checked {
            if !is_mapped(at, 1) {
                return 0;
            }
            checked = (at & !(PAGE - 1)) + PAGE;
        }
        // SAFETY: the page is mapped.
        match unsafe { (at as *const u8).read() } {
            0 => return length,
            byte if byte.is_ascii_graphic() => *place = byte,
            _ => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_read() {
        let here = 5usize;
        assert_eq!(word(&raw const here as usize), Some(5));
        assert_eq!(word(&raw const here as usize + 1), None);
        for address in [0, 8, 0x1_0000, 0x7fff_ffff_f000, usize::MAX - 7] {
            assert_eq!(word(address), None, "{address:x}");
        }
    }

    #[test]
    fn texts_are_whole_and_plain() {
        let mut out = [0; 8];
        let mut read = |bytes: &[u8]| {
            let length = text(bytes.as_ptr() as usize, &mut out);
            out[..length].to_vec()
        };
        assert_eq!(read(b"N4NodeE\0"), b"N4NodeE");
        assert_eq!(read(b"12345678\0"), b"");
        assert_eq!(read(b"a b\0"), b"");
        assert_eq!(text(8, &mut out), 0);
    }
}
