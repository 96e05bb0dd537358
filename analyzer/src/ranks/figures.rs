//! The figures of one capture by which ranks are compared.

use std::path::{Path, PathBuf};

use gpumem_capture::{DeviceOrdinal, Header, Level, ProcessKey};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::coordinates::Coordinates;
use super::course::Part;
use super::endings::{End, Ended};
use super::facts::facts;
use super::holders::{Held, Keys, Of, Place, Text};
use super::nccl::held_by;
use super::steps::{StepWatch, Steps};
use super::watch::Drawn;
use crate::attribution::library;
use crate::names::NO_MODULE;
use crate::replay::{At, Replay};
use crate::session::Session;
use crate::source::Readable;
use crate::views::{ByStack, LineRow, Lines, Select, categories, modules};

/// One rank of the job, from its capture. Figures in bytes are those of the GPU `device`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankRow {
    /// Number of the rank. If no capture has a rank, captures are numbered from 0 in the order of their names.
    pub rank: u64,
    /// Whether the number comes from the launcher (torchrun, Slurm, MPI) and not from the order of names.
    pub is_numbered: bool,
    /// Path of the capture.
    pub file: PathBuf,
    /// Host name of the machine; `None`: not known.
    pub host: Option<String>,
    /// Number of the rank among those on its machine, from the launcher; `None`: not known.
    pub local_rank: Option<u64>,
    /// Number of the machine in the job, from the launcher; `None`: not known.
    pub node_rank: Option<u64>,
    /// Number of times that the launcher had restarted the ranks before this process; `None`: not known.
    pub restarts: Option<u64>,
    /// Process ID of the rank; 0: not known.
    pub pid: u32,
    /// Coordinates of the rank in the mesh, from `--mesh` or the capture; `None`: not known.
    pub coordinates: Option<Coordinates>,
    /// Ordinal of the GPU on which the process held most; `None`: it used no GPU.
    pub device: Option<u8>,
    /// UUID of that GPU; `None`: not known.
    pub uuid: Option<String>,
    /// Total memory of that GPU in bytes; `None`: not known.
    pub card_bytes: Option<u64>,
    /// Other GPUs on which the process held memory: pairs of ordinal and peak in bytes. Absent if there are no others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_devices: Vec<(u8, u64)>,
    /// Peak in bytes of the memory of tensors. The three peaks can be at different points in time.
    pub tensor_peak_bytes: u64,
    /// Peak in bytes of the memory that PyTorch's allocator reserved.
    pub reserved_peak_bytes: u64,
    /// Peak in bytes of the physical memory of the process. If it was not recorded: the larger of the peaks of the
    /// driver level and of reserved memory.
    pub device_peak_bytes: u64,
    /// Bytes that NCCL had allocated from the driver at the driver level's peak.
    pub nccl_bytes: u64,
    /// Bytes of symmetric memory, NVSHMEM's heap included, at the driver level's peak.
    pub symmetric_bytes: u64,
    /// NVML's figure of the process, minus the physical level and the bytes that managed memory can explain, at the
    /// last reading during which memory did not change, else at the last reading. Negative: more is explained than
    /// NVML shows; `None`: not measured.
    pub unexplained_bytes: Option<i64>,
    /// Number of steps that ended.
    pub steps: u64,
    /// How and when the rank ended.
    #[serde(flatten)]
    pub end: End,
    /// Everything that is missing or inconsistent in the capture, one sentence each; empty: its figures are exact.
    pub missing: Vec<String>,
}

impl RankRow {
    /// The peak of a part.
    pub fn peak(&self, part: Part) -> u64 {
        match part {
            Part::Tensors => self.tensor_peak_bytes,
            Part::Reserved => self.reserved_peak_bytes,
            Part::Process => self.device_peak_bytes,
        }
    }

    /// The figures of a capture that was read.
    pub fn of(file: &Path, session: &Session) -> Self {
        Self {
            end: Ended::of(session),
            missing: session.account.missing.clone(),
            ..Self::so_far(file, &session.header, &session.replay)
        }
    }

    /// The figures so far of a capture that is being read; without its end and what it lacks.
    pub fn so_far(file: &Path, header: &Header, replay: &Replay) -> Self {
        let number = |key: &str| replay.names.fact(key)?.parse().ok();
        let device = main_device(replay);
        let on = device.and_then(|device| replay.devices.get(&device));
        let known = device.and_then(|device| replay.names.devices.get(&device));
        let others = replay
            .devices
            .keys()
            .filter(|of| **of != DeviceOrdinal::NONE && Some(**of) != device);
        let others = others.map(|of| (of.0, held_most(replay, *of)));
        let rank = number(ProcessKey::RANK);
        let (nccl_bytes, symmetric_bytes) =
            device.map_or((0, 0), |device| library_bytes(replay, device));
        Self {
            rank: rank.unwrap_or(0),
            is_numbered: rank.is_some(),
            file: file.to_owned(),
            host: replay.names.fact(ProcessKey::HOST).map(str::to_owned),
            local_rank: number(ProcessKey::LOCAL_RANK),
            node_rank: number(ProcessKey::NODE_RANK),
            restarts: number(ProcessKey::RESTARTS),
            pid: header.pid,
            coordinates: Coordinates::of(replay),
            device: device.map(|device| device.0),
            uuid: known.and_then(|known| known.uuid_text()),
            card_bytes: known.map(|known| known.total_bytes),
            other_devices: others.filter(|(_, bytes)| *bytes > 0).collect(),
            tensor_peak_bytes: device.map_or(0, |of| replay.counters(of, Level::TENSOR).peak),
            reserved_peak_bytes: on.map_or(0, |on| on.reserved_peak),
            device_peak_bytes: device.map_or(0, |device| held_most(replay, device)),
            nccl_bytes,
            symmetric_bytes,
            unexplained_bytes: on.and_then(|on| on.readings.best()?.unexplained()),
            steps: replay.spans.steps,
            ..Self::default()
        }
    }
}

