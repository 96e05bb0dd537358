//! The figures of the card, the ledgers and the live blocks at a failure.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, StackId};
use gpumem_replay::{Figure, Sampling, StackKey, share_out};
use gpumem_tracker::Kind;

use super::recorded::Recorded;
use crate::limit::{self, InForce};
use crate::session::Session;
use crate::{card, tracked};

/// A card's figures from NVML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// Its memory, and the used part, including the driver's reserved memory.
    pub(super) total: u64,
    pub(super) used: u64,
    /// The used memory of this process and of all others; `None` if NVML does not report it.
    pub(super) mine: Option<u64>,
    pub(super) others: Option<u64>,
}

/// The bytes of each line at a level.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Bytes and blocks by the Python stack of the allocation.
    pub(super) by_stack: BTreeMap<StackId, (u64, u64)>,
    /// The sum of all bytes.
    pub(super) bytes: u64,
    /// The unsampled blocks that the blocks of each stack represent, if stacks are sampled.
    unseen: BTreeMap<StackId, Figure>,
}

impl Held {
    fn add(&mut self, stack: StackId, bytes: u64) {
        let (held, blocks) = self.by_stack.entry(stack).or_default();
        *held += bytes;
        *blocks += 1;
        self.bytes += bytes;
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.by_stack
            .values()
            .map(|(_, blocks)| *blocks as usize)
            .sum()
    }

    /// Adds a block whose stack may not have been captured.
    fn add_sampled(&mut self, stack: StackId, bytes: u64, sampling: Option<Sampling>) {
        self.add(stack, bytes);
        if let Some(sampling) = sampling {
            *self.unseen.entry(stack).or_default() += sampling.unseen(bytes);
        }
    }

    /// Estimates the bytes of each stack, if stacks are sampled.
    fn share_out(&mut self) {
        if self.unseen.is_empty() {
            return;
        }
        let figures = self.by_stack.iter();
        let mut figures: Vec<_> = figures
            .map(|(py, (bytes, blocks))| {
                let (bytes, blocks) = (*bytes, *blocks);
                let stacks = StackKey {
                    py: *py,
                    ..StackKey::default()
                };
                let unseen = self.unseen.get(py).copied().unwrap_or_default();
                (stacks, Figure { bytes, blocks }, unseen)
            })
            .collect();
        share_out(&mut figures);
        let figures = figures.into_iter();
        self.by_stack = figures
            .map(|(stacks, figure, _)| (stacks.py, (figure.bytes, figure.blocks)))
            .collect();
    }
}

/// The figures of the failing device.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Requested bytes.
    pub(super) asked: u64,
    /// The level of the request.
    pub(super) level: Level,
    /// The framework's live bytes and reserved bytes, as it reports them.
    pub(super) framework: Option<(u64, u64)>,
    /// The limit that makes the card look smaller.
    pub(super) limit: Option<InForce>,
    /// NVML's figures, for a card of the limit's size.
    pub(super) card: Option<Card>,
    /// Free bytes below the limit as reported by the driver, if it was queried.
    pub(super) drivers_free: Option<u64>,
    /// How stacks of tensors are sampled, if they are.
    pub(super) sampling: Option<Sampling>,
    /// Tensors by line.
    pub(super) tensors: Held,
    /// Memory that the program requested from the driver itself, by line, without segments that contain
    /// tensors.
    pub(super) others_of_driver: Held,
    /// Pinned host memory by line.
    pub(super) pinned: Held,
    /// Contexts, their streams, and modules of kernels.
    pub(super) contexts: u64,
    pub(super) streams: u64,
    pub(super) modules: u64,
    /// The size of memory pools and graphs, and the used part of the pools.
    pub(super) pools: u64,
    pub(super) pools_used: u64,
    pub(super) graphs: u64,
    /// All bytes that the second ledger explains.
    pub(super) physical: u64,
}

