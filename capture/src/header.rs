//! The static header: what is known when a capture is opened. Written once, twice over.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: 89 `GPUMEM` 0a |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | bytes of this header: 512 |
//! | 16 | 8 | nonce: random, different in every capture |
//! | 24 | 8 | wall clock at opening, ns since 1970-01-01 UTC |
//! | 32 | 8 | CLOCK_MONOTONIC at opening, ns |
//! | 40 | 8 | CLOCK_BOOTTIME at opening, ns |
//! | 48 | 4 | process id |
//! | 52 | 4 | parent's process id |
//! | 56 | 8 | start of the process: field 22 of /proc/self/stat, clock ticks since boot; 0: unknown |
//! | 64 | 16 | boot id of the host, zeros: unknown |
//! | 80 | 4 | slots of the ring |
//! | 84 | 4 | bytes of a slot: 64 |
//! | 88 | 8 | offset of the dynamic header |
//! | 96 | 8 | offset of the counters |
//! | 104 | 4 | devices of the counters |
//! | 108 | 4 | levels of the counters |
//! | 112 | 8 | offset of the ring |
//! | 120 | 8 | offset of the pages |
//! | 128 | 8 | version 2: bytes of each of the two state areas; else zero |
//! | 136 | 8 | version 2: bytes of the log; else zero |
//! | 144 | 364 | zero |
//! | 508 | 4 | CRC32 of bytes 0–507 |

use crate::areas::Areas;
use crate::checksum::Checks;
use crate::layout::{
    self, BOUNDED_VERSION, FOLDED_BOUNDED_VERSION, FOLDED_VERSION, MAGIC, STATIC_BYTES, VERSION,
};

/// The static header's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaticHeader {
    pub(crate) nonce: u64,
    pub(crate) started_wall: u64,
    pub(crate) started_monotonic: u64,
    pub(crate) started_boottime: u64,
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    pub(crate) process_start_ticks: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) ring_slots: u32,
    /// Of versions 1 and 2, whose checks are others.
    pub(crate) folded: bool,
    /// Of a bounded capture.
    pub(crate) areas: Option<Areas>,
}

/// Why a static header could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It does not start as a capture does.
    Foreign,
    /// It is of a version that we do not know.
    Future(u32),
    /// The check does not fit, or a checked field makes no sense.
    Damaged(&'static str),
}

