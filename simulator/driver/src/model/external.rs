//! Memory of other interfaces (Vulkan, OpenGL and so on), taken in by a file descriptor.
//!
//! The simulator has no such interface: any ordinary file that can be mapped stands for its memory.
//! What is mapped of it is an alias. It costs the card nothing here, since whoever made it pays.

use std::os::fd::OwnedFd;

/// Imported memory.
#[derive(Debug)]
pub struct External {
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
}
