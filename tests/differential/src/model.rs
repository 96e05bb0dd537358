//! The model: what lives of each family of calls, and to whom it belongs.

use crate::pass::{Addr, Private};

/// Devices that the model has room for.
pub const DEVICES: usize = 3;

/// To whom a block belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The context; 0: the device alone.
    pub context: usize,
    /// The device.
    pub device: i32,
}

/// What has ended, with all that it owned.
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
    /// Whether what belongs to `owner` is gone.
    pub fn takes(&self, owner: Owner) -> bool {
        owner.context == self.context
            || (owner.context == 0 && self.last && owner.device == self.device)
    }
}

/// The contexts that live, or come to life with their next use.
#[derive(Debug, Default)]
pub struct Contexts {
    /// References to each device's primary context, and its handle once it was retained.
    pub primary: [(u32, usize); DEVICES],
    /// Contexts of the program's own.
    pub created: Vec<Owner>,
    /// Contexts that were attached to, once for each time.
    pub attached: Vec<usize>,
    /// Handles of contexts that ended.
    pub gone: Vec<usize>,
}

impl Contexts {
    /// Handles of the contexts that can be made current.
    pub fn usable(&self) -> Vec<usize> {
        let primary = self.primary.iter().filter(|(held, _)| *held > 0);
        primary
            .map(|(_, handle)| *handle)
            .chain(self.created.iter().map(|context| context.context))
            .collect()
    }
}

/// A block that lives.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its first byte.
    pub pointer: Addr,
    /// Its length.
    pub bytes: usize,
    /// To whom it belongs.
    pub owner: Owner,
    /// Whether it is managed.
    pub managed: bool,
}

/// The blocks that live.
#[derive(Debug, Default)]
pub struct Blocks {
    /// In no order.
    pub live: Vec<Block>,
}

/// The host blocks that live.
#[derive(Debug, Default)]
pub struct Host {
    /// Pinned blocks.
    pub pinned: Vec<(Addr, Owner)>,
    pub registered: Vec<(Addr, Owner)>,
}

/// Pools, streams and events.
#[derive(Debug, Default)]
pub struct Pools {
    /// Blocks and their devices.
    pub blocks: Vec<(Addr, i32)>,
    /// Pools that were created, and their devices.
    pub pools: Vec<(usize, i32)>,
    pub streams: Vec<(usize, Owner)>,
    pub events: Vec<(usize, Owner)>,
    pub gone: Vec<usize>,
}

/// A handle that the program holds so often.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    pub handle: u64,
    pub pages: usize,
    pub references: u32,
    /// `None`: it lies on the host.
    pub device: Option<i32>,
}

/// A mapping: so many pages of a handle at an address.
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

/// An array that lives.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub handle: usize,
    pub mipmapped: bool,
    pub owner: Owner,
}

/// The arrays that live.
#[derive(Debug, Default)]
pub struct Arrays {
    pub live: Vec<Array>,
    pub gone: Vec<usize>,
}

/// What is open of shared memory.
#[derive(Debug, Default)]
pub struct Ipc {
    pub open: Vec<Private<usize>>,
}

/// Something that the peer has and the program may open.
#[derive(Clone, Copy, Debug)]
pub struct Theirs {
    pub item: u64,
    pub what: What,
    pub device: i32,
    pub bytes: usize,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Memory,
    Handle,
    /// Memory of a pool, which the peer has as this item.
    PoolMemory(u64),
}

/// What the program has open of the peer's.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    Memory(Private<usize>, Owner),
    Handle {
        handle: u64,
        device: i32,
        at: Addr,
        bytes: usize,
    },
    /// Addresses from which the device's last context took the mapping.
    Range(Addr, usize),
    Pool(usize),
    Pointer(Addr),
    External(usize),
    Buffer(Addr, Owner),
    Array(usize, Owner),
}

/// What is shared with another process.
#[derive(Debug, Default)]
pub struct Peer {
    pub theirs: Vec<Theirs>,
    /// Pools of the peer's, whose memory is among `theirs`.
    pub pools: Vec<u64>,
    pub open: Vec<Open>,
    /// What the peer has open of the program's memory.
    pub lent: Vec<u64>,
    /// Physical memory that was made to be lent, and its device.
    pub handles: Vec<(u64, i32)>,
    /// Pools that were made to be lent from.
    pub own_pools: Vec<usize>,
}

/// Memory that a graph gives at a launch and no node of it frees.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Its address, of every launch the same.
    pub pointer: Addr,
    /// The device.
    pub device: i32,
}

/// A graph that can be launched.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Its handle.
    pub handle: usize,
    /// What a launch leaves live.
    pub given: Vec<Given>,
    /// What a launch frees of other graphs' memory.
    pub frees: Vec<Addr>,
    /// Whether a launch frees what the last one left live.
    pub auto_free: bool,
}

/// Graphs, and the memory of their launches.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Graphs that were instantiated and not destroyed.
    pub graphs: Vec<usize>,
    /// What was instantiated.
    pub executables: Vec<Executable>,
    /// Memory that launches have left live.
    pub live: Vec<Given>,
}

/// What is loaded.
#[derive(Debug, Default)]
pub struct Modules {
    pub modules: Vec<(usize, Owner)>,
    pub libraries: Vec<usize>,
    /// Functions, and the module or library of each.
    pub functions: Vec<(usize, usize)>,
    pub gone: Vec<usize>,
}

/// The green contexts that live.
#[derive(Debug, Default)]
pub struct Greens {
    /// With their devices.
    pub live: Vec<(usize, i32)>,
    pub gone: Vec<usize>,
}

impl Greens {
    /// Whether a green context holds the primary context of the device.
    pub fn hold(&self, device: i32) -> bool {
        self.live.iter().any(|(_, of)| *of == device)
    }
}
