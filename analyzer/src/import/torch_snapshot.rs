//! A capture made from a snapshot of PyTorch's allocator.
//!
//! Sizes of tensors are the requested bytes: a trace has no others. The allocator's segments are the driver level.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::BufWriter;
use std::path::Path;

use gpumem_capture::embedded::embed;
use gpumem_capture::{ApiId, Definition, Nanos, Origin, ProcessKey};
use gpumem_files::write::{By, NewFile};

use super::capture::{Out, cut};
use super::device::Device;
use super::entry::{Action, Entry};
use super::error::ImportError;
use super::frames::Frames;
use super::memory::{PYTORCH, With};
use super::prior::Before;
use super::ranges::Ranges;
use super::seen;
use super::snapshot::{Segment, Snapshot, SnapshotError};
use crate::account::many;
use crate::ask;
use crate::units::{bytes, count};

/// How many devices of a capture have counters.
const DEVICES: usize = 63;

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Entries of all traces.
    pub entries: u64,
    /// Events that were written.
    pub events: u64,
    /// Devices with any segments or entries.
    pub devices: u64,
    /// The notes in the capture's account.
    pub notes: Vec<String>,
}

/// Writes a capture of the snapshot in `pickle` to `path`, which must not exist. `name` is the snapshot's name.
///
/// # Errors
/// If the snapshot cannot be parsed, or an operation of the system fails. The partial file is not removed.
pub fn torch_snapshot(pickle: &[u8], name: &str, path: &Path) -> Result<Imported, ImportError> {
    let snapshot = Snapshot::read(pickle)?;
    let mut devices = devices(&snapshot)?;
    let started = started(&snapshot)?;
    let mut hasher = DefaultHasher::new();
    pickle.hash(&mut hasher);
    let origin = Origin {
        started_wall_ns: started.saturating_mul(1000),
        nonce: hasher.finish(),
    };
    let mut out = Out::create(path, origin)?;
    out.define(&Definition::Process {
        key: ProcessKey::IMPORTED.into(),
        value: cut(&format!("PyTorch snapshot {name}")),
    })?;
    out.define(&Definition::Api {
        id: PYTORCH,
        name: "pytorch".into(),
    })?;
    debug_assert_ne!(PYTORCH, ApiId(0), "0 is no function");
    let mut frames = Frames::new(&mut out)?;
    let with = &mut With {
        snapshot: &snapshot,
        out: &mut out,
        frames: &mut frames,
    };
    for device in &mut devices {
        device.begin(with)?;
    }
    let mut ranges = Ranges::default();
    let (played, last) = play(&mut devices, &mut ranges, started, with)?;
    for device in &mut devices {
        device.end(last, with)?;
    }
    seen::tell(&snapshot, &devices, &mut out)?;
    let notes = notes(&snapshot, played, &devices);
    for text in &notes {
        out.define(&Definition::Note { text: text.clone() })?;
    }
    let events = out.events;
    out.finish(last)?;
    if frames.has_symbols() {
        name_natives(path, frames)?;
    }
    Ok(Imported {
        entries: played.entries,
        events,
        devices: devices.len() as u64,
        notes,
    })
}

/// The devices that have segments or a trace.
fn devices<'a>(snapshot: &'a Snapshot<'_>) -> Result<Vec<Device<'a>>, SnapshotError> {
    let mut devices = Vec::new();
    let beyond = |device: i64| {
        let what = format!("device {device} is out of range");
        SnapshotError::Other(what)
    };
    let mut last = snapshot.traces.len();
    for segment in &snapshot.segments {
        let device = usize::try_from(segment.device).ok();
        let device = device.filter(|device| *device < DEVICES);
        last = last.max(1 + device.ok_or_else(|| beyond(segment.device))?);
    }
    let mut by_device: Vec<Vec<&Segment>> = Vec::new();
    by_device.resize_with(DEVICES.min(last), Vec::new);
    for segment in &snapshot.segments {
        let device = usize::try_from(segment.device).unwrap_or(0);
        if let Some(of) = by_device.get_mut(device) {
            of.push(segment);
        }
    }
    for (number, trace) in snapshot.traces.iter().enumerate().skip(DEVICES) {
        if snapshot.entries(*trace).next().is_some() {
            return Err(beyond(number as i64));
        }
    }
    for (number, segments) in by_device.into_iter().enumerate() {
        let trace = snapshot.traces.get(number).copied();
        let trace = trace.filter(|trace| snapshot.entries(*trace).next().is_some());
        if trace.is_some() || !segments.is_empty() {
            devices.push(Device::new(number as u8, trace, segments, snapshot)?);
        }
    }
    Ok(devices)
}

/// The time of the first entry, in microseconds; 0 if no times are known.
fn started(snapshot: &Snapshot<'_>) -> Result<u64, SnapshotError> {
    let mut first = snapshot.annotations.iter().map(|of| of.time_us).min();
    for trace in &snapshot.traces {
        for entry in snapshot.entries(*trace) {
            let time = entry?.time_us;
            first = Some(first.map_or(time, |first| first.min(time)));
        }
    }
    Ok(first.unwrap_or(0))
}

/// A summary of all traces.
#[derive(Clone, Copy, Debug, Default)]
struct Played {
    entries: u64,
    /// Whether any entry describes a tensor. PyTorch can omit tensors and still record segments.
    of_tensors: bool,
}