impl StaticHeader {
    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; STATIC_BYTES] {
        let mut out = Vec::with_capacity(STATIC_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version().to_le_bytes());
        out.extend_from_slice(&(STATIC_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.started_wall.to_le_bytes());
        out.extend_from_slice(&self.started_monotonic.to_le_bytes());
        out.extend_from_slice(&self.started_boottime.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.parent_pid.to_le_bytes());
        out.extend_from_slice(&self.process_start_ticks.to_le_bytes());
        out.extend_from_slice(&self.boot_id);
        out.extend_from_slice(&self.ring_slots.to_le_bytes());
        for word in self.geometry() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        if let Some(areas) = self.areas {
            out.extend_from_slice(&areas.state.to_le_bytes());
            out.extend_from_slice(&areas.log.to_le_bytes());
        }
        out.resize(STATIC_BYTES - 4, 0);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; STATIC_BYTES];
        header.copy_from_slice(&out);
        header
    }

    /// The version of the format that the capture needs.
    pub(crate) fn version(&self) -> u32 {
        match (self.folded, self.areas) {
            (false, None) => VERSION,
            (false, Some(_)) => BOUNDED_VERSION,
            (true, None) => FOLDED_VERSION,
            (true, Some(_)) => FOLDED_BOUNDED_VERSION,
        }
    }

    /// How its records, rows and facts are checked.
    pub(crate) fn checks(&self) -> Checks {
        match self.folded {
            false => Checks::new(self.nonce),
            true => Checks::folded(self.nonce),
        }
    }

    /// Bytes 84 to 128 as 11 u32: fixed, but for the offset of the pages.
    fn geometry(&self) -> [u32; 11] {
        let offset = |value: u64| [value as u32, (value >> 32) as u32];
        let [d0, d1] = offset(layout::DYNAMIC_OFFSET);
        let [c0, c1] = offset(layout::COUNTERS_OFFSET);
        let [r0, r1] = offset(layout::RING_OFFSET);
        let [p0, p1] = offset(layout::pages_offset(self.ring_slots));
        let (devices, levels) = (
            layout::COUNTER_DEVICES as u32,
            layout::COUNTER_LEVELS as u32,
        );
        [64, d0, d1, c0, c1, devices, levels, r0, r1, p0, p1]
    }

    /// Takes a header from its bytes.
    pub(crate) fn decode(bytes: &[u8; STATIC_BYTES]) -> Result<Self, Unreadable> {
        let u32_at = |offset: usize| {
            let mut le = [0; 4];
            le.copy_from_slice(&bytes[offset..offset + 4]);
            u32::from_le_bytes(le)
        };
        let u64_at =
            |offset: usize| u64::from(u32_at(offset)) | u64::from(u32_at(offset + 4)) << 32;
        if bytes[..8] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        // The magic and the version stand at these places in every version to come.
        if u32_at(8) > BOUNDED_VERSION {
            return Err(Unreadable::Future(u32_at(8)));
        }
        if u32_at(STATIC_BYTES - 4) != crc32fast::hash(&bytes[..STATIC_BYTES - 4]) {
            return Err(Unreadable::Damaged("its check does not fit"));
        }
        if u32_at(8) == 0 {
            return Err(Unreadable::Damaged("it states an impossible version"));
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[64..80]);
        let header = Self {
            nonce: u64_at(16),
            started_wall: u64_at(24),
            started_monotonic: u64_at(32),
            started_boottime: u64_at(40),
            pid: u32_at(48),
            parent_pid: u32_at(52),
            process_start_ticks: u64_at(56),
            boot_id,
            ring_slots: u32_at(80),
            folded: u32_at(8) <= FOLDED_BOUNDED_VERSION,
            areas: matches!(u32_at(8), BOUNDED_VERSION | FOLDED_BOUNDED_VERSION).then(|| Areas {
                state: u64_at(128),
                log: u64_at(136),
            }),
        };
        if !layout::RING_SLOTS.contains(&header.ring_slots) || !header.ring_slots.is_power_of_two()
        {
            return Err(Unreadable::Damaged("it states an impossible ring"));
        }
        if (header.areas).is_some_and(|areas| !areas.are_possible(header.ring_slots)) {
            return Err(Unreadable::Damaged("it states impossible areas"));
        }
        let geometry = header.geometry();
        if (0..geometry.len()).any(|n| u32_at(84 + 4 * n) != geometry[n]) {
            return Err(Unreadable::Damaged("it states an impossible layout"));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> StaticHeader {
        StaticHeader {
            nonce: 1 << 63 | 5,
            started_wall: 2 << 60,
            started_monotonic: 3,
            started_boottime: 4,
            pid: 5,
            parent_pid: 6,
            process_start_ticks: 7,
            boot_id: [8; 16],
            ring_slots: 1024,
            folded: false,
            areas: None,
        }
    }

    fn bounded() -> StaticHeader {
        StaticHeader {
            areas: Areas::within(64 << 20, 1024),
            ..sample()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let of_versions = [
            StaticHeader {
                folded: true,
                ..sample()
            },
            StaticHeader {
                folded: true,
                ..bounded()
            },
            sample(),
            bounded(),
        ];
        for (header, version) in of_versions.into_iter().zip(1..) {
            assert_eq!(StaticHeader::decode(&header.encode()), Ok(header));
            assert_eq!(header.version(), version);
        }
    }

    #[test]
    fn impossible_areas_are_refused() {
        for state in [0, 1 << 20, u64::MAX / 2] {
            let areas = Some(Areas {
                state,
                log: 64 << 20,
            });
            let header = StaticHeader { areas, ..sample() };
            let decoded = StaticHeader::decode(&header.encode());
            assert!(matches!(decoded, Err(Unreadable::Damaged(_))), "{state}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = bounded().encode();
        for bit in 0..8 * STATIC_BYTES {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(StaticHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn version_0_is_refused_although_its_check_fits() {
        let mut bytes = sample().encode();
        bytes[8] = 0;
        let crc = crc32fast::hash(&bytes[..STATIC_BYTES - 4]);
        bytes[STATIC_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(
            StaticHeader::decode(&bytes),
            Err(Unreadable::Damaged(_))
        ));
    }

    #[test]
    fn an_impossible_ring_is_refused_although_its_check_fits() {
        let header = StaticHeader {
            ring_slots: 100,
            ..sample()
        };
        assert!(matches!(
            StaticHeader::decode(&header.encode()),
            Err(Unreadable::Damaged(_))
        ));
    }
}