impl Figures {
    /// Collects them now.
    pub(super) fn of(session: &'static Session, recorded: &Recorded) -> Self {
        let failed = recorded.failed;
        let device = failed.device;
        let limit = limit::in_force(device);
        let beyond = limit.as_ref().map_or(0, |limit| limit.beyond);
        let mut figures = Self {
            limit,
            asked: failed.bytes,
            level: failed.level,
            framework: failed.framework,
            card: card::read(session.writer, device).map(|read| Card {
                total: read.reading.card.total.saturating_sub(beyond),
                used: read.reading.card.used,
                mine: read.reading.figures.mine,
                others: read.reading.figures.others,
            }),
            drivers_free: recorded.free.map(|free| free.saturating_sub(beyond)),
            physical: session.writer.counters(device, Level::PHYSICAL).live,
            ..Self::default()
        };
        figures.sampling = session.stack_sample.map(|mean| Sampling { mean });
        figures.blocks(session, device);
        tracked::look(session, |tracker| {
            figures.contexts = tracker.bytes_of(device, Kind::Context);
            figures.streams = tracker.bytes_of(device, Kind::Streams);
            figures.modules = tracker.bytes_of(device, Kind::Module);
            figures.pools = tracker.bytes_of(device, Kind::Pool);
            figures.graphs = tracker.bytes_of(device, Kind::Graphs);
        });
        figures
    }

    /// Iterates over the live blocks once.
    fn blocks(&mut self, session: &Session, device: DeviceOrdinal) {
        let (mut tensors, mut plain) = (Vec::new(), Vec::new());
        session.tensors.each(|ptr, block| {
            if block.device == device {
                let sampling = self.sampling;
                self.tensors
                    .add_sampled(block.py_stack, block.bytes, sampling);
                tensors.push((ptr, block.bytes));
            }
        });
        tracked::look(session, |tracker| {
            for (key, block) in tracker.blocks() {
                if key.level == Level::HOST {
                    self.pinned.add(block.py_stack, block.bytes);
                    continue;
                }
                if block.device != device {
                    continue;
                }
                let is_managed = block.flags.contains(EventFlags::MANAGED);
                let is_plain =
                    !key.is_handle && !is_managed && !block.flags.contains(EventFlags::ARRAY);
                if block.flags.contains(EventFlags::STREAM_ORDERED) && !is_managed {
                    self.pools_used += block.bytes;
                }
                if is_plain {
                    plain.push((key.ptr, block.bytes, block.py_stack));
                } else {
                    self.others_of_driver.add(block.py_stack, block.bytes);
                }
            }
        });
        self.tensors.share_out();
        tensors.sort_unstable();
        let holds_a_tensor = |ptr: u64, bytes: u64| {
            let first = tensors.partition_point(|(tensor, _)| *tensor < ptr);
            tensors
                .get(first)
                .is_some_and(|(tensor, _)| *tensor < ptr.saturating_add(bytes))
        };
        for (ptr, bytes, stack) in plain {
            if !holds_a_tensor(ptr, bytes) {
                self.others_of_driver.add(stack, bytes);
            }
        }
    }

    /// The level whose lines count.
    pub(super) fn lines_of(&self) -> Level {
        match (self.level, self.tensors.bytes) {
            (Level::HOST, _) => Level::HOST,
            (_, 0) => Level::DRIVER,
            _ => Level::TENSOR,
        }
    }

    /// The stacks whose names are needed.
    pub(super) fn stacks(&self, recorded: &Recorded) -> BTreeSet<StackId> {
        let held = [&self.tensors, &self.others_of_driver, &self.pinned];
        let held = held.into_iter().flat_map(|held| held.by_stack.keys());
        let failed = [recorded.stacks.0, recorded.stacks.1];
        held.copied().chain(failed).collect()
    }

    /// Free memory on the card.
    pub(super) fn free(&self) -> Option<u64> {
        let by_nvml = self.card.map(|card| card.total.saturating_sub(card.used));
        match (by_nvml, self.drivers_free) {
            (Some(nvml), Some(driver)) => Some(nvml.min(driver)),
            (nvml, driver) => nvml.or(driver),
        }
    }

    /// The framework's reserved but unallocated memory.
    pub(super) fn cached(&self) -> u64 {
        self.framework
            .map_or(0, |(live, reserved)| reserved.saturating_sub(live))
    }

    /// The memory of this process according to NVML.
    pub(super) fn mine(&self) -> Option<u64> {
        self.card.and_then(|card| card.mine)
    }
}
