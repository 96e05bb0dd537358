//! Turns parts and a reading of NVML into the table's rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};

use super::asked::{By, LedgerAt};
use super::names::{name, through};
use super::parts::{Parts, PieceId, Whole};
use super::{JumpRow, Kind, Ledger, LedgerRow, Place};
use crate::account::{When, when_of};
use crate::attribution::{Owner, owner};
use crate::replay::{Reading, Replay};
use crate::units::bytes as text;

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowId {
    kind: Kind,
    which: u64,
    name: Option<String>,
    owner: Option<Owner>,
}

#[derive(Debug, Default)]
struct Sum {
    bytes: i128,
    libraries: BTreeMap<String, i128>,
    owners: BTreeMap<Owner, i128>,
}

/// A device is unused if its peak is below this fraction of its contexts' bytes.
const NEXT_TO_NOTHING: i128 = 8;

impl Ledger {
    /// The ledger of a device. `facts` are those of the whole capture.
    pub(super) fn new(
        mut parts: Parts,
        reading: Option<Reading>,
        at: LedgerAt,
        by: By,
        (replay, facts): (&Replay, &Whole),
        device: DeviceOrdinal,
    ) -> Self {
        let reading = reading.filter(|reading| reading.beyond().is_some());
        let unexplained = reading.map(|reading| nvml(&mut parts, &reading));
        // A context on an unused device is probably unintended.
        let contexts = parts
            .pieces
            .iter()
            .filter(|(id, _)| id.kind == Kind::Context);
        let contexts: i128 = contexts.map(|(_, bytes)| bytes).sum();
        let peak = i128::from(replay.counters(device, Level::DRIVER).peak);
        let stray_of = facts.main.filter(|_| peak < contexts / NEXT_TO_NOTHING);
        let pieces = parts
            .pieces
            .iter()
            .filter(|(id, bytes)| **bytes != 0 || always(id.kind));
        let mut sums: BTreeMap<RowId, Sum> = BTreeMap::new();
        for (id, bytes) in pieces {
            let sum = sums.entry(row_id(id, by)).or_default();
            sum.bytes += bytes;
            if let Some(library) = &id.library {
                *sum.libraries.entry(library.clone()).or_default() += bytes;
            }
            if let Some(owner) = &id.owner {
                *sum.owners.entry(owner.clone()).or_default() += bytes;
            }
        }
        let mut rows: Vec<LedgerRow> = sums
            .into_iter()
            .map(|(id, sum)| row(id, &sum, &parts, (replay, stray_of)))
            .collect();
        rows.sort_by_cached_key(order);
        let jumps = replay
            .devices
            .get(&device)
            .map(|device| &device.readings.jumps);
        let card = reading.and_then(|reading| reading.card);
        let (pool, seq, time) = (parts.pool, parts.seq, parts.time);
        let ended = matches!(at, LedgerAt::End);
        Self {
            device: device.0,
            seq: Some(seq.0),
            time_ns: Some(time.0),
            // The end has no phase.
            when: match ended {
                true => When::default(),
                false => when_of(replay, parts.span_context),
            },
            bytes: rows
                .iter()
                .map(|row| i128::from(row.bytes))
                .sum::<i128>()
                .max(0) as u64,
            total_bytes: card
                .map(|card| card.total)
                .filter(|total| *total > 0)
                .or_else(|| Some(replay.names.devices.get(&device)?.total_bytes)),
            rows,
            driver_bytes: parts.driver,
            driver_peak_bytes: replay.counters(device, Level::DRIVER).peak,
            physical_bytes: facts.physical.then_some(parts.physical),
            host_bytes: parts.host,
            managed_bytes: parts.managed,
            alias_bytes: parts.aliases,
            nvml_process_bytes: reading.and_then(|reading| reading.process),
            nvml_used_bytes: card.map(|card| card.used),
            other_processes_bytes: reading.and_then(|reading| reading.others),
            driver_reserved_bytes: card.and_then(|card| card.reserved),
            unexplained_bytes: unexplained,
            reading: reading.map(Into::into),
            contexts_and_code_ns: None,
            pool,
            workspaces: parts.workspaces,
            categories: Vec::new(),
            jumps: jumps
                .into_iter()
                .flatten()
                .map(|jump| {
                    let owner = jump
                        .key
                        .map(|key| owner(&replay.names, replay.stacks(key), Level::DRIVER));
                    JumpRow {
                        from_ns: jump.from.0,
                        time_ns: jump.time.0,
                        seq: jump.seq.0,
                        bytes: jump.bytes,
                        place: Place::of(owner.as_ref()),
                        owner,
                    }
                })
                .collect(),
            at,
        }
    }
}

