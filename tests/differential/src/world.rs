//! What a thread's random program knows: its caller, its randomness, and a small model of what lives,
//! so that most calls are valid and some fail on purpose.

use crate::cuda::{Cuda, OUT_OF_MEMORY};
use crate::families::vmm;
use crate::families::{
    self, Family, array, context, device, graph, green, host, ipc, module, peer, pool,
};
use crate::rng::Rng;

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

/// One random program's state.
pub struct World {
    /// The caller.
    pub cuda: Cuda,
    /// The randomness.
    pub rng: Rng,
    /// Whether no other thread calls at the same time.
    pub alone: bool,
    /// Devices of the machine.
    pub devices: usize,
    /// The families of calls to choose from.
    pub families: &'static [Family],
    /// Memory of the program's own, for registering: its first byte.
    pub arena: u64,
    /// Contexts.
    pub contexts: context::Contexts,
    /// Device and managed memory.
    pub blocks: device::Blocks,
    /// Pinned and registered memory.
    pub host: host::Host,
    /// Pools, streams, events.
    pub pools: pool::Pools,
    /// Physical handles and mappings.
    pub vmm: vmm::Vmm,
    /// Arrays.
    pub arrays: array::Arrays,
    /// Shared memory.
    pub ipc: ipc::Ipc,
    /// Memory shared with another process.
    pub peer: peer::Peer,
    /// Graphs with memory nodes.
    pub graphs: graph::Graphs,
    /// Modules.
    pub modules: module::Modules,
    /// Green contexts.
    pub greens: green::Greens,
}

impl World {
    /// A world in which nothing lives.
    pub fn new(cuda: Cuda, devices: usize, families: &'static [Family], arena: u64) -> Self {
        Self {
            cuda,
            rng: Rng::new(0),
            alone: true,
            devices,
            families,
            arena,
            contexts: context::Contexts::default(),
            blocks: device::Blocks::default(),
            host: host::Host::default(),
            pools: pool::Pools::default(),
            vmm: vmm::Vmm::default(),
            arrays: array::Arrays::default(),
            ipc: ipc::Ipc::default(),
            peer: peer::Peer::default(),
            graphs: graph::Graphs::default(),
            modules: module::Modules::default(),
            greens: green::Greens::default(),
        }
    }

    /// Begins a sequence.
    pub fn begin(&mut self, seed: u64, sequence: u64) {
        self.rng = Rng::new(seed);
        self.cuda.begin(seed, sequence);
    }

    /// One random step of one of the families.
    pub fn step(&mut self) {
        if !self.rng.percent(8) {
            context::bind(self);
        }
        let weights: usize = self.families.iter().map(|family| family.weight).sum();
        let mut chosen = self.rng.below(weights);
        for family in self.families {
            match chosen.checked_sub(family.weight) {
                Some(rest) => chosen = rest,
                None => return (family.step)(self),
            }
        }
    }

    /// Releases what the ends of contexts leave, then ends the contexts.
    pub fn end(&mut self) {
        for family in families::ALL {
            (family.end)(self);
        }
    }

    /// A context has ended: what it owned is gone from the model too.
    pub fn ended(&mut self, ended: Ended) {
        for family in families::ALL {
            (family.ended)(self, &ended);
        }
    }

    /// Whether a family is among those to choose from.
    pub fn has_family(&self, name: &str) -> bool {
        self.families.iter().any(|family| family.name == name)
    }

    /// A device's ordinal; now and then one that there is not.
    pub fn device(&mut self) -> i32 {
        if self.rng.percent(2) {
            return 77;
        }
        self.rng.below(self.devices) as i32
    }

    /// A size; now and then 0, or more than any card has.
    pub fn bytes(&mut self) -> usize {
        match self.rng.below(60) {
            0 => 0,
            1 => 1 << 41,
            2 => usize::MAX - self.rng.below(4096),
            _ => self.rng.bytes(),
        }
    }

    /// The calling thread's context and its device, after a call that needed one.
    pub fn owner(&mut self) -> Owner {
        let (mut context, mut device) = (0, -1);
        self.cuda.cuCtxGetCurrent(Some(&mut context));
        self.cuda.cuCtxGetDevice(Some(&mut device));
        Owner { context, device }
    }

    /// A call that the model holds for valid: any failure but want of memory is a surprise, and, where
    /// threads call at once, that another one's capture forbids it.
    pub fn expect(&mut self, code: u32) -> bool {
        const BY_CAPTURE: std::ops::RangeInclusive<u32> = 900..=910;
        let forbidden = !self.alone && BY_CAPTURE.contains(&code);
        if code != 0 && code != OUT_OF_MEMORY && !forbidden {
            self.cuda.surprised();
        }
        code == 0
    }
}
