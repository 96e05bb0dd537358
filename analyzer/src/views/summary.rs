//! The figures of each device and level.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{Coordinates, CounterValues, DeviceOrdinal, Level, ProcessKey};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::calls::{Calls, calls};
use super::categories::{by_category, by_name};
use super::pytorch::PyTorchSummary;
use crate::account::{Reached, Replayed, When, duration, limit_of, room_of, when_of};
use crate::replay::{At, Category, Figure, Replay, ReservationKind};
use crate::session::Session;

/// Everything that `summary` prints.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Whether the figures are proven.
    pub exact: bool,
    /// Events read.
    pub events: u64,
    /// The number of the last record. Records of names and stacks have numbers too, so it is more than `events`.
    pub last_event: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// What is missing, one line each; empty where the figures are exact.
    pub missing: Vec<String>,
    /// Further notes of the account.
    pub notes: Vec<String>,
    /// What the capture was made from, if the recorder did not make it: the figures are those of that, and
    /// process and card are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// What it is a replay of, if a replay wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
    /// Hooks that were armed.
    pub hooks: usize,
    /// By which way each library reached the driver.
    pub reached: Vec<Reached>,
    /// What was seen of each hooked function below the tensor level, most events first.
    pub calls: Vec<Calls>,
    /// Steps of the training that ended; 0: none were marked.
    pub steps: u64,
    /// Allocations that failed because memory was exhausted.
    pub out_of_memory_events: u64,
    /// What ran.
    pub process: ProcessSummary,
    /// Each device.
    pub devices: Vec<DeviceSummary>,
    /// Pinned memory that was allocated for no device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_of_no_device: Option<LevelSummary>,
}

/// What ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[allow(missing_docs)] // the fields are those of `ProcessKey` and of the capture's header
pub struct ProcessSummary {
    pub pid: u32,
    pub command: Option<String>,
    pub executable: Option<String>,
    pub directory: Option<String>,
    pub host: Option<String>,
    pub rank: Option<u64>,
    pub world_size: Option<u64>,
    pub local_rank: Option<u64>,
    pub node_rank: Option<u64>,
    /// The rank's number in each dimension of the job's parallelism.
    #[serde(serialize_with = "by_dimension")]
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    pub coordinates: Option<Coordinates>,
    pub job: Option<String>,
    pub restarts: Option<u64>,
    pub requeues: Option<u64>,
    pub python: Option<String>,
    pub driver_version: Option<String>,
    pub recorder_version: Option<String>,
    /// PyTorch's version and its allocator; `None`: the process had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pytorch: Option<PyTorchSummary>,
    pub stacks: Option<String>,
    /// Nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// From opening the capture to the clean end or the last event.
    pub duration_ns: u64,
    /// "clean", "killed" or "running".
    pub ending: &'static str,
    /// Threads that recorded an event.
    pub threads: usize,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[allow(missing_docs)] // the fields are the levels
pub struct DeviceSummary {
    pub ordinal: u8,
    pub name: Option<String>,
    pub uuid: Option<String>,
    pub pci: Option<String>,
    /// Memory of the card; `None` if the capture does not say.
    pub total_bytes: Option<u64>,
    /// What the program was shown of it, where GPUMEM_LIMIT or `gpumem_limit` made it look smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// What the allocator had and could have had when it ran out of memory, where the card is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_room_bytes: Option<u64>,
    pub tensor: LevelSummary,
    /// What the tensors are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategorySummary>,
    pub driver: LevelSummary,
    pub host: LevelSummary,
    pub reserved: ReservedSummary,
    pub physical: PhysicalSummary,
    /// The moment at which it held most.
    pub peak: Option<PeakSummary>,
    /// What the live contexts cost at the end, each by itself.
    pub contexts: Vec<ContextSummary>,
    /// Readings of NVML.
    pub readings: u64,
    /// NVML's figure of this process at its last reading.
    pub nvml_process_bytes: Option<u64>,
    /// NVML's used figure of the card then.
    pub nvml_used_bytes: Option<u64>,
    /// NVML's figure less everything accounted for, at its last reading; `None`: not measured.
    pub unexplained_bytes: Option<i64>,
}

/// Tensors of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CategorySummary {
    /// Its name.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub category: Category,
    /// Bytes live at the end.
    pub live_bytes: u64,
    /// Bytes live at the tensors' peak.
    pub peak_bytes: u64,
}

