//! The event of an allocator call.

use gpumem_capture::{AllocatorCall, DeviceOrdinal, Event, EventKind, Level, PlacementId};

use super::streams;
use crate::session::{self, Session};
use crate::{sideband, thread};

/// The recorded fields of a call.
pub(super) struct Call {
    pub(super) ptr: u64,
    pub(super) bytes: u64,
    pub(super) placement: PlacementId,
}

impl Call {
    pub(super) const PLAIN: Self = Self {
        ptr: 0,
        bytes: 0,
        placement: PlacementId::DEFAULT,
    };

    /// A call for a pool.
    pub(super) fn of_pool(
        session: &'static Session,
        device: DeviceOrdinal,
        pool: (u64, u64),
    ) -> Self {
        Self::of_stream(session, device, 0, pool)
    }

    /// A call for a stream that uses a pool.
    pub(super) fn of_stream(
        session: &'static Session,
        device: DeviceOrdinal,
        stream: u64,
        pool: (u64, u64),
    ) -> Self {
        let id = || streams::id_of(device, stream);
        let placements = &session.allocator.placements;
        Self {
            placement: placements.of(session.writer, device, stream, id, pool),
            ..Self::PLAIN
        }
    }
}

/// Records a call of the allocator.
pub(super) fn record(
    what: AllocatorCall,
    device: DeviceOrdinal,
    call: impl FnOnce(&'static Session) -> Call,
) {
    let _ = thread::in_hook(|thread| {
        let session = session::open()?;
        session.know_device(device);
        let call = call(session);
        session
            .writer
            .event(&Event {
                ptr: call.ptr,
                bytes: call.bytes,
                aux: what.0,
                device,
                placement: call.placement,
                ..sideband::event(session.writer, thread, EventKind::ALLOCATOR, Level::TENSOR)
            })
            .ok()
    });
}
