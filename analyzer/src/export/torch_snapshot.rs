//! A snapshot of PyTorch's allocator for its viewer (memory_viz): the pool's segments at the end, and a trace of each
//! device.
//!
//! The viewer has undocumented requirements. Blocks fill their segment without a gap. The request and the completion
//! of a free are adjacent. Each entry has an address and a stream. Lists are filled in batches of 1000.
//!
//! The capture is read once for each device and entries are written immediately, so memory does not grow with the
//! capture.

use std::collections::BTreeSet;
use std::io::{self, Write};

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Record};

use super::torch_frames::Frames;
use super::torch_segments::{Segment, is_pools, mappings, segments};
use crate::pickle::{List, PickleWriter};
use crate::replay::{Effect, Replay, StackKey};
use crate::session::Session;
use crate::symbols::Symbols;
use crate::watch::Observer;

/// Segments larger than this contain large blocks.
const SMALL_SEGMENT: u64 = 2 << 20;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TorchSnapshot {
    /// Entries of all traces.
    pub entries: u64,
    /// Segments.
    pub segments: u64,
    /// Events at the driver level outside PyTorch's pool, which are omitted.
    pub others: u64,
}

/// Writes a capture that was read to its end as `first`. `again` makes a pass over it. `only` selects one device.
///
/// # Errors
/// Of reading or writing.
pub fn torch_snapshot(
    again: &mut dyn FnMut(&mut Observer<'_>) -> anyhow::Result<()>,
    first: &Session,
    only: Option<DeviceOrdinal>,
    symbols: &mut Symbols,
    to: &mut dyn Write,
) -> anyhow::Result<TorchSnapshot> {
    let replay = &first.replay;
    let devices: Vec<DeviceOrdinal> = replay
        .levels
        .keys()
        .filter(|(device, level)| *device != DeviceOrdinal::NONE && *level == Level::TENSOR)
        .map(|(device, _)| *device)
        .filter(|device| only.is_none_or(|only| only == *device))
        .collect();
    let mut frames = Frames::new(&replay.names, symbols);
    let mut pickle = PickleWriter::new(to)?;
    let mut written = TorchSnapshot::default();
    pickle.begin_dict()?;
    pickle.word("segments")?;
    let mut list = pickle.begin_list()?;
    let mut expandable = false;
    for device in &devices {
        for segment in segments(replay, *device) {
            pickle.item(&mut list)?;
            write_segment(&segment, *device, &mut frames, &mut pickle)?;
            expandable |= segment.expandable;
            written.segments += 1;
        }
    }
    pickle.end_list(list)?;
    pickle.word("device_traces")?;
    let mut list = pickle.begin_list()?;
    let last = devices.last().map_or(0, |device| device.0);
    for device in (0..=last).map(DeviceOrdinal) {
        pickle.item(&mut list)?;
        let trace = pickle.begin_list()?;
        let mut writing = Trace {
            device,
            started_ns: first.header.started_wall_ns,
            card_bytes: replay
                .names
                .devices
                .get(&device)
                .map_or(0, |of| of.total_bytes),
            frames: &mut frames,
            pickle: &mut pickle,
            list: trace,
            mapped: BTreeSet::new(),
            written: &mut written,
        };
        if devices.contains(&device) {
            let mut failed = Ok(());
            again(&mut |replay, record, effect| {
                if failed.is_ok() {
                    failed = writing.record(replay, record, effect);
                }
            })?;
            failed?;
        }
        let trace = writing.list;
        pickle.end_list(trace)?;
    }
    pickle.end_list(list)?;
    pickle.word("allocator_settings")?;
    pickle.begin_dict()?;
    pickle.word("expandable_segments")?;
    pickle.bool(expandable)?;
    pickle.end_dict()?;
    pickle.word("external_annotations")?;
    let none = pickle.begin_list()?;
    pickle.end_list(none)?;
    pickle.end_dict()?;
    pickle.finish()?.flush()?;
    Ok(written)
}

type Pickle<'a> = PickleWriter<&'a mut dyn Write>;

fn write_segment(
    segment: &Segment,
    device: DeviceOrdinal,
    frames: &mut Frames<'_>,
    to: &mut Pickle<'_>,
) -> io::Result<()> {
    let in_use = segment.in_use();
    to.begin_dict()?;
    for (key, value) in [
        ("device", u64::from(device.0)),
        ("address", segment.address),
        ("total_size", segment.bytes),
        ("allocated_size", in_use),
        ("active_size", in_use),
        ("requested_size", in_use),
        ("stream", 0),
    ] {
        to.word(key)?;
        to.int(value)?;
    }
    to.word("segment_type")?;
    to.word(if segment.bytes <= SMALL_SEGMENT {
        "small"
    } else {
        "large"
    })?;
    to.word("segment_pool_id")?;
    to.pair(0, 0)?;
    to.word("is_expandable")?;
    to.bool(segment.expandable)?;
    to.word("frames")?;
    frames.write(segment.stacks, to)?;
    to.word("blocks")?;
    let mut list = to.begin_list()?;
    for block in &segment.blocks {
        to.item(&mut list)?;
        to.begin_dict()?;
        let asked = if block.tensor.is_some() {
            block.bytes
        } else {
            0
        };
        for (key, value) in [
            ("address", block.address),
            ("size", block.bytes),
            ("requested_size", asked),
        ] {
            to.word(key)?;
            to.int(value)?;
        }
        to.word("state")?;
        to.word(match block.tensor {
            Some(_) => "active_allocated",
            None => "inactive",
        })?;
        to.word("frames")?;
        frames.write(block.tensor.unwrap_or_default(), to)?;
        to.end_dict()?;
    }
    to.end_list(list)?;
    to.end_dict()
}

/// A trace that is being written.
struct Trace<'a, 'n, 'w> {
    device: DeviceOrdinal,
    started_ns: u64,
    card_bytes: u64,
    frames: &'a mut Frames<'n>,
    pickle: &'a mut Pickle<'w>,
    list: List,
    /// Addresses of the pool's mappings.
    mapped: BTreeSet<u64>,
    written: &'a mut TorchSnapshot,
}

