//! The static header: facts known when a capture is opened. Written once, in two copies.
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
//! | 128 | 8 | of a bounded capture: bytes of each of the two state areas; else zero |
//! | 136 | 8 | of a bounded capture: bytes of the log; else zero |
//! | 144 | 4 | where the ring is: 1 in this file, 2 in memory of the process only, 3 in a memfd, 4 in a file |
//! | 148 | 4 | bytes of that file's path, at most 256; else zero |
//! | 152 | 256 | the path, padded with zeros |
//! | 408 | 100 | zero |
//! | 508 | 4 | CRC32 of bytes 0–507 |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::bounded_layout::BoundedLayout;
use crate::checksum::Checks;
use crate::layout::{self, MAGIC, STATIC_BYTES, VERSION};

/// The longest path of a ring's file.
const RING_PATH: usize = 256;

/// Where the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one of it in a header")]
pub(crate) enum RingAt {
    /// In the capture, before its pages.
    Capture,
    /// In memory that ends with the process.
    Nowhere,
    /// In a file without a name.
    Memfd,
    /// In a separate file.
    File(RingPath),
}

/// The path of a ring's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPath {
    bytes: [u8; RING_PATH],
    length: usize,
}

impl RingPath {
    /// None if it is too long.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        Self::from_bytes(path.as_os_str().as_bytes())
    }

    fn from_bytes(path: &[u8]) -> Option<Self> {
        let (mut bytes, length) = ([0; RING_PATH], path.len());
        bytes.get_mut(..length)?.copy_from_slice(path);
        (length > 0).then_some(Self { bytes, length })
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(
            self.bytes.get(..self.length).unwrap_or_default(),
        ))
    }
}

impl RingAt {
    fn encode(&self) -> (u32, &[u8]) {
        match self {
            Self::Capture => (1, &[]),
            Self::Nowhere => (2, &[]),
            Self::Memfd => (3, &[]),
            Self::File(path) => (4, path.bytes.get(..path.length).unwrap_or_default()),
        }
    }

    fn decode(kind: u32, path: &[u8]) -> Option<Self> {
        match (kind, path) {
            (1, []) => Some(Self::Capture),
            (2, []) => Some(Self::Nowhere),
            (3, []) => Some(Self::Memfd),
            (4, path) => RingPath::from_bytes(path).map(Self::File),
            _ => None,
        }
    }
}

/// The fields of the static header.
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
    /// Only in a bounded capture.
    pub(crate) bounded: Option<BoundedLayout>,
    pub(crate) ring_at: RingAt,
}

/// Why a static header could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The file is not a capture.
    Foreign,
    /// Its version is newer than this crate.
    Future(u32),
    /// The checksum does not match, or a checked field is invalid.
    Damaged(&'static str),
}

impl StaticHeader {
    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; STATIC_BYTES] {
        let mut out = Vec::with_capacity(STATIC_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
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
        let sizes = self
            .bounded
            .map_or([0, 0], |bounded| [bounded.state, bounded.log]);
        for bytes in sizes {
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        let (kind, path) = self.ring_at.encode();
        for word in [kind, path.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(path);
        out.resize(STATIC_BYTES - 4, 0);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; STATIC_BYTES];
        header.copy_from_slice(&out);
        header
    }

    /// The checksums of its records, rows and fields.
    pub(crate) fn checks(&self) -> Checks {
        Checks::new(self.nonce)
    }

    /// The file of the ring, if the ring has a separate file.
    pub(crate) fn ring_path(&self) -> Option<&Path> {
        match &self.ring_at {
            RingAt::File(path) => Some(path.path()),
            _ => None,
        }
    }

    /// Whether the ring is in the capture itself.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring_at == RingAt::Capture
    }

    /// The offset of the pages, or of the areas of a bounded capture.
    pub(crate) fn pages_offset(&self) -> u64 {
        match self.has_ring() {
            true => layout::ring_end(self.ring_slots),
            false => layout::RING_OFFSET,
        }
    }

    /// Bytes 84 to 128 as 11 u32: constant, except the offset of the pages.
    fn geometry(&self) -> [u32; 11] {
        let offset = |value: u64| [value as u32, (value >> 32) as u32];
        let [d0, d1] = offset(layout::DYNAMIC_OFFSET);
        let [c0, c1] = offset(layout::COUNTERS_OFFSET);
        let [r0, r1] = offset(if self.has_ring() {
            layout::RING_OFFSET
        } else {
            0
        });
        let [p0, p1] = offset(self.pages_offset());
        let (devices, levels) = (
            layout::COUNTER_DEVICES as u32,
            layout::COUNTER_LEVELS as u32,
        );
        [64, d0, d1, c0, c1, devices, levels, r0, r1, p0, p1]
    }

    /// Decodes a header.
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
        // The magic and the version stay at these offsets in all later versions.
        if u32_at(8) > VERSION {
            return Err(Unreadable::Future(u32_at(8)));
        }
        if u32_at(STATIC_BYTES - 4) != crc32fast::hash(&bytes[..STATIC_BYTES - 4]) {
            return Err(Unreadable::Damaged("its check does not fit"));
        }
        if u32_at(8) == 0 {
            return Err(Unreadable::Damaged("it states an impossible version"));
        }
        let path = bytes[152..152 + RING_PATH].get(..u32_at(148) as usize);
        let Some(ring_at) = path.and_then(|path| RingAt::decode(u32_at(144), path)) else {
            return Err(Unreadable::Damaged("it does not say where the ring is"));
        };
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
            bounded: (u64_at(128) != 0 || u64_at(136) != 0).then(|| BoundedLayout {
                state: u64_at(128),
                log: u64_at(136),
            }),
            ring_at,
        };
        if !layout::RING_SLOTS.contains(&header.ring_slots) || !header.ring_slots.is_power_of_two()
        {
            return Err(Unreadable::Damaged("it states an impossible ring"));
        }
        if (header.bounded).is_some_and(|bounded| !bounded.is_possible(header.ring_slots)) {
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
            bounded: None,
            ring_at: RingAt::Capture,
        }
    }

    fn bounded() -> StaticHeader {
        StaticHeader {
            bounded: BoundedLayout::within(64 << 20, 1024),
            ..sample()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let long = "/dev/shm/".to_owned() + &"x".repeat(RING_PATH - 9);
        let elsewhere = [RingAt::Nowhere, RingAt::Memfd].into_iter().chain(
            [Path::new("/x"), Path::new(&long)]
                .map(|path| RingAt::File(RingPath::new(path).expect("a path that fits"))),
        );
        let moved = elsewhere.map(|ring_at| StaticHeader {
            ring_at,
            ..bounded()
        });
        for header in moved.chain([sample(), bounded()]) {
            assert_eq!(StaticHeader::decode(&header.encode()), Ok(header));
        }
        assert_eq!(RingPath::new(Path::new(&(long + "x"))), None);
    }

    #[test]
    fn impossible_areas_are_refused() {
        for state in [0, 1 << 20, u64::MAX / 2] {
            let bounded = Some(BoundedLayout {
                state,
                log: 64 << 20,
            });
            let header = StaticHeader {
                bounded,
                ..sample()
            };
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
