//! The purposes of tensors' blocks, as reported by the program or found by its autograd.

use gpumem_capture::{ApiId, DeviceOrdinal, EventKind, Level, Role};

use crate::session::Session;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// A block's role.
pub(crate) struct Told {
    pub(crate) ptr: u64,
    pub(crate) device: DeviceOrdinal,
    pub(crate) role: Role,
    /// Whether it was queried from the framework.
    pub(crate) by_framework: bool,
}

impl Told {
    /// Records it.
    pub(crate) fn record(&self, thread: &Thread, api: ApiId) {
        let what = Sideband {
            ptr: self.ptr,
            bytes: u64::from(self.by_framework),
            aux: self.role.0,
            device: self.device,
            ..Sideband::default()
        };
        sideband::record(thread, api, EventKind::ROLE, Level::TENSOR, what);
    }
}

/// Records that blocks at these addresses have a role, according to the framework; returns how many of them are
/// new.
pub(crate) fn tell(session: &Session, thread: &Thread, addresses: &[u64], role: Role) -> usize {
    let new = addresses.iter().filter_map(|&ptr| {
        let device = session.tensors.note_role(ptr, role)?;
        let by_framework = true;
        Some(Told {
            ptr,
            device,
            role,
            by_framework,
        })
    });
    new.map(|told| told.record(thread, ApiId(0))).count()
}
