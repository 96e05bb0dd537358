//! The model: the live objects of each family of calls, and their owners.

use gpumem_cuda_abi::CuMemLocation;

use crate::pass::{Addr, Private};

/// Devices that the model has room for.
pub const DEVICES: usize = 3;

/// The device of host memory.
pub const ON_HOST: i32 = -1;

/// The owner of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The context; 0: the device alone.
    pub context: usize,
    /// The device.
    pub device: i32,
}

/// A context that has ended, with all that it owned.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The context.
    pub context: usize,
    /// Its device.
    pub device: i32,
    /// Whether it was the last one of its device.
    pub last: bool,
}

impl Ended {
    /// Whether the memory of `owner` is gone.
    pub fn takes(&self, owner: Owner) -> bool {
        owner.context == self.context
            || (owner.context == 0 && self.last && owner.device == self.device)
    }
}

/// The contexts that are active, or that their next use activates.
#[derive(Debug, Default)]
pub struct Contexts {
    /// References to each device's primary context, and its handle once it was retained.
    pub primary: [(u32, usize); DEVICES],
    /// Contexts that the program created.
    pub created: Vec<Owner>,
    /// Attached contexts, once for each call.
    pub attached: Vec<usize>,
    /// Handles of contexts that ended.
    pub gone: Vec<usize>,
}

impl Contexts {
    /// Handles of contexts that can be made current.
    pub fn usable(&self) -> Vec<usize> {
        let primary = self.primary.iter().filter(|(held, _)| *held > 0);
        primary
            .map(|(_, handle)| *handle)
            .chain(self.created.iter().map(|context| context.context))
            .collect()
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its first byte.
    pub pointer: Addr,
    /// Its length.
    pub bytes: usize,
    /// Its owner.
    pub owner: Owner,
    /// Whether it is managed.
    pub managed: bool,
}

/// The live blocks.
#[derive(Debug, Default)]
pub struct Blocks {
    /// In no particular order.
    pub live: Vec<Block>,
}

/// The live host blocks.
#[derive(Debug, Default)]
pub struct Host {
    /// Pinned blocks.
    pub pinned: Vec<(Addr, Owner)>,
    pub registered: Vec<(Addr, Owner)>,
}

/// Pools, streams and events.
#[derive(Debug, Default)]
pub struct Pools {
    /// Blocks and their devices; [`ON_HOST`] for host memory.
    pub blocks: Vec<(Addr, i32)>,
    /// Pools of devices' own memory that were created, and their devices.
    pub pools: Vec<(usize, i32)>,
    /// Pools of host memory and of managed memory that were created, with their types and locations.
    pub elsewhere: Vec<(usize, u32, CuMemLocation)>,
    pub streams: Vec<(usize, Owner)>,
    pub events: Vec<(usize, Owner)>,
    pub gone: Vec<usize>,
}

/// A handle, and how many references to it the program holds.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    pub handle: u64,
    pub pages: usize,
    pub references: u32,
    /// `None`: the memory is on the host.
    pub device: Option<i32>,
}

/// A mapping: pages of a handle at an address.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub at: u64,
    pub pages: usize,
    pub device: Option<i32>,
}

/// Physical memory, address ranges and mappings.
#[derive(Debug, Default)]
pub struct Vmm {
    pub handles: Vec<Handle>,
    pub ranges: Vec<(u64, usize)>,
    pub mappings: Vec<Mapping>,
    pub gone: Vec<u64>,
}

/// A live array.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub handle: usize,
    pub mipmapped: bool,
    pub owner: Owner,
}

/// The live arrays.
#[derive(Debug, Default)]
pub struct Arrays {
    pub live: Vec<Array>,
    pub gone: Vec<usize>,
}

/// Shared memory that is open.
#[derive(Debug, Default)]
pub struct Ipc {
    pub open: Vec<Private<usize>>,
}

/// An item of the peer that the program may open.
#[derive(Clone, Copy, Debug)]
pub struct Theirs {
    pub item: u64,
    pub what: What,
    pub device: i32,
    pub bytes: usize,
}

/// The kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Memory,
    Handle,
    /// Memory of a pool, which is this item of the peer.
    PoolMemory(u64),
}

/// An item of the peer that the program has open.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    Memory(Private<usize>, Owner),
    Handle {
        handle: u64,
        device: i32,
        at: Addr,
        bytes: usize,
    },
    /// A range whose mapping ended with the device's last context.
    Range(Addr, usize),
    Pool(usize),
    Pointer(Addr),
    External(usize),
    Buffer(Addr, Owner),
    Array(usize, Owner),
}

/// Memory shared with another process.
#[derive(Debug, Default)]
pub struct Peer {
    pub theirs: Vec<Theirs>,
    /// Pools of the peer, whose memory is among `theirs`.
    pub pools: Vec<u64>,
    pub open: Vec<Open>,
    /// Memory of the program that the peer has open.
    pub lent: Vec<u64>,
    /// Physical memory that was created for the peer, and its device.
    pub handles: Vec<(u64, i32)>,
    /// Pools that were created to share memory with the peer.
    pub own_pools: Vec<usize>,
}

/// Memory that a graph allocates at a launch and that its nodes do not free.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Its address, the same for every launch.
    pub pointer: Addr,
    /// The device.
    pub device: i32,
}

/// A graph that can be launched.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Its handle.
    pub handle: usize,
    /// Memory that a launch leaves live.
    pub given: Vec<Given>,
    /// Memory of other graphs that a launch frees.
    pub frees: Vec<Addr>,
    /// Whether a launch frees memory that the last one left live.
    pub auto_free: bool,
}

/// Graphs, and the memory of their launches.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Graphs that were instantiated and not destroyed.
    pub graphs: Vec<usize>,
    /// Executable graphs.
    pub executables: Vec<Executable>,
    /// Memory that launches have left live.
    pub live: Vec<Given>,
}

/// Loaded modules and libraries.
#[derive(Debug, Default)]
pub struct Modules {
    pub modules: Vec<(usize, Owner)>,
    pub libraries: Vec<usize>,
    /// Functions, and the module or library of each.
    pub functions: Vec<(usize, usize)>,
    pub gone: Vec<usize>,
}

/// The live green contexts.
#[derive(Debug, Default)]
pub struct Greens {
    /// The contexts with their devices.
    pub live: Vec<(usize, i32)>,
    pub gone: Vec<usize>,
}

impl Greens {
    /// Whether a green context holds a reference to the primary context of the device.
    pub fn hold(&self, device: i32) -> bool {
        self.live.iter().any(|(_, of)| *of == device)
    }
}
