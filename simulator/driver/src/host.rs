//! Host address space, which contains the simulated memory.

use libc::{MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED};
use libc::{PROT_NONE, PROT_READ, PROT_WRITE};
use std::ptr;

use crate::addresses;

/// The host's own page.
pub(crate) const HOST_PAGE: u64 = 4096;
/// From this size on, zeroed pages are returned to the host.
pub(crate) const WORTH_GIVING_BACK: u64 = 1 << 20;

/// Attempts to map memory in the driver's range.
const ATTEMPTS: u32 = 4;

/// Maps `bytes` (rounded up to host pages) of zeroed memory at a multiple of `align`, a power of
/// two. Nothing is reserved: a host page is allocated when it is first touched.
pub fn map(bytes: u64, align: u64, access: Access) -> Option<u64> {
    let align = align.max(HOST_PAGE);
    let length = host_length(bytes)?;
    let mut used = addresses::used();
    for _ in 0..ATTEMPTS {
        let Some(base) = used.highest_gap(length, align) else {
            break;
        };
        // A range that others have mapped counts as used, too.
        used.insert(base, length);
        if map_fixed(base, length, access) {
            return Some(base);
        }
    }
    drop(used);
    map_anywhere(length, align, access)
}

/// As [`map`], at an address of the kernel's choice.
fn map_anywhere(length: u64, align: u64, access: Access) -> Option<u64> {
    let padded = length.checked_add(align)?;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; no other memory is
    // touched.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            usize::try_from(padded).ok()?,
            access.bits(),
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start as u64;
    let base = (start + padded - length) / align * align;
    unmap(start, base - start);
    unmap(base + length, start + padded - (base + length));
    Some(base)
}

/// As [`map`], but exactly at `base`; `None` if the range is in use.
pub fn map_at(base: u64, bytes: u64, access: Access) -> Option<u64> {
    let length = host_length(bytes)?;
    let mut used = addresses::used();
    if !map_fixed(base, length, access) {
        return None;
    }
    used.insert(base, length);
    Some(base)
}

/// Maps a range of whole host pages unless it is in use.
fn map_fixed(base: u64, length: u64, access: Access) -> bool {
    let Ok(length) = usize::try_from(length) else {
        return false;
    };
    // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
    let at = unsafe {
        libc::mmap(
            base as *mut _,
            length,
            access.bits(),
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return false;
    }
    if at as u64 != base {
        // SAFETY: a kernel without MAP_FIXED_NOREPLACE mapped this range elsewhere just now.
        unsafe { libc::munmap(at, length) };
        return false;
    }
    true
}

/// Unmaps a range.
pub fn unmap(base: u64, bytes: u64) {
    if let Some(length) = host_length(bytes).filter(|length| *length > 0) {
        let mut used = addresses::used();
        used.remove(base, length);
        // SAFETY: callers pass ranges from `map` that the simulated driver has just freed.
        unsafe { libc::munmap(base as *mut _, length as usize) };
    }
}

/// Writes a range of memory to a file, without skipping zeros. Returns whether it succeeded.
pub fn copy_to_file(file: i32, from: u64, bytes: u64) -> bool {
    let mut done = 0;
    while done < bytes {
        // SAFETY: callers pass a readable range of the driver's memory; pwrite only reads it.
        let written = unsafe {
            libc::pwrite(
                file,
                (from + done) as *const _,
                (bytes - done) as usize,
                done as i64,
            )
        };
        match u64::try_from(written) {
            Ok(written) if written > 0 => done += written,
            _ => return false,
        }
    }
    true
}

/// Maps `file` over part of a mapping (the simulated `cuMemMap`), without access until [`protect`].
/// Returns whether it succeeded.
pub fn map_file_over(base: u64, bytes: u64, file: i32, offset: u64) -> bool {
    // SAFETY: callers pass a range inside their address reservation, so MAP_FIXED replaces only
    // mappings that they own.
    let at = unsafe {
        libc::mmap(
            base as *mut _,
            bytes as usize,
            PROT_NONE,
            MAP_SHARED | MAP_FIXED,
            file,
            offset as i64,
        )
    };
    at != libc::MAP_FAILED
}

/// Maps empty, inaccessible address space over part of a mapping.
pub fn map_nothing_over(base: u64, bytes: u64) {
    // SAFETY: as in `map_file_over`.
    unsafe {
        libc::mmap(
            base as *mut _,
            bytes as usize,
            PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
            -1,
            0,
        );
    }
}

/// The allowed access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No access.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

impl Access {
    /// From `CUmemAccess_flags`.
    pub fn from_flags(flags: u32) -> Option<Self> {
        match flags {
            0 => Some(Self::None),
            1 => Some(Self::Read),
            3 => Some(Self::ReadWrite),
            _ => None,
        }
    }

    /// As `CUmemAccess_flags`.
    pub fn flags(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Read => 1,
            Self::ReadWrite => 3,
        }
    }

    fn bits(self) -> i32 {
        match self {
            Self::None => PROT_NONE,
            Self::Read => PROT_READ,
            Self::ReadWrite => PROT_READ | PROT_WRITE,
        }
    }
}