/// A device's peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeakSummary {
    /// Which event.
    pub seq: u64,
    /// Its time, ns since the capture was opened.
    pub time_ns: u64,
    /// What the program was at.
    #[serde(flatten)]
    pub when: When,
}

/// A context that is live at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextSummary {
    /// Its handle.
    pub handle: u64,
    /// What it costs, its limits included.
    pub bytes: u64,
}

/// One level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct LevelSummary {
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub allocations: u64,
    pub frees: u64,
}

/// What the framework held from the driver, by its own events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct ReservedSummary {
    pub live_bytes: u64,
    pub peak_bytes: u64,
}

/// What the card gave; `None`: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct PhysicalSummary {
    pub live_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
}

impl From<CounterValues> for LevelSummary {
    fn from(values: CounterValues) -> Self {
        Self {
            live_bytes: values.live,
            peak_bytes: values.peak,
            allocations: values.allocations,
            frees: values.frees,
        }
    }
}

impl Summary {
    /// The summary of a session.
    pub fn of(session: &Session) -> Self {
        let (replay, header) = (&session.replay, &session.header);
        let fact = |key: &str| replay.names.fact(key).map(str::to_owned);
        let number = |key: &str| replay.names.fact(key)?.parse().ok();
        let mut ordinals: BTreeSet<DeviceOrdinal> = replay.names.devices.keys().copied().collect();
        ordinals.extend(replay.devices.keys());
        ordinals.remove(&DeviceOrdinal::NONE);
        let no_device = replay.counters(DeviceOrdinal::NONE, Level::HOST);
        Self {
            exact: session.account.is_exact(),
            events: session.integrity.events,
            last_event: replay.last_seq.0,
            lost_events: session.integrity.events_lost,
            missing: session.account.missing.clone(),
            notes: session.account.notes.clone(),
            imported: session.account.imported.clone(),
            replayed: session.account.replayed.clone(),
            hooks: session.account.hooks,
            reached: session.account.reached.clone(),
            calls: calls(replay),
            steps: replay.spans.steps,
            out_of_memory_events: replay.failures.count(),
            process: ProcessSummary {
                pid: header.pid,
                command: fact(ProcessKey::COMMAND),
                executable: fact(ProcessKey::EXECUTABLE),
                directory: fact(ProcessKey::DIRECTORY),
                host: fact(ProcessKey::HOST),
                rank: number(ProcessKey::RANK),
                world_size: number(ProcessKey::WORLD_SIZE),
                local_rank: number(ProcessKey::LOCAL_RANK),
                node_rank: number(ProcessKey::NODE_RANK),
                coordinates: replay
                    .names
                    .fact(ProcessKey::COORDINATES)
                    .and_then(Coordinates::parse),
                job: fact(ProcessKey::JOB),
                restarts: number(ProcessKey::RESTARTS),
                requeues: number(ProcessKey::REQUEUES),
                python: replay.names.interpreter.map(|python| {
                    let part = |shift: u32| python.version >> shift & 0xff;
                    format!("{}.{}.{}", part(24), part(16), part(8))
                }),
                driver_version: fact(ProcessKey::DRIVER_VERSION),
                recorder_version: fact(ProcessKey::RECORDER_VERSION),
                pytorch: PyTorchSummary::of(replay),
                stacks: fact(ProcessKey::STACKS),
                started_unix_ns: header.started_wall_ns,
                duration_ns: duration(header, replay).0,
                ending: session.account.ending.word(),
                threads: replay.threads(),
            },
            devices: ordinals
                .into_iter()
                .map(|ordinal| device(session, ordinal))
                .collect(),
            host_of_no_device: (!no_device.is_zero()).then(|| no_device.into()),
        }
    }
}

