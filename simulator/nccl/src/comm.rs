//! Communicators: their ranks, and their memory.

use crate::config::Config;
use crate::memory::{Block, Within, current};
use crate::result::{NcclResult, cuda, put, require, result};
use crate::settings::Settings;
use gpumem_nccl_model::connections::Connection;
use gpumem_nccl_model::{Algorithms, Setup};
use gpumem_sim_client::ffi::{Handle, Out};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The purpose of a communicator's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// From the start to the end.
    Structures,
    /// Buffers of connections and NVLS: freed by `ncclCommSuspend`.
    Transfers,
    /// Buffers for the network.
    Network,
}

/// One rank of a communicator.
#[derive(Debug)]
pub struct Comm {
    /// Its rank, below `world`.
    pub rank: u64,
    /// The input of the model.
    pub setup: Setup,
    /// The device that it is on.
    pub device: i32,
    context: Handle,
    blocks: BTreeMap<Part, Vec<Block>>,
    connected: BTreeSet<Connection>,
    has_nvls: bool,
    peers: BTreeSet<(u64, bool)>,
    has_pool: bool,
    has_windows: bool,
    /// The blocks that `ncclCommSuspend` has freed.
    pub suspended: Option<Vec<(u64, bool)>>,
}

fn comms() -> MutexGuard<'static, HashMap<Handle, Comm>> {
    static ALL: LazyLock<Mutex<HashMap<Handle, Comm>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a function with a live communicator.
pub fn with<T>(
    comm: Handle,
    ask: impl FnOnce(&mut Comm) -> Result<T, NcclResult>,
) -> Result<T, NcclResult> {
    let mut comms = comms();
    ask(comms.get_mut(&comm).ok_or(NcclResult::INVALID_ARGUMENT)?)
}

impl Comm {
    /// Ranks.
    pub fn world(&self) -> u64 {
        self.setup.world
    }

    /// Allocates all blocks, or none if one fails.
    fn allocate(&mut self, part: Part, sizes: &[u64], mapped: bool) -> Result<(), NcclResult> {
        if Settings::get().level.is_none() || sizes.is_empty() {
            return Ok(());
        }
        let _within = cuda(Within::context(self.context))?;
        let mut made = Vec::with_capacity(sizes.len());
        for bytes in sizes.iter().filter(|bytes| **bytes > 0) {
            let bytes = usize::try_from(*bytes).map_err(|_| NcclResult::INVALID_ARGUMENT)?;
            let block = if mapped {
                Block::mapped(bytes, self.device, 0)
            } else {
                Block::plain(bytes)
            };
            match block {
                Ok(block) => made.push(block),
                Err(_) => {
                    made.into_iter().for_each(Block::free);
                    return Err(NcclResult::UNHANDLED_CUDA_ERROR);
                }
            }
        }
        self.blocks.entry(part).or_default().append(&mut made);
        Ok(())
    }

    /// Makes the connections of the algorithms that do not exist yet.
    pub fn connect(&mut self, algorithms: Algorithms) -> Result<(), NcclResult> {
        let mut wanted = Vec::new();
        if algorithms.ring {
            wanted.extend(self.setup.ring());
        }
        if algorithms.tree {
            wanted.extend(self.setup.tree());
        }
        wanted.retain(|connection| !self.connected.contains(connection));
        wanted.sort_unstable();
        wanted.dedup();
        if !wanted.is_empty() && !self.setup.shares {
            for part in [Part::Transfers, Part::Network] {
                let of_part =
                    |c: &&Connection| self.setup.is_network(**c) == (part == Part::Network);
                let sizes: Vec<u64> = wanted
                    .iter()
                    .filter(of_part)
                    .map(|connection| self.setup.bytes_of(*connection))
                    .collect();
                self.allocate(part, &sizes, self.setup.cumem)?;
            }
        }
        self.connected.extend(wanted);
        if algorithms.nvls && !self.has_nvls {
            // A multicast object binds memory of `cuMemCreate`, even if other blocks do not use it.
            self.allocate(Part::Transfers, &self.setup.nvls(), true)?;
            self.has_nvls = true;
        }
        Ok(())
    }

    /// Connects a peer for sending to it or receiving from it.
    pub fn connect_peer(&mut self, peer: u64, sends: bool) -> Result<(), NcclResult> {
        if peer == self.rank || self.peers.contains(&(peer, sends)) {
            return Ok(());
        }
        let local = self.setup.local;
        let here = peer / local == self.rank / local;
        let sizes = match sends {
            true => self.setup.send(here),
            false => self.setup.receive(here),
        };
        self.allocate(Part::Transfers, &sizes, self.setup.cumem)?;
        if !here && !self.has_pool {
            self.allocate(Part::Network, &self.setup.network_pool(), self.setup.cumem)?;
            self.has_pool = true;
        }
        self.peers.insert((peer, sends));
        Ok(())
    }