/// Changes the access to a range.
pub fn protect(base: u64, bytes: u64, access: Access) {
    // SAFETY: callers pass ranges that the simulated driver mapped.
    unsafe { libc::mprotect(base as *mut _, bytes as usize, access.bits()) };
}

/// Copies `bytes` bytes; the ranges may overlap.
pub fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: callers have checked device ranges against the books; the C caller guarantees that
    // host ranges are valid, as with the real driver.
    unsafe { ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
}

/// Zeroes a range of the driver's memory. The host frees whole pages, so zeroing a whole card costs
/// nothing.
pub fn zero(to: u64, bytes: u64) {
    zero_from(to, bytes, WORTH_GIVING_BACK);
}

/// As [`zero`]; pages are returned to the host from `least` bytes on.
pub(crate) fn zero_from(to: u64, bytes: u64, least: u64) {
    let first = to.next_multiple_of(HOST_PAGE);
    let last = (to + bytes) / HOST_PAGE * HOST_PAGE;
    if last <= first || last - first < least {
        fill(to, 1, 0, bytes);
        return;
    }
    fill(to, 1, 0, first - to);
    fill(last, 1, 0, to + bytes - last);
    let (start, length) = (first as *mut libc::c_void, (last - first) as usize);
    // SAFETY: whole pages of the driver's mappings. MADV_REMOVE zeroes those of a file in memory
    // and fails, without a change, on private ones, which MADV_DONTNEED zeroes.
    let zeroed = unsafe {
        libc::madvise(start, length, libc::MADV_REMOVE) == 0
            || libc::madvise(start, length, libc::MADV_DONTNEED) == 0
    };
    if !zeroed {
        fill(first, 1, 0, last - first);
    }
}

/// Fills `count` elements of a power-of-two width from `to` on with `value`'s low bytes.
pub fn fill(to: u64, width: usize, value: u32, count: u64) {
    let pattern = value.to_le_bytes();
    let uniform = pattern[..width].iter().all(|byte| *byte == pattern[0]);
    if uniform {
        // SAFETY: callers have checked the range against the books.
        unsafe { ptr::write_bytes(to as *mut u8, pattern[0], count as usize * width) };
        return;
    }
    for index in 0..count as usize {
        // SAFETY: as above; index * width stays below count * width.
        unsafe {
            ptr::copy_nonoverlapping(pattern.as_ptr(), (to as *mut u8).add(index * width), width);
        }
    }
}

fn host_length(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(HOST_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::memory_file;
    use std::os::fd::AsRawFd;

    #[test]
    fn maps_aligned_zeroed_memory() {
        let base = map(5000, 2 << 20, Access::ReadWrite).expect("address space");
        assert_eq!(base % (2 << 20), 0);
        fill(base, 4, 0x0102_0304, 2);
        fill(base + 8, 1, 0xff, 1);
        let mut seen = [0u8; 10];
        copy(seen.as_mut_ptr() as u64, base, 10);
        assert_eq!(seen, [4, 3, 2, 1, 4, 3, 2, 1, 0xff, 0]);
        unmap(base, 5000);
    }

    #[test]
    fn zeroes_private_and_shared_memory_alike() {
        let bytes = 4 << 20;
        let private = map(bytes, 4096, Access::ReadWrite).expect("address space");
        let shared = map(bytes, 4096, Access::None).expect("address space");
        let file = memory_file("test", bytes).expect("a file in memory");
        assert!(map_file_over(shared, bytes, file.as_raw_fd(), 0));
        protect(shared, bytes, Access::ReadWrite);
        for base in [private, shared] {
            fill(base, 1, 7, bytes);
            zero(base + 100, bytes - 200);
            let mut seen = vec![0u8; bytes as usize];
            copy(seen.as_mut_ptr() as u64, base, bytes);
            assert!(seen[..100].iter().all(|byte| *byte == 7));
            assert!(
                seen[100..bytes as usize - 100]
                    .iter()
                    .all(|byte| *byte == 0)
            );
            assert!(seen[bytes as usize - 100..].iter().all(|byte| *byte == 7));
            unmap(base, bytes);
        }
    }

    #[test]
    fn more_than_there_is_cannot_be_mapped() {
        assert_eq!(map(u64::MAX, 4096, Access::None), None);
        assert_eq!(map(1 << 62, 4096, Access::None), None);
    }
}
