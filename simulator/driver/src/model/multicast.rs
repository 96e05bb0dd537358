//! Multicast objects: one range of addresses for memory on every device of a team.
//!
//! An object itself costs no memory. The memory that is bound to it was created and counted
//! elsewhere, and is kept as long as it is bound. The team may span processes, so the list of
//! devices that have joined is in a page of shared memory, the object's file. Only kernels can use
//! a multicast address (with `multimem` instructions). So it can be mapped and given access here,
//! but not copied to.

use crate::ffi::{Answer, CuError};
use crate::host::{self, Access};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of the shared page.
pub(crate) const PAGE: u64 = 4096;

/// `CUmulticastObjectProp`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Devices of the team.
    pub devices: u32,
    /// Bytes that each can bind.
    pub bytes: usize,
    /// `CUmemAllocationHandleType` bits.
    pub handle_types: u64,
    /// 0.
    pub flags: u64,
}

/// The state that all processes of a team share.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) bytes: AtomicU64,
    pub(crate) wanted: AtomicU32,
    /// The number of devices that have joined; a futex.
    pub(crate) joined: AtomicU32,
    /// These devices, by their index on the machine.
    pub(crate) members: AtomicU64,
}

/// The mapped page.
#[derive(Debug)]
pub struct Page {
    pub(crate) at: u64,
}

impl Page {
    pub(crate) fn map(file: i32) -> Option<Self> {
        let at = host::map(PAGE, PAGE, Access::None)?;
        let page = Self { at };
        if !host::map_file_over(at, PAGE, file, 0) {
            return None;
        }
        host::protect(at, PAGE, Access::ReadWrite);
        Some(page)
    }

    pub(crate) fn team(&self) -> &Team {
        // SAFETY: a separate page that stays mapped while `self` lives; any bytes are a valid Team.
        unsafe { &*(self.at as *const Team) }
    }

    /// Whether every device has joined.
    pub fn is_complete(&self) -> bool {
        let team = self.team();
        team.joined.load(Ordering::Acquire) >= team.wanted.load(Ordering::Relaxed)
    }

    /// Waits until every device has joined, in any process.
    pub fn wait(&self) {
        let team = self.team();
        loop {
            let joined = team.joined.load(Ordering::Acquire);
            if joined >= team.wanted.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the address of a word in shared memory; returns at once if it has changed.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    team.joined.as_ptr(),
                    libc::FUTEX_WAIT,
                    joined,
                    std::ptr::null::<libc::timespec>(),
                )
            };
        }
    }

    pub(crate) fn join(&self, index: u32) -> Answer {
        let team = self.team();
        let bit = 1u64.checked_shl(index).ok_or(CuError::INVALID_VALUE)?;
        let add = |members: u64| {
            let full = members.count_ones() >= team.wanted.load(Ordering::Relaxed);
            (members & bit == 0 && !full).then_some(members | bit)
        };
        let added = team
            .members
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        added.map_err(|_| CuError::INVALID_VALUE)?;
        team.joined.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the address of a word in shared memory; wakes its waiters.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                team.joined.as_ptr(),
                libc::FUTEX_WAKE,
                i32::MAX,
            )
        };
        Ok(())
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        let bit = 1u64.checked_shl(index).unwrap_or(0);
        self.team().members.load(Ordering::Acquire) & bit != 0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        host::unmap(self.at, PAGE);
    }
}

/// Memory bound to an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) device: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The handle that it holds; `None` for a pool's memory.
    pub(crate) handle: Option<u64>,
}

/// The memory to bind: by handle or by address.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A handle, and the offset in it.
    Handle(u64, u64),
    /// An address: mapped, or from a pool.
    Address(u64),
}

/// One object, as this process sees it.
#[derive(Debug)]
pub struct Multicast {
    pub(crate) file: OwnedFd,
    pub(crate) number: (u64, u64),
    pub(crate) page: Arc<Page>,
    pub(crate) shared: bool,
    pub(crate) bindings: Vec<Binding>,
    /// Bytes of its range.
    pub bytes: u64,
    /// References to its handle.
    pub references: u32,
    /// The number of its mappings.
    pub mappings: u32,
}