/// Adds NVML's figures beyond the physical level. Returns the unexplained bytes. The figures are as of the reading;
/// the difference does not depend on allocations in between.
fn nvml(parts: &mut Parts, reading: &Reading) -> i64 {
    let mut add = |kind, bytes: i128| {
        let id = PieceId {
            kind,
            which: 0,
            library: None,
            owner: None,
        };
        *parts.pieces.entry(id).or_default() += bytes;
    };
    // Bytes without driver events are already in the parts.
    let beyond = i128::from(reading.beyond().unwrap_or(0)) - i128::from(parts.unseen);
    let managed = beyond.clamp(0, i128::from(parts.managed));
    add(Kind::Managed, managed);
    add(Kind::Unexplained, beyond - managed);
    let reserved = reading.card.and_then(|card| card.reserved);
    add(Kind::DriverReserved, i128::from(reserved.unwrap_or(0)));
    let others = reading.others.map_or(0, i128::from);
    let rest = match (reading.card, reading.process) {
        (Some(card), Some(process)) => {
            let known = i128::from(reserved.unwrap_or(0)) + i128::from(process) + others;
            i128::from(card.used) - known
        }
        _ => 0,
    };
    // If NVML does not report other processes, the rest of the card is attributed to them.
    match reading.others {
        Some(_) => {
            add(Kind::OtherProcesses, others);
            add(Kind::NoProcess, rest);
        }
        None => add(Kind::OtherProcesses, rest),
    }
    (beyond - managed).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Whether a row is shown even without bytes.
fn always(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Tensors | Kind::Cached | Kind::OtherProcesses | Kind::Unexplained
    )
}

fn row_id(id: &PieceId, by: By) -> RowId {
    let plain = RowId {
        kind: id.kind,
        which: id.which,
        name: None,
        owner: None,
    };
    let named = |kind| RowId {
        kind,
        which: 0,
        name: id.library.clone(),
        owner: None,
    };
    match (by, &id.library, &id.owner) {
        // A context is used by all libraries, so it does not belong to the one that created it.
        (By::Owner, Some(_), _) if id.kind != Kind::Context => named(Kind::Owner),
        (By::Line, _, Some(owner)) => RowId {
            kind: Kind::Line,
            which: 0,
            name: None,
            owner: Some(owner.clone().whole()),
        },
        _ if matches!(id.kind, Kind::Library | Kind::Module) => named(id.kind),
        _ => plain,
    }
}

/// Fixed rows are first, in the table's order; those of libraries, lines and contexts are by size in between.
fn order(row: &LedgerRow) -> (u8, Reverse<i64>, String) {
    let (place, by_size) = match row.kind {
        Kind::Tensors => (0, false),
        Kind::Cached => (1, false),
        Kind::NoProcess => (4, false),
        Kind::DriverReserved => (5, false),
        Kind::OtherProcesses => (6, false),
        Kind::Managed => (7, false),
        Kind::Unexplained => (8, false),
        Kind::Rounding | Kind::Pool | Kind::GraphUnused => (3, true),
        _ => (2, true),
    };
    let size = if by_size { row.bytes } else { 0 };
    (place, Reverse(size), row.name.clone())
}

fn row(
    id: RowId,
    sum: &Sum,
    parts: &Parts,
    (replay, stray_of): (&Replay, Option<DeviceOrdinal>),
) -> LedgerRow {
    let owner = match id.owner {
        Some(owner) => Some(owner),
        None => sum
            .owners
            .iter()
            .max_by_key(|(owner, bytes)| {
                let is_line = owner.line().is_some();
                (is_line, **bytes, Reverse((*owner).clone()))
            })
            .map(|(owner, _)| owner.clone())
            .filter(|_| id.kind != Kind::Tensors),
    };
    let library = match id.kind {
        Kind::Line => owner.as_ref().and_then(Owner::library),
        Kind::Owner | Kind::Library | Kind::Module | Kind::Context => sum
            .libraries
            .first_key_value()
            .map(|(name, _)| name.clone()),
        _ => None,
    };
    let free = parts
        .pool
        .as_ref()
        .map(|pool| pool.largest_free_block_bytes);
    let detail = match id.kind {
        Kind::Cached => free
            .filter(|free| *free > 0)
            .map(|free| format!("largest block {}", text(free))),
        Kind::Line => through(&sum.libraries),
        Kind::Managed => Some(format!("of {} requested", text(parts.managed))),
        _ => None,
    };
    let name = name(
        &id.kind,
        id.name.as_deref(),
        sum.bytes,
        owner.as_ref(),
        replay,
        stray_of,
    );
    let seen = id.kind == Kind::Cached && parts.unseen > 0 && parts.driver > 0;
    LedgerRow {
        kind: id.kind,
        name: if seen {
            format!("{name} (partly not seen at the driver level)")
        } else {
            name
        },
        bytes: sum.bytes.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        library,
        place: Place::of(owner.as_ref()),
        owner,
        detail,
    }
}
