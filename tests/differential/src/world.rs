//! The state of a thread's random program: its caller, its random numbers, and a small model of the
//! live objects, so that most calls are valid and some fail on purpose.

use crate::cuda::{Cuda, OUT_OF_MEMORY};
use crate::model::{
    Arrays, Blocks, Contexts, Ended, Graphs, Greens, Host, Ipc, Modules, Owner, Peer, Pools, Vmm,
};
use crate::rng::Rng;

/// A family.
#[derive(Clone, Copy)]
pub struct Family {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its weight in the random choice.
    pub weight: usize,
    /// Makes a few calls.
    pub step: fn(&mut World),
    /// Updates the model after the end of a context.
    pub ended: fn(&mut World, &Ended),
    /// Frees the remaining memory at the end of a sequence.
    pub end: fn(&mut World),
}

/// The families of a run.
#[derive(Clone, Copy)]
pub struct Families {
    /// The families to choose from.
    pub chosen: &'static [Family],
    /// Every family, in the order in which they free their memory.
    pub all: &'static [Family],
}

/// The state of one random program.
pub struct World {
    /// The caller.
    pub cuda: Cuda,
    /// The random numbers.
    pub rng: Rng,
    /// Whether no other thread calls at the same time.
    pub alone: bool,
    /// Number of devices.
    pub devices: usize,
    /// The families of calls.
    pub families: Families,
    /// The address of the program's memory for registering.
    pub arena: u64,
    /// Contexts.
    pub contexts: Contexts,
    /// Device and managed memory.
    pub blocks: Blocks,
    /// Pinned and registered memory.
    pub host: Host,
    /// Pools, streams, events.
    pub pools: Pools,
    /// Physical handles and mappings.
    pub vmm: Vmm,
    /// Arrays.
    pub arrays: Arrays,
    /// Shared memory.
    pub ipc: Ipc,
    /// Memory shared with another process.
    pub peer: Peer,
    /// Graphs with memory nodes.
    pub graphs: Graphs,
    /// Modules.
    pub modules: Modules,
    /// Green contexts.
    pub greens: Greens,
}

impl World {
    /// A world without live objects.
    pub fn new(cuda: Cuda, devices: usize, families: Families, arena: u64) -> Self {
        Self {
            cuda,
            rng: Rng::new(0),
            alone: true,
            devices,
            families,
            arena,
            contexts: Contexts::default(),
            blocks: Blocks::default(),
            host: Host::default(),
            pools: Pools::default(),
            vmm: Vmm::default(),
            arrays: Arrays::default(),
            ipc: Ipc::default(),
            peer: Peer::default(),
            graphs: Graphs::default(),
            modules: Modules::default(),
            greens: Greens::default(),
        }
    }

    /// Begins a sequence.
    pub fn begin(&mut self, seed: u64, sequence: u64) {
        self.rng = Rng::new(seed);
        self.cuda.begin(seed, sequence);
    }

    /// Frees what the ends of contexts do not free, then ends the contexts.
    pub fn end(&mut self) {
        for family in self.families.all {
            (family.end)(self);
        }
    }

    /// Removes an ended context's memory from the model.
    pub fn ended(&mut self, ended: Ended) {
        for family in self.families.all {
            (family.ended)(self, &ended);
        }
    }

    /// Whether a family is one of the chosen ones.
    pub fn has_family(&self, name: &str) -> bool {
        self.families
            .chosen
            .iter()
            .any(|family| family.name == name)
    }

    /// A device's ordinal; in some cases one that does not exist.
    pub fn device(&mut self) -> i32 {
        if self.rng.percent(2) {
            return 77;
        }
        self.rng.below(self.devices) as i32
    }

    /// A size; in some cases 0, or more than any card has.
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

    /// Checks the result of a call that is valid according to the model. A failure other than out of
    /// memory is a surprise, except that another thread's capture may forbid the call where threads
    /// call at once.
    pub fn expect(&mut self, code: u32) -> bool {
        const BY_CAPTURE: std::ops::RangeInclusive<u32> = 900..=910;
        let forbidden = !self.alone && BY_CAPTURE.contains(&code);
        if code != 0 && code != OUT_OF_MEMORY && !forbidden {
            self.cuda.surprised();
        }
        code == 0
    }
}
