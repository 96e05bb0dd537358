//! Changes the events of a capture as a plant requires.

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, StackId};
use gpumem_replay::StackKey;
use gpumem_replay::attribution::owner;
use gpumem_replay::names::Names;
use rustc_hash::FxHashMap;

use super::plant::{Line, Plant};

/// PyTorch's segments are multiples of this size.
const SEGMENT: u64 = 2 << 20;
/// Addresses that no program uses: of leaked blocks, and of the segment that holds all added bytes.
const LEAKED: u64 = 0x1000_0000_0000;
const SEGMENTS: u64 = 0x2000_0000_0000;

/// The events of a changed rank.
pub struct Memory {
    plants: Vec<Plant>,
    is_of: FxHashMap<(StackId, StackId, usize), bool>,
    /// Steps that ended.
    ended: u64,
    /// The step in which each plant last leaked.
    leaked: Vec<u64>,
    next: u64,
    /// The bytes added to each live block.
    more: FxHashMap<(DeviceOrdinal, u64), u64>,
    live: u64,
    /// The peak of all added bytes.
    pub peak: u64,
    /// The size of the added segment; 0 if not yet known.
    room: u64,
    /// The newest allocation from the driver: its events at the driver and physical levels.
    taken: Vec<Event>,
    /// The newest of these by which PyTorch's reserved memory then grew.
    segment: Vec<Event>,
    reserved: FxHashMap<DeviceOrdinal, u64>,
    /// The device of the added segment.
    on: Option<DeviceOrdinal>,
}

impl Memory {
    /// `room` is the `peak` of a first pass; 0 in the first pass.
    pub fn new(plants: Vec<Plant>, room: u64) -> Self {
        Self {
            is_of: FxHashMap::default(),
            ended: 0,
            leaked: vec![0; plants.len()],
            plants,
            next: LEAKED,
            more: FxHashMap::default(),
            live: 0,
            peak: 0,
            room: room.next_multiple_of(SEGMENT),
            taken: Vec::new(),
            segment: Vec::new(),
            reserved: FxHashMap::default(),
            on: None,
        }
    }

    /// Calls `out` with each event that replaces `event`, in order.
    pub fn event(
        &mut self,
        names: &Names,
        event: &Event,
        out: &mut dyn FnMut(&Event) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut event = *event;
        self.follow_segments(&event);
        match (event.kind, event.level) {
            (EventKind::STEP, _) => self.ended += 1,
            (EventKind::ALLOC, Level::TENSOR) => {
                let leaks = self.plant(names, &mut event);
                if self.live > 0 && self.on.is_none() {
                    self.take_segment(&event, out)?;
                }
                for leak in leaks {
                    let aux = leak.aux + self.room;
                    out(&Event { aux, ..leak })?;
                }
            }
            (EventKind::FREE, Level::TENSOR) => {
                let more = self.more.remove(&(event.device, event.ptr)).unwrap_or(0);
                event.bytes += more;
                self.live -= more;
            }
            (EventKind::CANCEL, Level::TENSOR) => {
                return Err("a free of a tensor that was cancelled cannot be planted".into());
            }
            _ => {}
        }
        if self.on == Some(event.device) {
            match event.kind {
                EventKind::ALLOC | EventKind::FREE | EventKind::OUT_OF_MEMORY
                    if event.level == Level::TENSOR =>
                {
                    event.aux += self.room;
                }
                EventKind::SAMPLE => {
                    event.bytes += self.room;
                    event.ptr += self.room;
                }
                EventKind::CARD => event.bytes += self.room,
                _ => {}
            }
        }
        out(&event)
    }

    fn follow_segments(&mut self, event: &Event) {
        match (event.kind, event.level) {
            (EventKind::ALLOC, Level::DRIVER) => self.taken = vec![*event],
            (EventKind::ALLOC, Level::PHYSICAL) if matches!(self.taken[..], [driver] if driver.ptr == event.ptr) =>
            {
                self.taken.push(*event);
            }
            (EventKind::ALLOC | EventKind::FREE, Level::TENSOR) => {
                let before = self.reserved.insert(event.device, event.aux).unwrap_or(0);
                let of_pool = matches!(self.taken[..], [of, _] if of.bytes + before == event.aux);
                let taken = std::mem::take(&mut self.taken);
                if of_pool {
                    self.segment = taken;
                }
            }
            _ => {}
        }
    }

    /// Changes an allocation; returns the leaked blocks to add.
    fn plant(&mut self, names: &Names, event: &mut Event) -> Vec<Event> {
        let mut leaks = Vec::new();
        let step = self.ended + 1;
        let plants = std::mem::take(&mut self.plants);
        for (at, plant) in plants.iter().enumerate() {
            let (Plant::Times(_, line) | Plant::Leak(_, line)) = plant else {
                continue;
            };
            if step < line.step || !self.is_of(names, event, at, line) {
                continue;
            }
            match plant {
                Plant::Times(times, _) => {
                    let more = event.bytes * times.saturating_sub(1);
                    event.bytes += more;
                    self.more.insert((event.device, event.ptr), more);
                    self.live += more;
                }
                Plant::Leak(bytes, _) => {
                    let last = self.leaked.get_mut(at).filter(|last| **last < step);
                    let Some(last) = last else { continue };
                    *last = step;
                    let (ptr, bytes) = (self.next, *bytes);
                    self.next += bytes.next_multiple_of(512);
                    self.live += bytes;
                    leaks.push(Event {
                        ptr,
                        bytes,
                        slack: 0,
                        ..*event
                    });
                }
                Plant::Library { .. } | Plant::Fact { .. } => {}
            }
        }
        self.plants = plants;
        self.peak = self.peak.max(self.live);
        leaks
    }

    fn is_of(&mut self, names: &Names, event: &Event, plant: usize, line: &Line) -> bool {
        let key = StackKey {
            py: event.py_stack,
            native: event.native_stack,
            ..StackKey::default()
        };
        let known = self.is_of.entry((key.py, key.native, plant));
        *known.or_insert_with(|| line.is(&owner(names, key, Level::TENSOR).label(names)))
    }

    /// Adds a segment that PyTorch takes, large enough for all added bytes.
    fn take_segment(
        &mut self,
        by: &Event,
        out: &mut dyn FnMut(&Event) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.room == 0 {
            return Ok(());
        }
        let [driver, physical] = &self.segment[..] else {
            return Err("PyTorch's memory from the driver is not known".into());
        };
        if driver.device != by.device {
            return Err("a capture with tensors on several GPUs cannot be planted".into());
        }
        for like in [driver, physical] {
            out(&Event {
                time: by.time,
                ptr: SEGMENTS,
                bytes: self.room,
                ..*like
            })?;
        }
        self.on = Some(by.device);
        Ok(())
    }
}