/// The figures of a rank's capture for the comparison.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The figures that are printed.
    pub row: RankRow,
    /// The number of ranks in the job, from the launcher; `None`: not known.
    pub world_size: Option<u64>,
    /// Time at which recording began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// The source files that may be read.
    pub source: Readable,
    /// The peak of tensors in each step.
    pub steps: Steps,
    /// Versions and settings that the ranks of a job should share.
    pub facts: Vec<(Text, Text)>,
    /// The bytes of each holder at the peaks.
    pub held: Vec<Held>,
    /// The data for pictures.
    pub drawn: Drawn,
}

impl Figures {
    /// Computes the figures of a capture whose records `watch` observed.
    pub fn of(file: &Path, session: &Session, mut watch: StepWatch, keys: &mut Keys) -> Self {
        let replay = &session.replay;
        let device = main_device(replay);
        let steps = device.map(|device| watch.of(device)).unwrap_or_default();
        let held = device
            .map(|device| held(session, device, keys))
            .unwrap_or_default();
        let world_size = replay.names.fact(ProcessKey::WORLD_SIZE);
        let row = RankRow {
            steps: steps.ended,
            ..RankRow::of(file, session)
        };
        Self {
            row,
            world_size: world_size.and_then(|size| size.parse().ok()),
            started_unix_ns: session.header.started_wall_ns,
            source: Readable::of(&replay.names, &session.header),
            steps,
            facts: facts(&replay.names, device, keys),
            held,
            drawn: Drawn::default(),
        }
    }
}

fn held_most(replay: &Replay, device: DeviceOrdinal) -> u64 {
    let peak = |level| replay.counters(device, level).peak;
    let reserved = replay.devices.get(&device).map_or(0, |on| on.reserved_peak);
    match peak(Level::PHYSICAL) {
        // An imported snapshot has only PyTorch's own figures.
        0 => peak(Level::DRIVER).max(reserved),
        physical => physical,
    }
}

/// The device with most memory; of equal ones, the lowest number.
fn main_device(replay: &Replay) -> Option<DeviceOrdinal> {
    let devices = replay
        .devices
        .keys()
        .filter(|of| **of != DeviceOrdinal::NONE);
    devices
        .copied()
        .rev()
        .max_by_key(|device| held_most(replay, *device))
}

/// Bytes of NCCL and of symmetric memory at the driver level's peak.
fn library_bytes(replay: &Replay, device: DeviceOrdinal) -> (u64, u64) {
    let (mut nccl, mut symmetric) = (0, 0);
    for (stacks, figure) in replay.figures(device, Level::DRIVER, At::Peak) {
        let called = library(&replay.names, stacks, Level::DRIVER);
        match held_by(called.as_deref()) {
            Of::Nccl => nccl += figure.bytes,
            Of::Symmetric => symmetric += figure.bytes,
            _ => {}
        }
    }
    (nccl, symmetric)
}

fn held(session: &Session, device: DeviceOrdinal, keys: &mut Keys) -> Vec<Held> {
    let replay = &session.replay;
    let select = Select {
        device: Some(device),
        ..Select::default()
    };
    let at_peak = |level| ByStack::at(replay, level, At::Peak, &select);
    let mut found: FxHashMap<u32, u64> = FxHashMap::default();
    let mut add = |of, name, bytes, line: Option<&LineRow>| {
        let key = keys.number(of, name);
        *found.entry(key).or_default() += bytes;
        if let Some(line) = line {
            keys.place(key, || Place::of(&line.owner, &replay.names));
        }
    };
    let tensors = at_peak(Level::TENSOR);
    for row in &Lines::of(replay, &tensors).rows {
        add(
            Of::Line,
            row.owner.label(&replay.names),
            row.bytes,
            Some(row),
        );
    }
    for row in categories(&tensors) {
        add(
            Of::Category,
            row.category.name().to_owned(),
            row.bytes,
            None,
        );
    }
    if replay.has_modules() {
        for row in modules(replay, &tensors) {
            let name = row.module.unwrap_or_else(|| NO_MODULE.into());
            add(Of::Module, name, row.bytes, None);
        }
    }
    for of in [Of::Pool, Of::Nccl, Of::Symmetric, Of::Outside] {
        let mut driver = at_peak(Level::DRIVER);
        driver.retain(|stacks| {
            let called = library(&replay.names, stacks, Level::DRIVER);
            held_by(called.as_deref()) == of
        });
        for row in &Lines::of(replay, &driver).rows {
            add(of, row.owner.label(&replay.names), row.bytes, Some(row));
        }
    }
    let outside = replay.counters(device, Level::PHYSICAL).peak;
    let outside = outside.saturating_sub(replay.counters(device, Level::DRIVER).peak);
    if outside > 0 {
        add(
            Of::Outside,
            "(contexts, kernels and whole pages)".into(),
            outside,
            None,
        );
    }
    let mut rows: Vec<_> = found.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    rows.sort_unstable();
    rows
}
