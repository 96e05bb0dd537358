//! Finds the events of a capture that belong to PyTorch's pool: its memory from the driver, and the physical memory for
//! it.

use std::path::Path;

use gpumem_capture::{
    ApiId, Definition, DeviceOrdinal, Event, EventKind, Level, Nanos, Reader, Record, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::library::AllocatorLibrary;

/// The granularity of the pool's memory from the driver.
const PAGE: u64 = 2 << 20;

/// The pool's events on a device, and the capture's facts that are needed to write others instead.
#[derive(Debug)]
pub(crate) struct PoolEvents {
    device: DeviceOrdinal,
    library: AllocatorLibrary,
    seqs: FxHashSet<u64>,
    /// An address in the allocator's library that requested memory; 0 if unknown.
    pub(crate) caller: u64,
    apis: FxHashMap<String, ApiId>,
    pub(crate) nonce: u64,
    pub(crate) started_wall_ns: u64,
    pub(crate) ended: Option<Nanos>,
    /// Segments, and handles of expandable ones.
    live: FxHashMap<u64, u64>,
    physical: FxHashSet<u64>,
    mapped: FxHashSet<u64>,
    /// Reserved addresses: bytes and event, by the first address.
    addresses: FxHashMap<u64, (u64, u64)>,
    /// The thread and kind of the pool's newest driver event; the physical events for it follow.
    last: Option<(ThreadId, EventKind)>,
    /// Failures of the driver after which the thread has made no other call.
    refused: FxHashMap<ThreadId, Vec<u64>>,
}

impl PoolEvents {
    /// Reads a capture.
    pub(crate) fn of(path: &Path, device: DeviceOrdinal) -> Result<Self, String> {
        let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
        reader.decode_on(1);
        let header = reader.header();
        let mut pool = Self {
            device,
            library: AllocatorLibrary::default(),
            seqs: FxHashSet::default(),
            caller: 0,
            apis: FxHashMap::default(),
            nonce: header.nonce,
            started_wall_ns: header.started_wall_ns,
            ended: header.ended,
            live: FxHashMap::default(),
            physical: FxHashSet::default(),
            mapped: FxHashSet::default(),
            addresses: FxHashMap::default(),
            last: None,
            refused: FxHashMap::default(),
        };
        let mut is_bounded = false;
        let mut see = |record: Record<'_>| match record {
            Record::Definition(_, definition) => pool.define(definition),
            Record::Event(seq, event) => {
                if pool.see(seq.0, event) {
                    pool.seqs.insert(seq.0);
                }
            }
            Record::State(..) => is_bounded = true,
        };
        reader.read(&mut see).map_err(|error| error.to_string())?;
        match is_bounded {
            true => Err(
                "this bounded capture no longer has all events: its replay cannot be saved".into(),
            ),
            false => Ok(pool),
        }
    }

    /// Whether an event is the pool's.
    pub(crate) fn contains(&self, seq: u64) -> bool {
        self.seqs.contains(&seq)
    }

    /// The number of a CUDA function; 0 if the capture does not name it.
    pub(crate) fn api(&self, name: &str) -> ApiId {
        self.apis.get(name).copied().unwrap_or_default()
    }

    fn define(&mut self, definition: &Definition) {
        self.library.define(definition);
        if let Definition::Api { id, name } = definition {
            self.apis.entry(name.clone()).or_insert(*id);
        }
    }

    fn see(&mut self, seq: u64, event: &Event) -> bool {
        let here = event.device == self.device;
        match (event.level, event.kind) {
            (Level::DRIVER, EventKind::ADDRESS) => {
                self.addresses.insert(event.ptr, (event.bytes, seq));
                return false;
            }
            // The range was marked as the pool's, or was not.
            (Level::DRIVER, EventKind::ADDRESS_END) => {
                let range = self.addresses.remove(&event.ptr);
                return range.is_some_and(|(_, seq)| self.contains(seq));
            }
            (Level::DRIVER, EventKind::OUT_OF_MEMORY) if here => {
                if event.bytes.is_multiple_of(PAGE) {
                    self.refused.entry(event.thread).or_default().push(seq);
                }
                return false;
            }
            _ => {}
        }
        let is_pools = here && self.is_pools(event);
        let is_tensors = event.level == Level::TENSOR;
        let decides = matches!(event.kind, EventKind::ALLOC | EventKind::OUT_OF_MEMORY);
        // The allocator frees memory and tries again, or fails.
        if (decides || !is_tensors)
            && let Some(refused) = self.refused.remove(&event.thread)
            && (is_pools || is_tensors && here)
        {
            self.seqs.extend(refused);
        }
        is_pools
    }

    fn is_pools(&mut self, event: &Event) -> bool {
        if event.level == Level::PHYSICAL {
            return match event.kind {
                EventKind::ALLOC if self.last == Some((event.thread, EventKind::ALLOC)) => {
                    self.physical.insert(event.ptr)
                }
                EventKind::FREE => {
                    self.physical.remove(&event.ptr)
                        || self.last == Some((event.thread, EventKind::FREE))
                }
                _ => false,
            };
        }
        if event.level != Level::DRIVER {
            return false;
        }
        let is_pools = match event.kind {
            EventKind::ALLOC if self.library.has(event.aux) => {
                self.caller = event.aux;
                self.live.insert(event.ptr, event.bytes);
                true
            }
            EventKind::FREE => self.live.remove(&event.ptr).is_some(),
            EventKind::CANCEL if self.contains(event.aux) => {
                self.live.insert(event.ptr, event.bytes);
                true
            }
            EventKind::MAP if self.live.contains_key(&event.aux) => {
                self.mapped.insert(event.ptr);
                self.mark_address(event.ptr);
                true
            }
            EventKind::UNMAP => self.mapped.remove(&event.ptr),
            _ => false,
        };
        self.last = is_pools.then_some((event.thread, event.kind));
        is_pools
    }

    /// Marks the reserved addresses around this one as the pool's.
    fn mark_address(&mut self, ptr: u64) {
        let around = self
            .addresses
            .iter()
            .find(|(start, (bytes, _))| ptr.wrapping_sub(**start) < *bytes);
        if let Some((_, (_, seq))) = around {
            self.seqs.insert(*seq);
        }
    }
}