/// An object: the number by the dimension's name.
fn by_dimension<S: Serializer>(of: &Option<Coordinates>, to: S) -> Result<S::Ok, S::Error> {
    match of {
        Some(coordinates) => to.collect_map(coordinates.iter()),
        None => to.serialize_none(),
    }
}

fn device(session: &Session, ordinal: DeviceOrdinal) -> DeviceSummary {
    let replay = &session.replay;
    let known = replay.names.devices.get(&ordinal);
    let level = |level| LevelSummary::from(replay.counters(ordinal, level));
    let peak = replay.devices.get(&ordinal);
    let reading = peak.and_then(|peak| peak.readings.best());
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let physical = replay
        .levels
        .get(&(ordinal, Level::PHYSICAL))
        .map(|row| row.counters);
    DeviceSummary {
        ordinal: ordinal.0,
        name: known.and_then(|known| text(&known.name)),
        uuid: known.and_then(|known| known.uuid_text()),
        pci: known.and_then(|known| text(&known.pci)),
        total_bytes: known.map(|known| known.total_bytes),
        limit_bytes: limit_of(replay, ordinal),
        allocator_room_bytes: room_of(replay, ordinal),
        tensor: level(Level::TENSOR),
        categories: categories(replay, ordinal),
        driver: level(Level::DRIVER),
        host: level(Level::HOST),
        reserved: ReservedSummary {
            live_bytes: peak.and_then(|peak| peak.now.reserved).unwrap_or(0),
            peak_bytes: peak.map_or(0, |peak| peak.reserved_peak),
        },
        physical: PhysicalSummary {
            live_bytes: physical.map(|values| values.live),
            peak_bytes: physical.map(|values| values.peak),
        },
        peak: peak.and_then(|peak| {
            let (seq, time) = peak.moment?;
            Some(PeakSummary {
                seq: seq.0,
                time_ns: time.0,
                when: when_of(replay, peak.span_context),
            })
        }),
        contexts: contexts(replay, ordinal),
        readings: peak.map_or(0, |peak| peak.readings.count),
        nvml_process_bytes: reading.and_then(|reading| reading.process),
        nvml_used_bytes: reading.and_then(|reading| Some(reading.card?.used)),
        unexplained_bytes: reading.and_then(|reading| reading.unexplained()),
    }
}

fn categories(replay: &Replay, device: DeviceOrdinal) -> Vec<CategorySummary> {
    let at = |moment| by_category(replay.figures(device, Level::TENSOR, moment).into_iter());
    let [live, peak] = [at(At::End), at(At::Peak)];
    let bytes =
        |of: &BTreeMap<Category, Figure>, category| of.get(&category).map_or(0, |f| f.bytes);
    let rows = Category::ALL.map(|category| CategorySummary {
        category,
        live_bytes: bytes(&live, category),
        peak_bytes: bytes(&peak, category),
    });
    let mut rows: Vec<_> = rows
        .into_iter()
        .filter(|row| row.live_bytes > 0 || row.peak_bytes > 0)
        .collect();
    rows.sort_by_key(|row| (Reverse(row.peak_bytes), row.category));
    rows
}

fn contexts(replay: &Replay, ordinal: DeviceOrdinal) -> Vec<ContextSummary> {
    if let Some(row) = replay.levels.get(&(ordinal, Level::PHYSICAL)) {
        let reservations = row.reservations().into_iter();
        return reservations
            .filter(|(kind, _, _)| *kind == ReservationKind::Context)
            .map(|(_, handle, reservation)| ContextSummary {
                handle,
                bytes: reservation.bytes(),
            })
            .collect();
    }
    let live = replay.objects.contexts.iter();
    live.filter(|((device, _), _)| *device == ordinal)
        .map(|((_, handle), (_, bytes))| ContextSummary {
            handle: *handle,
            bytes: *bytes,
        })
        .collect()
}
