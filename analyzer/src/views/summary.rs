//! The figures of each device and level over a whole run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{Coordinates, CounterValues, DeviceOrdinal, Level, ProcessKey};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::calls::{Calls, calls};
use super::categories::{by_category, by_name};
use super::pytorch::PyTorchSummary;
use crate::account::{Reached, Replayed, When, duration, when_of};
use crate::replay::{At, Category, Figure, Replay, ReservationKind};
use crate::session::Session;

/// Figures of a whole capture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Whether all figures are proven to be exact: `missing` is empty.
    pub exact: bool,
    /// Number of events in the capture.
    pub events: u64,
    /// Number of the last event. It is larger than `events`, because names and stacks have numbers too.
    pub last_event: u64,
    /// Number of events that the recorder lost, and which the capture therefore lacks.
    pub lost_events: u64,
    /// Everything that is missing or inconsistent in the capture, one sentence each; empty: the figures are exact.
    pub missing: Vec<String>,
    /// Other facts about the accuracy of the capture, one sentence each; they do not make figures inexact.
    pub notes: Vec<String>,
    /// Source of an imported capture, such as `PyTorch snapshot dump.pickle`. Its figures are those of the source;
    /// process and GPU may not be known. Absent if the recorder or a replay wrote the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// The replay that wrote the capture (`gpumem whatif --save`); absent if no replay wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
    /// Number of distinct functions whose hooks were armed.
    pub hooks: usize,
    /// How each library reached the functions of the driver; empty if not known.
    pub reached: Vec<Reached>,
    /// Events and calls of each hooked function, the most events first. Events of the tensor level are not included.
    pub calls: Vec<Calls>,
    /// Number of steps of the training that ended; 0: no steps were marked.
    pub steps: u64,
    /// Number of allocations that failed because memory was exhausted. Requests that PyTorch's allocator repeated with
    /// success are not counted.
    pub out_of_memory_events: u64,
    /// The recorded process.
    pub process: ProcessSummary,
    /// One entry per GPU, by ordinal; empty if no GPU was used.
    pub devices: Vec<DeviceSummary>,
    /// Pinned host memory that was allocated for no device; absent if no such memory was allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_of_no_device: Option<LevelSummary>,
}

/// The recorded process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[allow(missing_docs)] // the fields are those of `ProcessKey` and of the capture's header
pub struct ProcessSummary {
    /// Process ID; 0: not known.
    pub pid: u32,
    /// Command line, each argument quoted for a shell; `None`: not known.
    pub command: Option<String>,
    /// Path of the executable; `None`: not known.
    pub executable: Option<String>,
    /// Working directory when recording began; `None`: not known.
    pub directory: Option<String>,
    /// Host name of the machine; `None`: not known.
    pub host: Option<String>,
    /// Rank of the process in its job, from the launcher's environment; `None`: not known.
    pub rank: Option<u64>,
    /// Number of ranks in the job, from the launcher's environment; `None`: not known.
    pub world_size: Option<u64>,
    /// Number of the rank among those on its machine, from the launcher's environment; `None`: not known.
    pub local_rank: Option<u64>,
    /// Number of the machine in the job, from the launcher's environment; `None`: not known.
    pub node_rank: Option<u64>,
    /// Index of the rank in each dimension of the job's parallelism, by the dimension's name; `None`: not known.
    #[serde(serialize_with = "by_dimension")]
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    pub coordinates: Option<Coordinates>,
    /// Names of the job in launchers and schedulers, separated by blanks, such as `torchrun:run-7 slurm:4711`; `None`:
    /// not known.
    pub job: Option<String>,
    /// Number of times that the launcher had restarted the ranks before this process; `None`: not known.
    pub restarts: Option<u64>,
    /// Number of times that the scheduler had requeued the job; `None`: not known.
    pub requeues: Option<u64>,
    /// Version of the Python interpreter, such as `3.12.4`; `None`: no interpreter is known.
    pub python: Option<String>,
    /// Version of the CUDA driver API, as `cuDriverGetVersion` returns it; `None`: not known.
    pub driver_version: Option<String>,
    /// Version of the recorder, libgpumem.so; `None`: not known.
    pub recorder_version: Option<String>,
    /// PyTorch and its allocator; absent if PyTorch is not known to be in the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pytorch: Option<PyTorchSummary>,
    /// Kind of the recorded stacks (`GPUMEM_STACKS`): `mixed`, `python`, `native` or `off`; `None`: not known.
    pub stacks: Option<String>,
    /// Time at which recording began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Nanoseconds from the opening of the capture to the normal exit of the process, or to the last event if there
    /// was no such exit.
    pub duration_ns: u64,
    /// How the process ended: `clean` (it exited normally), `running` (it has not ended) or `killed` (it ended without
    /// running its exit handlers).
    pub ending: &'static str,
    /// Number of threads that recorded an event.
    pub threads: usize,
}

