//! Strategies that the unit tests share.

use proptest::prelude::*;

use crate::{
    ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, PlacementId, StackId,
    ThreadId,
};

/// Any event, often similar to others.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let number = || prop_oneof![Just(0), 0..1000_u64, any::<u64>()];
    let stack = || prop_oneof![0..5_u32, any::<u32>()].prop_map(StackId);
    (
        (number(), number(), number(), number()),
        (stack(), stack(), any::<u32>(), 0..128_u8),
        (
            (0..5_u8, 0..3_u8, any::<u16>(), 0..4_u16),
            prop_oneof![Just(0), any::<u8>()],
            prop_oneof![Just(0), 0..1000_u32, any::<u32>()],
        ),
    )
        .prop_map(
            |((time, ptr, bytes, aux), (py_stack, native_stack, thread, kind), rest)| {
                let ((level, device, api, flags), placement, slack) = rest;
                Event {
                    time: Nanos(time),
                    ptr,
                    bytes,
                    aux,
                    py_stack,
                    native_stack,
                    thread: ThreadId(thread),
                    kind: EventKind(kind),
                    level: Level(level),
                    device: DeviceOrdinal(device),
                    api: ApiId(api),
                    flags: EventFlags(flags),
                    placement: PlacementId(placement),
                    slack,
                }
            },
        )
}
