//! Memory of other interfaces (Vulkan, OpenGL and so on), imported by a file descriptor.
//!
//! The simulator has no such interface: any ordinary file that can be mapped represents its memory.
//! Mappings of it are aliases. They cost the card nothing here, because the memory is counted where
//! it was allocated.

use std::os::fd::OwnedFd;

/// Imported memory.
#[derive(Debug)]
pub struct External {
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
}