/// Figures of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[allow(missing_docs)] // the fields are the levels
pub struct DeviceSummary {
    /// Ordinal of the GPU.
    pub ordinal: u8,
    /// Product name of the GPU; `None`: not known.
    pub name: Option<String>,
    /// UUID of the GPU; `None`: not known.
    pub uuid: Option<String>,
    /// PCI address of the GPU; `None`: not known.
    pub pci: Option<String>,
    /// Total memory of the GPU in bytes; `None`: not known.
    pub total_bytes: Option<u64>,
    /// Limit in bytes of the memory that the program could use, set by `GPUMEM_LIMIT` or `gpumem_limit`; absent if no
    /// limit below the GPU's memory was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// For an imported capture whose GPU is not known: bytes that PyTorch's allocator had reserved plus bytes that
    /// were free, when it ran out of memory. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_room_bytes: Option<u64>,
    /// Tensor level: blocks that the framework's pool handed out.
    pub tensor: LevelSummary,
    /// Bytes of tensors by category, the largest at the peak first; absent if the GPU had no tensors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategorySummary>,
    /// Driver level: device memory that the process requested from CUDA.
    pub driver: LevelSummary,
    /// Host level: pinned host memory of this GPU.
    pub host: LevelSummary,
    /// Memory that the framework's pool had reserved from the driver.
    pub reserved: ReservedSummary,
    /// Physical memory of the process on the GPU.
    pub physical: PhysicalSummary,
    /// Point in time at which the GPU held most; `None`: it never held memory.
    pub peak: Option<PeakSummary>,
    /// Contexts that are live at the end of the capture; empty if there are no live contexts.
    pub contexts: Vec<ContextSummary>,
    /// Number of readings of NVML on this GPU.
    pub readings: u64,
    /// NVML's figure of this process in bytes, at the last reading during which memory did not change, else at the
    /// last reading; `None`: NVML was not read or does not report it.
    pub nvml_process_bytes: Option<u64>,
    /// NVML's figure of the used memory of the GPU in bytes, at the same reading; `None`: NVML was not read.
    pub nvml_used_bytes: Option<u64>,
    /// NVML's figure of this process, minus the physical level and the bytes that managed memory can explain, at the
    /// same reading. Negative: more is explained than NVML shows; `None`: not measured.
    pub unexplained_bytes: Option<i64>,
}

/// Tensors of one category on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CategorySummary {
    /// Category: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary` or
    /// `other`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub category: Category,
    /// Bytes of tensors of this category that are live at the end of the capture.
    pub live_bytes: u64,
    /// Bytes of tensors of this category that were live at the peak of all tensors on the GPU.
    pub peak_bytes: u64,
}

/// Point in time at which a GPU held most: the peak of its tensors, or of the driver level if it has no tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeakSummary {
    /// Number of the event at the peak.
    pub seq: u64,
    /// Time of the peak, in nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Step, phase and range at the peak.
    #[serde(flatten)]
    pub when: When,
}

/// A context that is live at the end of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextSummary {
    /// Handle of the context (`CUcontext`), as a number.
    pub handle: u64,
    /// Memory of the context in bytes at the end, its limits included.
    pub bytes: u64,
}

/// Figures of one level on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct LevelSummary {
    /// Bytes that are live at the end of the capture.
    pub live_bytes: u64,
    /// Peak of the live bytes over the whole run. The peaks of levels can be at different points in time.
    pub peak_bytes: u64,
    /// Number of allocations over the whole run.
    pub allocations: u64,
    /// Number of frees over the whole run.
    pub frees: u64,
}

/// Memory that the framework's pool had reserved from the driver, by the framework's own events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct ReservedSummary {
    /// Reserved bytes at the end of the capture; 0 if the framework reported no figure.
    pub live_bytes: u64,
    /// Peak of the reserved bytes over the whole run; 0 if the framework reported no figure.
    pub peak_bytes: u64,
}

/// Physical memory of the process on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct PhysicalSummary {
    /// Bytes at the end of the capture; `None`: the capture does not have the physical level.
    pub live_bytes: Option<u64>,
    /// Peak in bytes over the whole run; `None`: the capture does not have the physical level.
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
    /// Computes the summary of a session.
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
        limit_bytes: replay.limit_of(ordinal),
        allocator_room_bytes: replay.room_of(ordinal),
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
