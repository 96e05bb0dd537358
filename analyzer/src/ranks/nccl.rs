//! Memory of NCCL, and symmetric memory.

use super::holders::Of;
use crate::attribution::PYTORCH_ALLOCATOR;

/// The library that allocates symmetric memory from the driver, and NVSHMEM's, which has a heap of it.
const SYMMETRIC: &[&str] = &["libtorch_cuda.so", "libtorch_nvshmem.so", "libnvshmem"];

/// The kind of memory that the driver allocated for a library.
pub fn held_by(library: Option<&str>) -> Of {
    match library {
        Some(PYTORCH_ALLOCATOR) => Of::Pool,
        Some(name) if name.starts_with("libnccl") => Of::Nccl,
        Some(name) if SYMMETRIC.iter().any(|of| name.starts_with(of)) => Of::Symmetric,
        _ => Of::Outside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_hold_memory_of_their_kind() {
        assert_eq!(held_by(Some("libc10_cuda.so")), Of::Pool);
        assert_eq!(held_by(Some("libnccl.so.2")), Of::Nccl);
        assert_eq!(held_by(Some("libnvshmem_host.so.3")), Of::Symmetric);
        assert_eq!(held_by(Some("libtorch_cuda.so")), Of::Symmetric);
        assert_eq!(held_by(Some("libcublas.so.13")), Of::Outside);
        assert_eq!(held_by(None), Of::Outside);
    }
}