fn is_of_tensor(action: Action) -> bool {
    use Action::{Alloc, FreeCompleted, FreeRequested};
    matches!(action, Alloc | FreeRequested | FreeCompleted)
}

/// The next entry or range.
enum Next {
    Entry(usize, Entry),
    Annotation(usize),
}

/// Writes the entries of all devices and the ranges, by time. Each list keeps its order: a time that is earlier than
/// the one before it counts as that one. Returns the summary and the last time.
fn play(
    devices: &mut [Device<'_>],
    ranges: &mut Ranges,
    started: u64,
    with: &mut With<'_, '_>,
) -> Result<(Played, Nanos), ImportError> {
    let snapshot = with.snapshot;
    let mut traces: Vec<_> = devices
        .iter()
        .map(|device| {
            device
                .trace()
                .into_iter()
                .flat_map(|trace| snapshot.entries(trace))
        })
        .collect();
    let mut heads: Vec<Option<Entry>> = Vec::new();
    for trace in &mut traces {
        heads.push(trace.next().transpose()?);
    }
    let mut annotations = snapshot.annotations.iter().enumerate().peekable();
    let (mut played, mut now) = (Played::default(), Nanos(0));
    loop {
        let entry = heads
            .iter()
            .enumerate()
            .filter_map(|(index, head)| Some((head.as_ref()?.time_us, index)))
            .min();
        let annotation = annotations.peek().map(|(index, of)| (of.time_us, *index));
        let next = match (entry, annotation) {
            (None, None) => return Ok((played, now)),
            (Some((at, _)), Some((named, index))) if named < at => Next::Annotation(index),
            (None, Some((_, index))) => Next::Annotation(index),
            (Some((_, index)), _) => {
                let Some(entry) = heads[index].take() else {
                    return Ok((played, now));
                };
                heads[index] = traces[index].next().transpose()?;
                Next::Entry(index, entry)
            }
        };
        let mut pass = |time_us: u64| {
            now = now.max(Nanos(time_us.saturating_sub(started).saturating_mul(1000)));
            now
        };
        match next {
            Next::Entry(index, entry) => {
                played.entries += 1;
                played.of_tensors |= is_of_tensor(entry.action);
                let time = pass(entry.time_us);
                if entry.action == Action::Snapshot {
                    ranges.snapshot(time, with.out)?;
                }
                devices[index].entry(&entry, time, with)?;
            }
            Next::Annotation(index) => {
                annotations.next();
                let annotation = &snapshot.annotations[index];
                let time = pass(annotation.time_us);
                ranges.annotation(snapshot, annotation, time, with.out)?;
            }
        }
    }
}

/// The notes of the account, with figures.
fn notes(snapshot: &Snapshot<'_>, played: Played, devices: &[Device<'_>]) -> Vec<String> {
    let blocks = || snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let live = || blocks().filter(|block| !block.waits);
    let sum = |of: &mut dyn Iterator<Item = u64>| of.fold(0, u64::saturating_add);
    let asked = sum(&mut live().map(|block| block.bytes));
    let rounded = sum(&mut live().map(|block| block.rounded));
    let mut notes = vec![format!(
        "tensor bytes are requested bytes; PyTorch's blocks that are live at the end have {}",
        match rounded.checked_sub(asked) {
            Some(0) | None => "the same".to_owned(),
            Some(more) => format!("{} more", bytes(more)),
        }
    )];
    let waits = blocks().filter(|block| block.waits);
    let (many_wait, wait) = waits.fold((0, 0_u64), |(blocks, sum), block| {
        (blocks + 1, sum.saturating_add(block.bytes))
    });
    if many_wait > 0 {
        notes.push(format!(
            "{} with {} freed, which {} for other streams at the end: counted as unallocated",
            many(many_wait, "block", "blocks"),
            bytes(wait),
            if many_wait == 1 { "waits" } else { "wait" }
        ));
    }
    if !played.of_tensors {
        notes.push(
            "the snapshot has no trace: tensors and their peak are those at the time of the snapshot".into(),
        );
    } else {
        for device in devices.iter().filter(|device| device.before().blocks > 0) {
            notes.push(begun(device.ordinal(), device.before()));
        }
    }
    let pinned = &snapshot.host_segments;
    if !pinned.is_empty() {
        notes.push(format!(
            "{} of pinned host memory with {} omitted",
            many(pinned.len() as u64, "segment", "segments"),
            bytes(sum(&mut pinned.iter().map(|segment| segment.bytes)))
        ));
    }
    notes
}

/// What existed before a device's trace.
fn begun(device: u8, before: &Before) -> String {
    let without = match before.without_stack {
        0 => String::new(),
        without => format!(
            ", {} of them without a stack ({})",
            count(without),
            bytes(before.bytes_without_stack)
        ),
    };
    format!(
        "GPU {device}: {} with {} from before the trace {} at its beginning{without}; a peak before that is not \
         known",
        many(before.blocks, "block", "blocks"),
        bytes(before.bytes),
        if before.blocks == 1 {
            "stands"
        } else {
            "stand"
        },
    )
}

/// Appends the names of native functions to the capture.
fn name_natives(path: &Path, frames: Frames) -> Result<(), ImportError> {
    let reader = ask::reader(path)?;
    let mut file = BufWriter::with_capacity(1 << 20, NewFile::create(path, By::User)?);
    embed(&reader, frames.symbols(), &mut file, &mut |_| {})?;
    let file = file.into_inner().map_err(|error| error.into_error())?;
    Ok(file.finish()?)
}
