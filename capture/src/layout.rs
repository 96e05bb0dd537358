//! The layout of a file. SPEC.md has the same tables with their meaning.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 512 | static header |
//! | 2048 | 512 | second copy of the static header |
//! | 4096 | 4096 | dynamic header |
//! | 8192 | 16384 | counters: 64 devices × 4 levels × 64 bytes |
//! | 24576 | 64 × slots | ring, if it is kept in the capture; otherwise see [`crate::ring_file`] |
//! | after it | to the end | pages; in a bounded capture: [`crate::bounded_layout`] |

use crate::{DeviceOrdinal, Level};

/// First bytes of every capture.
pub(crate) const MAGIC: [u8; 8] = *b"\x89GPUMEM\n";
/// The version that this crate writes and reads.
pub(crate) const VERSION: u32 = 1;

/// Bytes of the static header and the offsets of its two copies.
pub(crate) const STATIC_BYTES: usize = 512;
pub(crate) const STATIC_COPIES: [u64; 2] = [0, 2048];

pub(crate) const DYNAMIC_OFFSET: u64 = 4096;
pub(crate) const DYNAMIC_BYTES: u64 = 4096;

pub(crate) const COUNTERS_OFFSET: u64 = DYNAMIC_OFFSET + DYNAMIC_BYTES;
/// Devices that have counters: ordinals 0 to 62, and "no device" as number 63.
pub(crate) const COUNTER_DEVICES: u64 = 64;
pub(crate) const COUNTER_LEVELS: u64 = Level::COUNT as u64;
pub(crate) const COUNTER_ROWS: u64 = COUNTER_DEVICES * COUNTER_LEVELS;
/// Bytes of one row: a cache line.
pub(crate) const ROW_BYTES: u64 = 64;

pub(crate) const RING_OFFSET: u64 = COUNTERS_OFFSET + COUNTER_ROWS * ROW_BYTES;
/// Minimum and maximum number of slots of a ring.
pub(crate) const RING_SLOTS: core::ops::RangeInclusive<u32> = 64..=1 << 24;

/// Entries of the table of losses.
pub(crate) const LOSS_RANGES: usize = 64;

/// The offset of the end of a ring with that many slots.
pub(crate) const fn ring_end(ring_slots: u32) -> u64 {
    RING_OFFSET + ring_slots as u64 * 64
}

/// The maximum payload of a definition: an eighth of the ring, and at most 1 MiB, so that a page
/// stays small whatever the ring's size.
pub(crate) const fn payload_limit(ring_slots: u64) -> u64 {
    let eighth = ring_slots * 64 / 8;
    if eighth < 1 << 20 { eighth } else { 1 << 20 }
}

/// The counter row of a device and level, if it has one.
#[inline]
pub(crate) fn row_number(device: DeviceOrdinal, level: Level) -> Option<u64> {
    let device = match device {
        DeviceOrdinal::NONE => COUNTER_DEVICES - 1,
        DeviceOrdinal(n) if u64::from(n) < COUNTER_DEVICES - 1 => u64::from(n),
        _ => return None,
    };
    let level = u64::from(level.0);
    (level < COUNTER_LEVELS).then_some(device * COUNTER_LEVELS + level)
}

/// The device and level of a counter row.
pub(crate) fn row_owner(row: u64) -> (DeviceOrdinal, Level) {
    let device = match row / COUNTER_LEVELS {
        n if n == COUNTER_DEVICES - 1 => DeviceOrdinal::NONE,
        n => DeviceOrdinal(n as u8),
    };
    (device, Level((row % COUNTER_LEVELS) as u8))
}

/// Offset in the file of a counter row.
pub(crate) const fn row_offset(row: u64) -> u64 {
    COUNTERS_OFFSET + row * ROW_BYTES
}

/// Fields of the dynamic header: offsets in the file. Fields of different writers are on separate
/// cache lines.
pub(crate) mod dynamic {
    use super::DYNAMIC_OFFSET;

    pub(crate) const KNOWN: u64 = DYNAMIC_OFFSET;
    pub(crate) const TAIL: u64 = DYNAMIC_OFFSET + 64;
    pub(crate) const PAGES_END: u64 = DYNAMIC_OFFSET + 72;
    pub(crate) const END: u64 = DYNAMIC_OFFSET + 128;
    pub(crate) const DRAIN_ERROR: u64 = DYNAMIC_OFFSET + 192;
    pub(crate) const LOST: u64 = DYNAMIC_OFFSET + 256;
    pub(crate) const COUNTED: u64 = DYNAMIC_OFFSET + 320;
    pub(crate) const JOURNAL: u64 = DYNAMIC_OFFSET + 384;
    pub(crate) const QUEUE: u64 = DYNAMIC_OFFSET + 448;
    pub(crate) const LOSS_TABLE: u64 = DYNAMIC_OFFSET + 512;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_owners_are_inverse() {
        for row in 0..COUNTER_ROWS {
            let (device, level) = row_owner(row);
            assert_eq!(row_number(device, level), Some(row));
        }
        assert_eq!(row_number(DeviceOrdinal(63), Level::TENSOR), None);
        assert_eq!(row_number(DeviceOrdinal(0), Level(4)), None);
    }
}
