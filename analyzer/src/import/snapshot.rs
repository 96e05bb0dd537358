//! A snapshot of PyTorch's allocator as its pickle has it, in all forms that it has had.
//!
//! | PyTorch | root | where a block's stack and requested bytes stand |
//! |---|---|---|
//! | to 1.12 | list of segments | nowhere |
//! | 1.13 | list of segments | `history`, newest first: `real_size`, `frames` |
//! | 2.0 | dict with `segments`, `device_traces` | `history` |
//! | from 2.1 | the same | `requested_size`, `frames` |

use crate::pickle::{self, DictId, ListId, Pickle, PickleError, Text, Value};

macro_rules! names {
    ($($constant:ident $name:literal)*) => {
        /// Keys that are asked for.
        const NAMES: &[&str] = &[$($name),*];
        names!(@ 0, $($constant)*);
    };
    (@ $index:expr, $constant:ident $($rest:ident)*) => {
        const $constant: usize = $index;
        names!(@ $index + 1, $($rest)*);
    };
    (@ $index:expr,) => {};
}

names! {
    SEGMENTS "segments"
    DEVICE_TRACES "device_traces"
    EXTERNAL_ANNOTATIONS "external_annotations"
    HOST_SEGMENTS "host_segments"
    DEVICE "device"
    ADDRESS "address"
    TOTAL_SIZE "total_size"
    IS_EXPANDABLE "is_expandable"
    BLOCKS "blocks"
    FRAMES "frames"
    SIZE "size"
    REQUESTED_SIZE "requested_size"
    STATE "state"
    HISTORY "history"
    REAL_SIZE "real_size"
    ACTION "action"
    ADDR "addr"
    TIME_US "time_us"
    FILENAME "filename"
    LINE "line"
    NAME "name"
    STAGE "stage"
}

/// Why a snapshot could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The pickle itself.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// It is a pickle of something else.
    #[error("{0}: name what torch.cuda.memory._dump_snapshot() wrote")]
    Other(String),
}

/// A snapshot that was read.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pickle: Pickle<'a>,
    /// By device.
    pub traces: Vec<ListId>,
    pub segments: Vec<Segment>,
    /// Pinned host memory.
    pub host_segments: Vec<Segment>,
    pub annotations: Vec<Annotation>,
}

/// What the allocator has from the driver in one piece.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its device; −1: none, it is host memory.
    pub device: i64,
    pub address: u64,
    pub bytes: u64,
    /// Whether it is a run of mappings that may grow and shrink.
    pub expandable: bool,
    pub frames: Option<ListId>,
    /// Those that are in use.
    pub blocks: Vec<Block>,
}

/// A block in use: a tensor's, or one that waits for other streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub address: u64,
    /// What was asked for, where the snapshot says; else what was set aside.
    pub bytes: u64,
    /// What was set aside.
    pub rounded: u64,
    pub frames: Option<ListId>,
    /// Whether it was freed, and other streams still use it.
    pub waits: bool,
}

/// What an entry of a trace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Alloc,
    /// The memory can be used again. (That it was asked for, `free_requested`, changes nothing.)
    Free,
    SegmentAlloc,
    SegmentFree,
    Map,
    Unmap,
    OutOfMemory,
    Snapshot,
    /// Of no interest here.
    Other,
}

/// An entry of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub action: Action,
    /// 0 where there is none.
    pub address: u64,
    pub bytes: u64,
    /// Microseconds since 1970-01-01 UTC; 0 where the snapshot has no times.
    pub time_us: u64,
    pub frames: Option<ListId>,
}

/// Begin or end of a range that the program named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annotation {
    pub begins: bool,
    pub name: Text,
    pub time_us: u64,
}

/// A frame as it stands in the pickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub file: Option<Text>,
    pub name: Option<Text>,
    pub line: u64,
}

/// How much of the pickle may still be looked at: no more entries than the file has bytes. Each needs a byte
/// of its own, unless one list is named again and again.
struct Budget(u64);

impl Budget {
    fn spend(&mut self, count: usize) -> Result<(), SnapshotError> {
        let left = self.0.checked_sub(count as u64);
        self.0 = left.ok_or_else(|| other("it names the same lists again and again"))?;
        Ok(())
    }
}

