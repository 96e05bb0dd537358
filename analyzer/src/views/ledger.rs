//! What a device's memory consists of at its peak.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Nanos, Seq};
use serde::Serialize;

use crate::attribution::{Owner, library, owner};
use crate::replay::Replay;

/// PyTorch's caching allocator lives in this library: what it holds from the driver is the pool.
const POOL: &str = "libc10_cuda.so";

/// One part of a device's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// "tensors", "cached", "library", "context" or "unseen".
    pub kind: &'static str,
    /// The part as people read it.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// The line that holds most of it.
    #[serde(skip)]
    pub owner: Option<Owner>,
}

/// A device's memory at its peak. The rows sum to `bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Ordinal.
    pub device: u8,
    /// The event of the peak; see [`crate::replay::DevicePeak`] for which moment that is.
    pub seq: Option<u64>,
    /// Its time, ns since the capture was opened.
    pub time_ns: Option<u64>,
    /// All rows.
    pub bytes: u64,
    /// Memory of the card.
    pub total_bytes: Option<u64>,
    /// The parts.
    pub rows: Vec<LedgerRow>,
    /// The driver level's own peak, which may come later: a pool keeps what it had.
    pub driver_peak_bytes: u64,
    /// Pinned host memory then; not part of the sum, for it is not on the card.
    pub host_bytes: u64,
    /// NVML's figure less the sum; `None`: not measured.
    pub unexplained_bytes: Option<u64>,
}

impl Ledger {
    /// Ledgers of all devices that held anything.
    pub fn all(replay: &Replay) -> Vec<Self> {
        let devices = replay
            .devices
            .keys()
            .filter(|device| **device != DeviceOrdinal::NONE);
        devices
            .filter_map(|device| Self::at_peak(replay, *device))
            .collect()
    }

    /// A device's ledger at its peak; `None` if it never held anything.
    pub fn at_peak(replay: &Replay, device: DeviceOrdinal) -> Option<Self> {
        let peak = replay.devices.get(&device)?;
        let (seq, time) = peak.moment?;
        let held = peak.at_peak;
        let mut libraries = Libraries::default();
        for (stacks, figure) in replay.figures_at_device_peak(device, Level::DRIVER) {
            let name = library(&replay.names, stacks.native, Level::DRIVER);
            let owner = owner(&replay.names, stacks, Level::DRIVER);
            libraries.add(name, owner, figure.bytes);
        }
        let reserved = held.reserved.unwrap_or(0).max(held.tensor);
        let mut rows = Vec::new();
        if reserved > 0 {
            let cached = reserved - held.tensor;
            rows.push(row("tensors", "tensors live", held.tensor));
            rows.push(row("cached", "cached by PyTorch, unused", cached));
        }
        // The pool's own driver memory is in the first two rows already; without native stacks it is
        // somewhere in what has no library.
        let pool = if libraries.by_name.contains_key(&Some(POOL.into())) {
            Some(POOL.into())
        } else {
            None
        };
        let unseen = libraries.take(&pool, reserved);
        for (name, held) in libraries.by_name {
            let name = match name {
                Some(name) if pool.as_ref() == Some(&name) => format!("{name}, outside its pool"),
                Some(name) => name,
                None => "by callers unknown (no native stack)".into(),
            };
            let owner = held
                .owners
                .into_iter()
                .max_by_key(|(owner, bytes)| (*bytes, std::cmp::Reverse(owner.clone())));
            let owner = owner.map(|(owner, _)| owner);
            rows.push(LedgerRow {
                kind: "library",
                name,
                bytes: held.bytes,
                owner,
            });
        }
        if held.contexts > 0 {
            rows.push(row("context", "CUDA context and modules", held.contexts));
        }
        let fixed = rows.iter().take_while(|row| row.kind != "library").count();
        rows[fixed..].sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        rows.retain(|row| row.bytes > 0 || row.kind == "tensors" || row.kind == "cached");
        if unseen > 0 && held.driver > 0 {
            for row in rows.iter_mut().filter(|row| row.kind == "cached") {
                row.name.push_str(" (in part not seen at the driver)");
            }
        }
        let known = replay.names.devices.get(&device);
        Some(Self {
            device: device.0,
            seq: Some(seq.0),
            time_ns: Some(time.0),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            total_bytes: known.map(|known| known.total_bytes),
            rows,
            driver_peak_bytes: replay.counters(device, Level::DRIVER).peak,
            host_bytes: held.host,
            unexplained_bytes: None,
        })
    }

    /// The moment of the peak.
    pub fn moment(&self) -> Option<(Seq, Nanos)> {
        Some((Seq(self.seq?), Nanos(self.time_ns?)))
    }
}

fn row(kind: &'static str, name: &str, bytes: u64) -> LedgerRow {
    LedgerRow {
        kind,
        name: name.into(),
        bytes,
        owner: None,
    }
}

#[derive(Default)]
struct Held {
    bytes: u64,
    owners: BTreeMap<Owner, u64>,
}

#[derive(Default)]
struct Libraries {
    by_name: BTreeMap<Option<String>, Held>,
}

impl Libraries {
    fn add(&mut self, name: Option<String>, owner: Owner, bytes: u64) {
        let held = self.by_name.entry(name).or_default();
        held.bytes += bytes;
        *held.owners.entry(owner).or_default() += bytes;
    }

    /// Takes `bytes` away from a library; returns what it did not have.
    fn take(&mut self, name: &Option<String>, bytes: u64) -> u64 {
        let Some(held) = self.by_name.get_mut(name) else {
            return bytes;
        };
        let taken = held.bytes.min(bytes);
        held.bytes -= taken;
        bytes - taken
    }
}