impl Trace<'_, '_, '_> {
    fn record(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) -> io::Result<()> {
        let event = match record {
            Record::Event(_, event) => event,
            Record::State(..) => {
                // In a bounded capture, memory may be mapped before its first record.
                let mapped = mappings(replay, self.device);
                self.mapped = mapped.map(|(address, ..)| address).collect();
                return Ok(());
            }
            Record::Definition(..) => return Ok(()),
        };
        if event.device != self.device {
            return Ok(());
        }
        let own = StackKey {
            py: event.py_stack,
            native: event.native_stack,
            ..StackKey::default()
        };
        match (event.level, event.kind) {
            (Level::TENSOR, EventKind::OUT_OF_MEMORY) => {
                let now = replay.devices.get(&self.device).map(|device| device.now);
                let used = now.map_or(0, |now| now.physical.max(now.driver));
                let free = self.card_bytes.saturating_sub(used);
                self.entry("oom", ("device_free", free), event, own)
            }
            (Level::TENSOR, _) => match effect {
                Effect::Live(_) => self.entry("alloc", ("addr", event.ptr), event, own),
                Effect::Gone(_) => {
                    self.entry("free_requested", ("addr", event.ptr), event, own)?;
                    self.entry("free_completed", ("addr", event.ptr), event, own)
                }
                Effect::None => Ok(()),
            },
            (_, EventKind::MAP) => {
                let row = replay.levels.get(&(self.device, Level::DRIVER));
                let handle = row.and_then(|row| row.handle(event.aux));
                if handle.is_some_and(|block| is_pools(replay, replay.stacks(block.key))) {
                    self.mapped.insert(event.ptr);
                    return self.entry("segment_map", ("addr", event.ptr), event, own);
                }
                self.written.others += 1;
                Ok(())
            }
            (_, EventKind::UNMAP) => {
                let end = event.ptr.saturating_add(event.bytes.max(1));
                let gone: Vec<u64> = self.mapped.range(event.ptr..end).copied().collect();
                for address in &gone {
                    self.mapped.remove(address);
                }
                match gone.is_empty() {
                    true => Ok(()),
                    false => self.entry("segment_unmap", ("addr", event.ptr), event, own),
                }
            }
            (Level::DRIVER, _) => {
                let (Effect::Live(block) | Effect::Gone(block)) = effect else {
                    return Ok(());
                };
                // Handles count when they are mapped.
                if block.flags.contains(EventFlags::VMM_HANDLE) {
                    return Ok(());
                }
                if !is_pools(replay, replay.stacks(block.key)) {
                    self.written.others += 1;
                    return Ok(());
                }
                let action = match effect {
                    Effect::Live(_) => "segment_alloc",
                    _ => "segment_free",
                };
                self.entry(action, ("addr", event.ptr), event, own)
            }
            _ => Ok(()),
        }
    }

    fn entry(
        &mut self,
        action: &'static str,
        (key, value): (&'static str, u64),
        event: &Event,
        stacks: StackKey,
    ) -> io::Result<()> {
        let to = &mut *self.pickle;
        to.item(&mut self.list)?;
        to.begin_dict()?;
        to.word("action")?;
        to.word(action)?;
        for (key, value) in [
            (key, value),
            ("size", event.bytes),
            ("stream", 0),
            (
                "time_us",
                self.started_ns.saturating_add(event.time.0) / 1000,
            ),
        ] {
            to.word(key)?;
            to.int(value)?;
        }
        to.word("frames")?;
        self.frames.write(stacks, to)?;
        to.end_dict()?;
        self.written.entries += 1;
        Ok(())
    }
}
