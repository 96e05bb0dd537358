//! What a replay needs to know of a capture before it begins.

use std::ffi::CString;
use std::path::Path;

use gpumem_capture::{
    AllocatorCall, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, ProcessKey,
    ReadError, Reader, Record,
};
use rustc_hash::FxHashMap;

use crate::rounding::Rounding;
use crate::steps::Placements;

/// The result of one pass over a capture, for a device.
#[derive(Debug, Default)]
pub struct Survey {
    /// Streams by their handles, with their numbers in PyTorch.
    pub(crate) streams: Vec<(u64, Option<u64>)>,
    pub(crate) code: Vec<Code>,
    /// Whether it has the times at which blocks that waited for streams were back in the pool.
    pub(crate) has_releases: bool,
    /// Settings that the program set at run time, by their events.
    pub(crate) settings: FxHashMap<u64, CString>,
    /// The rounding of requests to blocks, at the start.
    pub(crate) rounding: Rounding,
    /// Whether blocks have their own sizes, and not the requested ones.
    pub(crate) has_blocks: bool,
}

/// Code of kernels that was on the card before a reading showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// From the event that loaded the library,
    pub(crate) from: u64,
    /// to the event that has its cost.
    pub(crate) to: u64,
    pub(crate) bytes: u64,
}

impl Survey {
    /// The error: the capture cannot be read.
    pub(crate) fn of(path: &Path, device: DeviceOrdinal) -> Result<Self, String> {
        let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
        let mut pass = Pass {
            device,
            placements: Placements::default(),
            loaded: FxHashMap::default(),
            names: FxHashMap::default(),
            own_settings: None,
            survey: Self {
                has_blocks: true,
                ..Self::default()
            },
        };
        let mut see = |record: Record<'_>| match record {
            Record::Definition(_, definition) => pass.define(definition),
            Record::Event(seq, event) => pass.event(seq.0, event),
            Record::State(..) => {}
        };
        reader
            .read(&mut see)
            .map_err(|error: ReadError| error.to_string())?;
        pass.survey.code.sort_unstable_by_key(|code| code.from);
        Ok(pass.survey)
    }
}

struct Pass {
    device: DeviceOrdinal,
    placements: Placements,
    /// Loaded libraries that have not yet cost memory.
    loaded: FxHashMap<u64, u64>,
    names: FxHashMap<u64, String>,
    /// The settings of the environment, until PyTorch has read them.
    own_settings: Option<String>,
    survey: Survey,
}

impl Pass {
    fn define(&mut self, definition: &Definition) {
        match definition {
            Definition::Range { id, name } => {
                self.names.insert((*id).into(), name.clone());
            }
            Definition::Process { key, value } if key == ProcessKey::ALLOCATOR_CONF => {
                self.own_settings = Some(value.clone());
                self.survey.rounding.set(value);
            }
            Definition::Process { key, value } if key == ProcessKey::ALLOCATOR_SEES => {
                self.survey.has_releases = value.split(' ').any(|word| word == "released");
            }
            Definition::Process { key, .. } if key == ProcessKey::IMPORTED => {
                self.survey.has_blocks = false;
            }
            Definition::Placement { .. } => self.place(definition),
            _ => {}
        }
    }

    fn place(&mut self, definition: &Definition) {
        let Some(placement) = self.placements.define(self.device, definition) else {
            return;
        };
        let streams = &mut self.survey.streams;
        match streams
            .iter_mut()
            .find(|(stream, _)| *stream == placement.stream)
        {
            _ if placement.stream == 0 => {}
            Some((_, id)) => *id = id.or(placement.stream_id),
            None => streams.push((placement.stream, placement.stream_id)),
        }
    }

    fn event(&mut self, seq: u64, event: &Event) {
        if event.kind == EventKind::ALLOCATOR && event.aux == AllocatorCall::SETTINGS.0 {
            self.set(seq, event.bytes);
        }
        if event.device != self.device {
            return;
        }
        match event.kind {
            EventKind::MODULE_LOAD => drop(self.loaded.insert(event.ptr, seq)),
            EventKind::MODULE_UNLOAD => drop(self.loaded.remove(&event.ptr)),
            EventKind::RESIZE
                if event.level == Level::PHYSICAL && event.flags.contains(EventFlags::MODULE) =>
            {
                if let Some(from) = self.loaded.remove(&event.ptr) {
                    self.survey.code.push(Code {
                        from,
                        to: seq,
                        bytes: event.bytes.saturating_sub(event.aux),
                    });
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, seq: u64, name: u64) {
        let text = self.names.get(&name).map(String::as_str);
        let own = self.own_settings.take();
        if own.as_deref() != text
            && let Some(text) = text.and_then(|text| CString::new(text).ok())
        {
            self.survey.settings.insert(seq, text);
        }
    }
}
