//! The physical level of a device at a point in time, divided by library and line.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, Nanos, Seq};
use rustc_hash::FxHashMap;

use super::backing::Backed;
use super::pool::{Pool, Segments};
use super::tensors::Tensors;
use super::{Kind, Workspaces};
use crate::attribution::{Owner, PYTORCH_ALLOCATOR, library, owner};
use crate::replay::{Backing, Block, Growth, KeyId, Reading, Replay, ReservationKind, SpanContext};

/// The key of the smallest part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PieceId {
    pub kind: Kind,
    /// The number within its kind, if each is shown separately: a context's handle.
    pub which: u64,
    pub library: Option<String>,
    pub owner: Option<Owner>,
}

/// Parts and their bytes.
pub(super) type Pieces = BTreeMap<PieceId, i128>;

/// Facts about a device that only the whole capture has.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    /// Whether a framework's pool reported tensors.
    pub tensors: bool,
    /// Whether the physical level was recorded.
    pub physical: bool,
    /// The main device of the process, if it is another one.
    pub main: Option<DeviceOrdinal>,
}

/// A device at a point in time.
#[derive(Debug)]
pub(super) struct Parts {
    pub seq: Seq,
    pub time: Nanos,
    /// They sum to the physical level and `unseen`.
    pub pieces: Pieces,
    /// The physical level, or a substitute if it was not recorded.
    pub physical: u64,
    pub driver: u64,
    pub host: u64,
    pub managed: u64,
    pub aliases: u64,
    /// Bytes that the framework reported without driver events for them.
    pub unseen: u64,
    pub pool: Option<Pool>,
    pub workspaces: Option<Workspaces>,
    pub span_context: SpanContext,
    /// The newest reading before the point in time.
    pub before: Option<Reading>,
    /// Whether a context or module began after that.
    pub begun_since: bool,
}

impl Parts {
    /// The current state of the device in `replay`. `named` has the names and the stacks.
    pub fn at(replay: &Replay, named: &Replay, device: DeviceOrdinal, whole: &Whole) -> Self {
        let mut build = Build::new(replay, named, device, whole);
        let tensors = build.tensors();
        let workspaces = tensors.workspaces();
        let (pool, unseen) = build.driver(tensors);
        let physical = build.physical();
        let pieces = build.pieces;
        debug_assert_eq!(
            pieces.values().sum::<i128>(),
            i128::from(physical) + i128::from(unseen),
            "the parts are the physical level"
        );
        let now = replay.devices.get(&device);
        let before = now.and_then(|now| now.readings.best());
        Self {
            seq: replay.last_seq,
            time: replay.last,
            pieces,
            physical,
            driver: replay.counters(device, Level::DRIVER).live,
            host: replay.counters(device, Level::HOST).live,
            managed: build.managed,
            aliases: aliases(replay, device),
            unseen,
            pool,
            workspaces,
            span_context: replay.span_context(),
            before,
            begun_since: replay.newest_begun > before.map(|before| before.seq),
        }
    }

    /// The part that a growth after the point in time belongs to. `replay` has the context or module.
    pub fn of_growth(
        growth: &Growth,
        (replay, named): (&Replay, &Replay),
        device: DeviceOrdinal,
        whole: &Whole,
    ) -> PieceId {
        let mut build = Build::new(replay, named, device, whole);
        build.implicit(growth.kind, growth.handle, growth.key)
    }

    /// Adds the growth of a context or module after the point in time.
    pub fn add_growth(&mut self, id: PieceId, bytes: u64) {
        *self.pieces.entry(id).or_default() += i128::from(bytes);
        self.physical = self.physical.saturating_add(bytes);
    }
}

fn aliases(replay: &Replay, at: DeviceOrdinal) -> u64 {
    let aliases = replay.objects.aliases.iter();
    aliases
        .filter(|((device, _), _)| *device == at)
        .map(|(_, bytes)| bytes)
        .sum()
}

struct Build<'a> {
    replay: &'a Replay,
    named: &'a Replay,
    device: DeviceOrdinal,
    whole: &'a Whole,
    known: FxHashMap<(KeyId, Level), (Option<String>, Owner)>,
    pieces: Pieces,
    asked: Backed,
    managed: u64,
}