    /// Allocates the table of addresses for the first window.
    pub fn register_window(&mut self) -> Result<(), NcclResult> {
        if !self.has_windows {
            self.allocate(Part::Structures, &[self.setup.windows()], self.setup.cumem)?;
            self.has_windows = true;
        }
        Ok(())
    }

    /// Bytes of its blocks that NCCL's own statistics count: those of `cuMemCreate`, without the
    /// network's.
    pub fn counted(&self, part: Part) -> u64 {
        let blocks = self.blocks.get(&part).into_iter().flatten();
        let mapped = blocks.filter(|block| block.is_mapped());
        mapped.map(|block| block.bytes as u64).sum()
    }

    /// Frees transfer buffers, and remembers their sizes.
    pub fn suspend(&mut self) -> Result<(), NcclResult> {
        if self.suspended.is_none() {
            let _within = cuda(Within::context(self.context))?;
            let blocks = self.blocks.remove(&Part::Transfers).unwrap_or_default();
            let sizes = blocks
                .iter()
                .map(|block| (block.bytes as u64, block.is_mapped()));
            self.suspended = Some(sizes.collect());
            blocks.into_iter().for_each(Block::free);
        }
        Ok(())
    }

    /// Allocates the transfer buffers again.
    pub fn resume(&mut self) -> Result<(), NcclResult> {
        for (bytes, mapped) in self.suspended.clone().unwrap_or_default() {
            self.allocate(Part::Transfers, &[bytes], mapped)?;
        }
        self.suspended = None;
        Ok(())
    }

    fn release(mut self) {
        let Ok(_within) = Within::context(self.context) else {
            // The context was destroyed with its memory.
            return;
        };
        for (_, blocks) in std::mem::take(&mut self.blocks) {
            blocks.into_iter().for_each(Block::free);
        }
    }
}

/// Loads NCCL's kernels, once for each context; they stay loaded, as a module does.
fn load_kernels(context: Handle, setup: &Setup) -> Result<(), NcclResult> {
    static LOADED: LazyLock<Mutex<HashSet<Handle>>> = LazyLock::new(Mutex::default);
    let settings = Settings::get();
    let bytes = settings.kernel_bytes.unwrap_or_else(|| setup.kernels());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if settings.level.is_none() || bytes == 0 || loaded.contains(&context) {
        return Ok(());
    }
    let _within = cuda(Within::context(context))?;
    cuda(Block::plain(bytes as usize))?;
    loaded.insert(context);
    Ok(())
}

/// The parameters of a new communicator.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Ranks.
    pub world: u64,
    /// The rank of this process.
    pub rank: u64,
    /// The number of ranks that are known to be on this node.
    pub here: Option<u64>,
    /// The caller's configuration.
    pub config: Config,
    /// Whether it shares its parent's peers and buffers.
    pub shares: bool,
}

/// Creates a communicator on the current device.
pub fn make(place: Out<Handle>, new: New) -> Result<(), NcclResult> {
    require(!place.is_null() && new.world > 0 && new.rank < new.world)?;
    let (context, device) = cuda(current())?;
    let mut setup = Settings::get().setup(new.world, new.here, device, &new.config)?;
    setup.shares = new.shares;
    let mut comm = Comm {
        rank: new.rank,
        setup,
        device,
        context,
        blocks: BTreeMap::new(),
        connected: BTreeSet::new(),
        has_nvls: false,
        peers: BTreeSet::new(),
        has_pool: false,
        has_windows: false,
        suspended: None,
    };
    let start = |comm: &mut Comm| {
        load_kernels(context, &setup)?;
        comm.allocate(Part::Structures, &setup.structures(), setup.cumem)?;
        comm.allocate(Part::Network, &setup.pool_at_start(), setup.cumem)?;
        if !setup.late {
            comm.connect(setup.all_algorithms())?;
        }
        Ok(())
    };
    if let Err(failed) = start(&mut comm) {
        comm.release();
        return Err(failed);
    }
    // Each handle points to its own byte, so that live communicators are unique.
    let handle = Box::into_raw(Box::new(0_u8)) as Handle;
    comms().insert(handle, comm);
    put(place, handle)
}

/// `ncclCommDestroy`, `ncclCommAbort`.
pub fn destroy(comm: Handle) -> NcclResult {
    if comm == 0 {
        return NcclResult::SUCCESS;
    }
    let Some(found) = comms().remove(&comm) else {
        return result(Err(NcclResult::INVALID_ARGUMENT));
    };
    found.release();
    // SAFETY: the handle was in the table, so it came from `make`; it is removed first, so this
    // happens once.
    drop(unsafe { Box::from_raw(comm as *mut u8) });
    NcclResult::SUCCESS
}
