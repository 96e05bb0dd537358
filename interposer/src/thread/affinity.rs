//! The processors that the process may use, at the time when the library was loaded.
//!
//! A thread starts on those of the thread that creates it. A program pins its own threads (OMP_PROC_BIND, a data
//! loader, sched_setaffinity), often one per processor: a recorder thread that inherited that would compete with it.

use core::mem::offset_of;
use core::sync::atomic::Ordering;
use std::io;

use crate::process::{PROCESS, Process, WORDS};

// An indirect function, whose resolver the loader calls when it relocates the library: before any constructor. The
// constructor of libgomp, which the program may link, pins the thread under OMP_PROC_BIND, and runs before those of a
// preloaded library. Only this library's own data may be used in the resolver, so it is a single system call; the
// function itself is never called.
core::arch::global_asm!(
    ".pushsection .text.gpumem_read_affinity,\"ax\",@progbits",
    ".globl gpumem_read_affinity",
    ".hidden gpumem_read_affinity",
    ".type gpumem_read_affinity, @gnu_indirect_function",
    "gpumem_read_affinity:",
    ".cfi_startproc",
    "mov eax, {getaffinity}",
    "xor edi, edi",
    "mov esi, {bytes}",
    "lea rdx, [rip + {process} + {mask}]",
    "syscall",
    "mov [rip + {process} + {filled}], rax",
    "lea rax, [rip + {function}]",
    "ret",
    ".cfi_endproc",
    ".size gpumem_read_affinity, . - gpumem_read_affinity",
    ".popsection",
    getaffinity = const libc::SYS_sched_getaffinity,
    bytes = const size_of::<[u64; WORDS]>(),
    process = sym PROCESS,
    mask = const offset_of!(Process, affinity.mask),
    filled = const offset_of!(Process, affinity.filled),
    function = sym nothing,
);

unsafe extern "C" {
    fn gpumem_read_affinity();
}

extern "C" fn nothing() {}

/// Makes the loader resolve it.
#[used]
static RESOLVED: unsafe extern "C" fn() = gpumem_read_affinity;

/// Larger than any kernel's mask.
const MOST_BYTES: usize = 1 << 20;

/// The processors at the time when the library was loaded, in the kernel's format: a bit for each. `None` if the
/// kernel did not report them.
pub(super) fn at_load() -> Option<&'static [u64]> {
    let filled = PROCESS.affinity.filled.load(Ordering::Relaxed);
    let words = usize::try_from(filled).map_or(0, |bytes| bytes.div_ceil(size_of::<u64>()));
    if words == 0 {
        return PROCESS.affinity.larger.get().map(Vec::as_slice);
    }
    // SAFETY: nobody writes to it any more.
    unsafe { &*PROCESS.affinity.mask.get() }.get(..words)
}

/// The calling thread's mask, in as many words as necessary. `ask` fills a buffer and returns the number of bytes; it
/// rejects a buffer that is too small with EINVAL.
fn read(ask: impl Fn(&mut [u64]) -> io::Result<usize>) -> Option<Vec<u64>> {
    let mut bytes = 128;
    while bytes <= MOST_BYTES {
        let mut mask = vec![0u64; bytes / size_of::<u64>()];
        match ask(&mut mask) {
            Ok(filled) => {
                mask.truncate(filled.div_ceil(size_of::<u64>()));
                return Some(mask);
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => bytes *= 2,
            Err(_) => return None,
        }
    }
    None
}

/// Queries the kernel for the calling thread's mask, without the C library, whose set has a fixed size.
fn ask_kernel(mask: &mut [u64]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for so many bytes; 0 is the calling thread.
    let filled = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val(mask),
            mask.as_mut_ptr(),
        )
    };
    usize::try_from(filled).map_err(|_| io::Error::last_os_error())
}

/// Queries with more room if the resolver's was not enough.
extern "C" fn at_start() {
    if PROCESS.affinity.filled.load(Ordering::Relaxed) <= 0
        && let Some(mask) = read(ask_kernel)
    {
        let _ = PROCESS.affinity.larger.set(mask);
    }
}

/// Run by the loader once the libraries that this one needs are ready, on the thread that loads it.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = at_start;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_more_than_1024_processors_is_read_in_whole() {
        let of_4096 = |mask: &mut [u64]| {
            let bytes = 4096 / 8;
            if size_of_val(mask) < bytes {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            mask[..bytes / 8].fill(u64::MAX);
            Ok(bytes)
        };
        assert_eq!(read(of_4096), Some(vec![u64::MAX; 64]));
    }

    #[test]
    fn a_kernel_that_refuses_leaves_no_mask() {
        let refuse = |_: &mut [u64]| Err(io::Error::from_raw_os_error(libc::ENOSYS));
        assert_eq!(read(refuse), None);
        let never = |_: &mut [u64]| Err(io::Error::from_raw_os_error(libc::EINVAL));
        assert_eq!(read(never), None);
    }

    #[test]
    fn the_mask_at_load_is_the_kernels() {
        let filled = PROCESS.affinity.filled.load(Ordering::Relaxed);
        assert!(filled > 0 && filled % 8 == 0, "{filled}");
        assert_eq!(at_load(), read(ask_kernel).as_deref());
    }
}
