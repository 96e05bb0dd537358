//! A snapshot of PyTorch's allocator, read from any version of its pickle.
//!
//! | PyTorch | root | where a block's stack and requested bytes are |
//! |---|---|---|
//! | to 1.12 | list of segments | nowhere |
//! | 1.13 | list of segments | `history`, newest first: `real_size`, `frames` |
//! | 2.0 | dict with `segments`, `device_traces` | `history` |
//! | from 2.1 | the same | `requested_size`, `frames` |

use super::entry::Entry;
use super::fields::{self, Fields, PoolId};
use super::settings::Settings;
use crate::pickle::{DictId, ListId, PickleError, Text, Value};

/// Why a snapshot could not be parsed.
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
    fields: Fields<'a>,
    /// By device.
    pub traces: Vec<ListId>,
    pub segments: Vec<Segment>,
    /// Pinned host memory.
    pub host_segments: Vec<Segment>,
    pub annotations: Vec<Annotation>,
    /// `None` if the snapshot has none.
    pub settings: Option<Settings>,
}

/// A segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its device; −1 for host memory.
    pub device: i64,
    pub address: u64,
    pub bytes: u64,
    /// Whether it consists of mappings that may grow and shrink.
    pub expandable: bool,
    /// `None` if the snapshot does not record it.
    pub stream: Option<u64>,
    /// As `stream`.
    pub pool: Option<PoolId>,
    pub frames: Option<ListId>,
    /// The blocks that are in use.
    pub blocks: Vec<Block>,
}

/// A block in use: a tensor's, or one whose release is deferred.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub address: u64,
    /// The requested bytes if the snapshot records them; else the allocated bytes.
    pub bytes: u64,
    /// Whether the snapshot records the requested bytes.
    pub is_exact: bool,
    /// The allocated bytes: the requested ones rounded up.
    pub rounded: u64,
    pub frames: Option<ListId>,
    /// Whether it was freed and other streams still use it.
    pub waits: bool,
}

/// The start or the end of a range that the program named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annotation {
    pub begins: bool,
    pub name: Text,
    pub time_us: u64,
}

/// A frame in the pickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub file: Option<Text>,
    pub name: Option<Text>,
    pub line: u64,
}

/// How many more entries of the pickle may be read. The limit is the file's length: each entry needs at least one
/// byte, unless a list is referenced repeatedly.
struct Budget(u64);

impl Budget {
    fn spend(&mut self, count: usize) -> Result<(), SnapshotError> {
        let left = self.0.checked_sub(count as u64);
        self.0 = left.ok_or_else(|| other("it refers to the same lists too often"))?;
        Ok(())
    }
}

fn other(what: impl Into<String>) -> SnapshotError {
    SnapshotError::Other(what.into())
}