fn other(what: impl Into<String>) -> SnapshotError {
    SnapshotError::Other(what.into())
}

impl<'a> Snapshot<'a> {
    /// Reads a pickle as a snapshot.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        let pickle = pickle::read(bytes, NAMES)?;
        let mut snapshot = Self {
            pickle,
            traces: Vec::new(),
            segments: Vec::new(),
            host_segments: Vec::new(),
            annotations: Vec::new(),
        };
        let mut budget = Budget(bytes.len() as u64);
        let (segments, root) = match snapshot.pickle.root() {
            Value::List(segments) => (segments, None),
            Value::Dict(root) => match snapshot.pickle.get(root, SEGMENTS) {
                Some(Value::List(segments)) => (segments, Some(root)),
                _ => return Err(other("it has no list of segments")),
            },
            _ => return Err(other("it is neither a dict nor a list of segments")),
        };
        snapshot.segments = snapshot.segments_of(segments, &mut budget)?;
        let Some(root) = root else {
            return Ok(snapshot);
        };
        let list = |name| match snapshot.pickle.get(root, name) {
            Some(Value::List(list)) => Some(list),
            _ => None,
        };
        let (traces, host) = (list(DEVICE_TRACES), list(HOST_SEGMENTS));
        let annotations = list(EXTERNAL_ANNOTATIONS);
        if let Some(host) = host {
            snapshot.host_segments = snapshot.segments_of(host, &mut budget)?;
        }
        for trace in traces.map_or(&[][..], |traces| snapshot.pickle.list(traces)) {
            let Value::List(trace) = trace else {
                return Err(other("a trace of a device is no list"));
            };
            budget.spend(snapshot.pickle.list(*trace).len())?;
            snapshot.traces.push(*trace);
        }
        if let Some(annotations) = annotations {
            budget.spend(snapshot.pickle.list(annotations).len())?;
            let read = |value: &Value| snapshot.annotation(*value);
            let list = snapshot.pickle.list(annotations);
            snapshot.annotations = list.iter().filter_map(read).collect();
        }
        Ok(snapshot)
    }

    /// The entries of a device's trace, in order.
    pub fn entries(
        &self,
        trace: ListId,
    ) -> impl DoubleEndedIterator<Item = Result<Entry, SnapshotError>> {
        let list = self.pickle.list(trace).iter().enumerate();
        list.map(|(number, value)| {
            self.entry(*value)
                .ok_or_else(|| other(format!("entry {number} of a trace lacks what an entry has")))
        })
    }

    /// The frames of a list, newest first; what is no frame is left out. Frames that are alike mostly are
    /// one dict.
    pub fn frames(&self, list: ListId) -> impl Iterator<Item = DictId> {
        let list = self.pickle.list(list).iter();
        list.filter_map(|value| match value {
            Value::Dict(frame) => Some(*frame),
            _ => None,
        })
    }

    /// What a frame says.
    pub fn frame(&self, frame: DictId) -> Frame {
        let text = |name| match self.pickle.get(frame, name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        Frame {
            file: text(FILENAME),
            name: text(NAME),
            line: self.number(frame, LINE).unwrap_or(0),
        }
    }

    /// A text.
    pub fn text(&self, text: Text) -> std::borrow::Cow<'a, str> {
        self.pickle.text(text)
    }

    /// A text as it stands in the file.
    pub fn bytes(&self, text: Text) -> &'a [u8] {
        self.pickle.bytes(text)
    }

    fn entry(&self, value: Value) -> Option<Entry> {
        let Value::Dict(entry) = value else {
            return None;
        };
        let Some(Value::Text(action)) = self.pickle.get(entry, ACTION) else {
            return None;
        };
        let action = match self.bytes(action) {
            b"alloc" => Action::Alloc,
            b"free_completed" | b"free" => Action::Free,
            b"segment_alloc" => Action::SegmentAlloc,
            b"segment_free" => Action::SegmentFree,
            b"segment_map" => Action::Map,
            b"segment_unmap" => Action::Unmap,
            b"oom" => Action::OutOfMemory,
            b"snapshot" => Action::Snapshot,
            _ => Action::Other,
        };
        let address = self.number(entry, ADDR);
        let bytes = self.number(entry, SIZE);
        let (address, bytes) = match action {
            Action::OutOfMemory => (0, bytes?),
            Action::Snapshot | Action::Other => (0, 0),
            _ => (address?, bytes?),
        };
        Some(Entry {
            action,
            address,
            bytes,
            time_us: self.number(entry, TIME_US).unwrap_or(0),
            frames: self.frames_of(entry),
        })
    }

    fn annotation(&self, value: Value) -> Option<Annotation> {
        let Value::Dict(annotation) = value else {
            return None;
        };
        let text = |name| match self.pickle.get(annotation, name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        Some(Annotation {
            begins: match self.bytes(text(STAGE)?) {
                b"START" => true,
                b"END" => false,
                _ => return None,
            },
            name: text(NAME)?,
            time_us: self.number(annotation, TIME_US)?,
        })
    }

    fn segments_of(
        &self,
        list: ListId,
        budget: &mut Budget,
    ) -> Result<Vec<Segment>, SnapshotError> {
        let list = self.pickle.list(list);
        budget.spend(list.len())?;
        let read = |(number, value): (usize, &Value)| {
            let lacks = |what| other(format!("segment {number} {what}"));
            let Value::Dict(segment) = *value else {
                return Err(lacks("is no dict"));
            };
            let blocks = match self.pickle.get(segment, BLOCKS) {
                Some(Value::List(blocks)) => self.pickle.list(blocks),
                _ => return Err(lacks("has no list of blocks")),
            };
            budget.spend(blocks.len())?;
            let address = self.number(segment, ADDRESS);
            let address = address.ok_or_else(|| lacks("has no address"))?;
            let mut in_use = Vec::new();
            let mut next = address;
            for block in blocks {
                let (block, rounded) = self
                    .block(*block, next)
                    .ok_or_else(|| lacks("has a block without a size or a state"))?;
                in_use.extend(block);
                next = next.saturating_add(rounded);
            }
            let device = self.pickle.get(segment, DEVICE);
            Ok(Segment {
                device: match device {
                    Some(Value::Int(device)) => device,
                    _ => 0,
                },
                address,
                bytes: self
                    .number(segment, TOTAL_SIZE)
                    .ok_or_else(|| lacks("has no size"))?,
                expandable: self.pickle.get(segment, IS_EXPANDABLE) == Some(Value::Bool(true)),
                frames: self.frames_of(segment),
                blocks: in_use,
            })
        };
        list.iter().enumerate().map(read).collect()
    }

    /// A block, if it is in use, and how many bytes it takes; it begins at `next` if it does not say.
    fn block(&self, value: Value, next: u64) -> Option<(Option<Block>, u64)> {
        let Value::Dict(block) = value else {
            return None;
        };
        let rounded = self.number(block, SIZE)?;
        let Value::Text(state) = self.pickle.get(block, STATE)? else {
            return None;
        };
        let waits = match self.bytes(state) {
            b"active_allocated" => false,
            b"active_pending_free" | b"active_awaiting_free" => true,
            _ => return Some((None, rounded)),
        };
        let history = match self.pickle.get(block, HISTORY) {
            Some(Value::List(history)) => self.pickle.list(history).first(),
            _ => None,
        };
        let (asked, frames) = match history {
            Some(Value::Dict(newest)) => (self.number(*newest, REAL_SIZE), self.frames_of(*newest)),
            _ => (self.number(block, REQUESTED_SIZE), self.frames_of(block)),
        };
        let in_use = Block {
            address: self.number(block, ADDRESS).unwrap_or(next),
            bytes: asked.unwrap_or(rounded),
            rounded,
            frames,
            waits,
        };
        Some((Some(in_use), rounded))
    }

    fn frames_of(&self, of: DictId) -> Option<ListId> {
        match self.pickle.get(of, FRAMES) {
            Some(Value::List(frames)) => Some(frames),
            _ => None,
        }
    }

    /// A number that is not negative.
    fn number(&self, of: DictId, name: usize) -> Option<u64> {
        match self.pickle.get(of, name)? {
            Value::Int(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }
}