impl<'a> Build<'a> {
    fn new(replay: &'a Replay, named: &'a Replay, device: DeviceOrdinal, whole: &'a Whole) -> Self {
        Self {
            replay,
            named,
            device,
            whole,
            known: FxHashMap::default(),
            pieces: Pieces::new(),
            asked: Backed::default(),
            managed: 0,
        }
    }

    fn who(&mut self, key: KeyId, level: Level) -> (Option<String>, Owner) {
        let named = self.named;
        let known = self.known.entry((key, level)).or_insert_with(|| {
            let stacks = named.stacks(key);
            let library = library(&named.names, stacks, level);
            (library, owner(&named.names, stacks, level))
        });
        known.clone()
    }

    fn add(&mut self, kind: Kind, library: Option<String>, owner: Option<Owner>, bytes: i128) {
        let which = 0;
        let id = PieceId {
            kind,
            which,
            library,
            owner,
        };
        *self.pieces.entry(id).or_default() += bytes;
    }

    fn tensors(&mut self) -> Tensors {
        let mut tensors = Tensors::default();
        if let Some(row) = self.replay.levels.get(&(self.device, Level::TENSOR)) {
            for (address, block) in row.live_blocks() {
                tensors.insert(address, block.bytes, self.who(block.key, Level::TENSOR).1);
            }
        }
        tensors
    }

    /// Adds requested bytes: tensors and their pool, and the memory of each library. Returns the pool, and how much
    /// of it has no driver events.
    fn driver(&mut self, tensors: Tensors) -> (Option<Pool>, u64) {
        let (replay, at) = (self.replay, self.device);
        let row = replay.levels.get(&(at, Level::DRIVER));
        let mut segments = Segments::new(&replay.objects);
        let (mut in_pool, mut any_known) = (0_u64, false);
        for (address, block) in row.iter().flat_map(|row| row.live_blocks()) {
            let backing = Backing::of(block.flags);
            let asked = match backing {
                Backing::Pages => &mut self.asked.pages,
                Backing::Handle => &mut self.asked.handles,
                Backing::Pool => &mut self.asked.pools,
                Backing::Graph => &mut self.asked.graphs,
                Backing::Unknown => &mut self.managed,
            };
            *asked = asked.saturating_add(block.bytes);
            if backing == Backing::Unknown {
                continue;
            }
            let (name, line) = self.who(block.key, Level::DRIVER);
            any_known |= name.is_some();
            let bytes = i128::from(block.bytes);
            let pooled = matches!(backing, Backing::Pages | Backing::Handle) && self.whole.tensors;
            let holds = || segments.holds_a_tensor(address, &block, &tensors);
            if pooled
                && name
                    .as_deref()
                    .map_or_else(holds, |name| name == PYTORCH_ALLOCATOR)
            {
                segments.add(address, &block, line);
                in_pool = in_pool.saturating_add(block.bytes);
            } else if !self.whole.tensors && name.as_deref() == Some(PYTORCH_ALLOCATOR) {
                // Without its own pool, PyTorch requests memory for each tensor from CUDA.
                self.add(Kind::Tensors, name, Some(line), bytes);
            } else if backing == Backing::Graph {
                self.add(Kind::Graph, name, Some(line), bytes);
            } else {
                self.add(Kind::Library, name, Some(line), bytes);
            }
        }
        if !self.whole.tensors {
            return (None, 0);
        }
        let says = replay.devices.get(&at).and_then(|now| now.now.reserved);
        let says = says.unwrap_or(0).max(tensors.bytes());
        if !any_known {
            in_pool += self.take_unknown(says.saturating_sub(in_pool));
        }
        // Without the driver level, only the framework's own figure is known.
        let reserved = if row.is_some() {
            in_pool.max(tensors.bytes())
        } else {
            says
        };
        for (owner, bytes) in tensors.by_owner() {
            self.add(
                Kind::Tensors,
                Some(PYTORCH_ALLOCATOR.into()),
                Some(owner),
                i128::from(bytes),
            );
        }
        if tensors.bytes() == 0 {
            self.add(Kind::Tensors, Some(PYTORCH_ALLOCATOR.into()), None, 0);
        }
        let cached = reserved - tensors.bytes();
        self.add(
            Kind::Cached,
            Some(PYTORCH_ALLOCATOR.into()),
            None,
            i128::from(cached),
        );
        let pool = segments.pool(reserved, &tensors);
        (Some(pool), reserved - in_pool)
    }