impl<'a> Snapshot<'a> {
    /// Reads a pickle as a snapshot.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        let fields = Fields::read(bytes)?;
        let mut snapshot = Self {
            fields,
            traces: Vec::new(),
            segments: Vec::new(),
            host_segments: Vec::new(),
            annotations: Vec::new(),
            settings: None,
        };
        let mut budget = Budget(bytes.len() as u64);
        let (segments, root) = match snapshot.fields.root() {
            Value::List(segments) => (segments, None),
            Value::Dict(root) => match snapshot.fields.get(root, fields::SEGMENTS) {
                Some(Value::List(segments)) => (segments, Some(root)),
                _ => return Err(other("it has no list of segments")),
            },
            _ => return Err(other("it is neither a dict nor a list of segments")),
        };
        snapshot.segments = snapshot.segments_of(segments, &mut budget)?;
        let Some(root) = root else {
            return Ok(snapshot);
        };
        let settings = snapshot.fields.dict(root, fields::ALLOCATOR_SETTINGS);
        snapshot.settings = settings.map(|settings| Settings::of(&snapshot.fields, settings));
        let list = |name| snapshot.fields.list(root, name);
        let (traces, host) = (list(fields::DEVICE_TRACES), list(fields::HOST_SEGMENTS));
        let annotations = list(fields::EXTERNAL_ANNOTATIONS);
        if let Some(host) = host {
            snapshot.host_segments = snapshot.segments_of(host, &mut budget)?;
        }
        for trace in traces.map_or(&[][..], |traces| snapshot.fields.values(traces)) {
            let Value::List(trace) = trace else {
                return Err(other("a trace of a device is not a list"));
            };
            budget.spend(snapshot.fields.values(*trace).len())?;
            snapshot.traces.push(*trace);
        }
        if let Some(annotations) = annotations {
            budget.spend(snapshot.fields.values(annotations).len())?;
            let read = |value: &Value| snapshot.annotation(*value);
            let list = snapshot.fields.values(annotations);
            snapshot.annotations = list.iter().filter_map(read).collect();
        }
        Ok(snapshot)
    }

    /// The entries of a device's trace, in order.
    pub fn entries(
        &self,
        trace: ListId,
    ) -> impl DoubleEndedIterator<Item = Result<Entry, SnapshotError>> {
        let list = self.fields.values(trace).iter().enumerate();
        list.map(|(number, value)| {
            Entry::of(&self.fields, *value)
                .ok_or_else(|| other(format!("entry {number} of a trace lacks required fields")))
        })
    }

    /// The frames of a list, newest first, without invalid ones. Equal frames are mostly one dict.
    pub fn frames(&self, list: ListId) -> impl Iterator<Item = DictId> {
        let list = self.fields.values(list).iter();
        list.filter_map(|value| match value {
            Value::Dict(frame) => Some(*frame),
            _ => None,
        })
    }

    /// The fields of a frame.
    pub fn frame(&self, frame: DictId) -> Frame {
        let text = |name| self.fields.text_of(frame, name);
        Frame {
            file: text(fields::FILENAME),
            name: text(fields::NAME),
            line: self.fields.number(frame, fields::LINE).unwrap_or(0),
        }
    }

    /// A text.
    pub fn text(&self, text: Text) -> std::borrow::Cow<'a, str> {
        self.fields.text(text)
    }

    /// The bytes of a text in the file.
    pub fn bytes(&self, text: Text) -> &'a [u8] {
        self.fields.bytes(text)
    }

    fn annotation(&self, value: Value) -> Option<Annotation> {
        let Value::Dict(annotation) = value else {
            return None;
        };
        let text = |name| self.fields.text_of(annotation, name);
        Some(Annotation {
            begins: match self.bytes(text(fields::STAGE)?) {
                b"START" => true,
                b"END" => false,
                _ => return None,
            },
            name: text(fields::NAME)?,
            time_us: self.fields.number(annotation, fields::TIME_US)?,
        })
    }

    fn segments_of(
        &self,
        list: ListId,
        budget: &mut Budget,
    ) -> Result<Vec<Segment>, SnapshotError> {
        let list = self.fields.values(list);
        budget.spend(list.len())?;
        let read = |(number, value): (usize, &Value)| {
            let lacks = |what| other(format!("segment {number} {what}"));
            let Value::Dict(segment) = *value else {
                return Err(lacks("is not a dict"));
            };
            let blocks = self.fields.list(segment, fields::BLOCKS);
            let blocks = blocks.ok_or_else(|| lacks("has no list of blocks"))?;
            let blocks = self.fields.values(blocks);
            budget.spend(blocks.len())?;
            let address = self.fields.number(segment, fields::ADDRESS);
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
            let device = self.fields.get(segment, fields::DEVICE);
            Ok(Segment {
                device: match device {
                    Some(Value::Int(device)) => device,
                    _ => 0,
                },
                address,
                bytes: self
                    .fields
                    .number(segment, fields::TOTAL_SIZE)
                    .ok_or_else(|| lacks("has no size"))?,
                expandable: self.fields.is_true(segment, fields::IS_EXPANDABLE),
                stream: self.fields.number(segment, fields::STREAM),
                pool: self.fields.pool(segment, fields::SEGMENT_POOL_ID),
                frames: self.fields.list(segment, fields::FRAMES),
                blocks: in_use,
            })
        };
        list.iter().enumerate().map(read).collect()
    }

    /// A block, if it is in use, and its size in the segment. It begins at `next` if it has no address.
    fn block(&self, value: Value, next: u64) -> Option<(Option<Block>, u64)> {
        let Value::Dict(block) = value else {
            return None;
        };
        let rounded = self.fields.number(block, fields::SIZE)?;
        let state = self.fields.text_of(block, fields::STATE)?;
        let waits = match self.bytes(state) {
            b"active_allocated" => false,
            b"active_pending_free" | b"active_awaiting_free" => true,
            _ => return Some((None, rounded)),
        };
        let history = self.fields.list(block, fields::HISTORY);
        let history = history.and_then(|history| self.fields.values(history).first());
        let (asked, frames) = match history {
            Some(Value::Dict(newest)) => (
                self.fields.number(*newest, fields::REAL_SIZE),
                self.fields.list(*newest, fields::FRAMES),
            ),
            _ => (
                self.fields.number(block, fields::REQUESTED_SIZE),
                self.fields.list(block, fields::FRAMES),
            ),
        };
        let in_use = Block {
            address: self.fields.number(block, fields::ADDRESS).unwrap_or(next),
            bytes: asked.unwrap_or(rounded),
            is_exact: asked.is_some(),
            rounded,
            frames,
            waits,
        };
        Some((Some(in_use), rounded))
    }
}
