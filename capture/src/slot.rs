//! An event as the eight little-endian words of its slot. The byte table is in [`crate::Event`]'s
//! module.

use crate::{
    ApiId, DefKind, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, PlacementId,
    StackId, ThreadId,
};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 64;

/// Words of a slot, word 0 (the commit word) left 0.
#[inline]
pub(crate) fn event_words(event: &Event) -> [u64; 8] {
    [
        0,
        event.time.0,
        event.ptr,
        event.bytes,
        event.aux,
        u64::from(event.py_stack.0) | u64::from(event.native_stack.0) << 32,
        u64::from(event.thread.0)
            | u64::from(event.kind.0) << 32
            | u64::from(event.level.0) << 40
            | u64::from(event.device.0) << 48
            | u64::from(event.placement.0) << 56,
        u64::from(event.api.0)
            | u64::from(event.flags.0) << 16
            | u64::from(event.slack.wrapping_add(1)) << 32,
    ]
}

/// Adds to an event's flags.
#[inline]
pub(crate) fn add_flags(words: &mut [u64; 8], flags: EventFlags) {
    let [.., what] = words;
    *what |= u64::from(flags.0) << 16;
}

/// The inverse of [`event_words`]; word 0 is ignored.
pub(crate) fn event_from_words(words: &[u64; 8]) -> Event {
    let [_, time, ptr, bytes, aux, stacks, who, what] = *words;
    Event {
        time: Nanos(time),
        ptr,
        bytes,
        aux,
        py_stack: StackId(stacks as u32),
        native_stack: StackId((stacks >> 32) as u32),
        thread: ThreadId(who as u32),
        kind: EventKind((who >> 32) as u8),
        level: Level((who >> 40) as u8),
        device: DeviceOrdinal((who >> 48) as u8),
        placement: PlacementId((who >> 56) as u8),
        api: ApiId(what as u16),
        flags: EventFlags((what >> 16) as u16),
        slack: ((what >> 32) as u32).wrapping_sub(1),
    }
}

/// Words of a definition's first slot.
pub(crate) fn definition_words(kind: DefKind, payload_bytes: u64, slots: u32) -> [u64; 8] {
    [
        0,
        0,
        0,
        payload_bytes,
        0,
        0,
        u64::from(kind.0) << 32,
        u64::from(slots) << 32,
    ]
}

/// The record's kind byte, from the words of its first slot.
#[inline]
pub(crate) fn kind_of(words: &[u64; 8]) -> u8 {
    (words[6] >> 32) as u8
}

/// The number of slots that the record states; an event has one.
#[inline]
pub(crate) fn slots_of(words: &[u64; 8]) -> u64 {
    match EventKind(kind_of(words)).is_event() {
        true => 1,
        false => words[7] >> 32,
    }
}

/// The payload's length that a definition's first slot states.
#[inline]
pub(crate) fn payload_bytes_of(words: &[u64; 8]) -> u64 {
    words[3]
}

/// Slots that a definition with a payload of that many bytes takes.
#[inline]
pub(crate) fn slots_for(payload_bytes: u64) -> u64 {
    1 + payload_bytes.div_ceil(SLOT_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_documented_one() {
        let event = Event {
            time: Nanos(0x0102_0304_0506_0708),
            ptr: 0x1112_1314_1516_1718,
            bytes: 0x2122_2324_2526_2728,
            aux: 0x3132_3334_3536_3738,
            py_stack: StackId(0x4142_4344),
            native_stack: StackId(0x5152_5354),
            thread: ThreadId(0x6162_6364),
            kind: EventKind(0x71),
            level: Level(0x72),
            device: DeviceOrdinal(0x73),
            api: ApiId(0x8182),
            flags: EventFlags(0x9192),
            placement: PlacementId(0x74),
            slack: 0xa1a2_a3a4,
        };
        let words = event_words(&event);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let at = |offset: usize, size: usize| {
            let mut le = [0; 8];
            le[..size].copy_from_slice(&bytes[offset..offset + size]);
            u64::from_le_bytes(le)
        };
        assert_eq!(at(8, 8), event.time.0);
        assert_eq!(at(16, 8), event.ptr);
        assert_eq!(at(24, 8), event.bytes);
        assert_eq!(at(32, 8), event.aux);
        assert_eq!(at(40, 4), u64::from(event.py_stack.0));
        assert_eq!(at(44, 4), u64::from(event.native_stack.0));
        assert_eq!(at(48, 4), u64::from(event.thread.0));
        assert_eq!(at(52, 1), 0x71);
        assert_eq!(at(53, 1), 0x72);
        assert_eq!(at(54, 1), 0x73);
        assert_eq!(at(55, 1), 0x74);
        assert_eq!(at(56, 2), 0x8182);
        assert_eq!(at(58, 2), 0x9192);
        assert_eq!(at(60, 4), 0xa1a2_a3a5);
        assert_eq!(event_from_words(&words), event);
        assert_eq!((kind_of(&words), slots_of(&words)), (0x71, 1));
        let mut words = words;
        add_flags(&mut words, EventFlags(0x0208));
        let flags = EventFlags(0x939a);
        assert_eq!(event_from_words(&words), Event { flags, ..event });
    }

    #[test]
    fn a_payload_takes_whole_slots() {
        assert_eq!([0, 1, 64, 65].map(slots_for), [1, 2, 2, 3]);
    }
}