    /// Takes up to `bytes` from memory without a library, which includes the pool. Returns how much it took.
    fn take_unknown(&mut self, bytes: u64) -> u64 {
        let mut left = i128::from(bytes);
        for (id, have) in &mut self.pieces {
            if id.kind == Kind::Library && id.library.is_none() {
                let taken = left.min(*have);
                *have -= taken;
                left -= taken;
            }
        }
        bytes - left.max(0) as u64
    }

    /// Adds the physical memory behind that: whole pages, pools, graphs; and contexts and modules. Returns the level.
    fn physical(&mut self) -> u64 {
        let mut given = self.asked;
        let mut others = 0;
        if self.whole.physical {
            given = Backed::default();
            let row = self.replay.levels.get(&(self.device, Level::PHYSICAL));
            for (_, Block { bytes, flags, .. }) in row.iter().flat_map(|row| row.live_blocks()) {
                if flags.contains(EventFlags::VMM_HANDLE) {
                    given.handles += bytes;
                } else {
                    given.pages += bytes;
                }
            }
            for (kind, ptr, reservation) in row.iter().flat_map(|row| row.reservations()) {
                match kind {
                    ReservationKind::Pool => given.pools += reservation.bytes(),
                    ReservationKind::Graphs => given.graphs += reservation.bytes(),
                    ReservationKind::Context
                    | ReservationKind::Streams
                    | ReservationKind::Module
                    | ReservationKind::Other => {
                        others += reservation.bytes();
                        for (key, bytes) in reservation.parts() {
                            let id = self.implicit(kind, ptr, *key);
                            *self.pieces.entry(id).or_default() += i128::from(*bytes);
                        }
                    }
                }
            }
        } else {
            for ((device, handle), (key, bytes)) in &self.replay.objects.contexts {
                if *device == self.device {
                    others += bytes;
                    let id = self.implicit(ReservationKind::Context, *handle, *key);
                    *self.pieces.entry(id).or_default() += i128::from(*bytes);
                }
            }
        }
        let asked = self.asked;
        for (kind, given, asked) in [
            (Kind::Rounding, given.pages, asked.pages),
            (Kind::Rounding, given.handles, asked.handles),
            (Kind::Pool, given.pools, asked.pools),
            (Kind::GraphUnused, given.graphs, asked.graphs),
        ] {
            self.add(kind, None, None, i128::from(given) - i128::from(asked));
        }
        given.sum() + others
    }

    /// The key of memory without a requested size: a context, its streams, a module.
    fn implicit(&mut self, kind: ReservationKind, ptr: u64, key: KeyId) -> PieceId {
        let objects = &self.replay.objects;
        let (fallback, line) = self.who(key, Level::DRIVER);
        let (kind, which, library) = match kind {
            ReservationKind::Context => {
                let birth = objects.contexts.get(&(self.device, ptr));
                let maker = birth.and_then(|(key, _)| self.who(*key, Level::DRIVER).0);
                (Kind::Context, ptr, maker)
            }
            ReservationKind::Streams => (Kind::Streams, 0, None),
            ReservationKind::Module => {
                let load = objects.loads.get(&ptr);
                let image = load
                    .and_then(|load| self.named.names.modules.get(load.image? as usize))
                    .map(|module| module.basename().to_owned());
                let caller = || load.and_then(|load| self.who(load.key, Level::DRIVER).0);
                (Kind::Module, 0, image.or_else(caller))
            }
            _ => (Kind::Library, 0, None),
        };
        PieceId {
            kind,
            which,
            library: library.or(fallback),
            owner: Some(line),
        }
    }
}
