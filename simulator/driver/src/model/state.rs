//! The whole state, and how API functions access it.
//!
//! ```text
//!  unborn ──cuInit──► live ──fork, in the child──► orphaned
//! ``` As with the real driver, all but a few calls return `NOT_INITIALIZED` before `cuInit` and in
//! a forked child of an initialised process.

use super::array::Array;
use super::books::Books;
use super::capture::Captures;
use super::context::{Contexts, Current};
use super::external::External;
use super::graphs::Graphs;
use super::green::Greens;
use super::handles::Handles;
use super::ipc::Ipc;
use super::memory::Memory;
use super::module::Modules;
use super::multicast::Multicast;
use super::pool::Pools;
use super::sharing::Lingering;
use super::stream::{Event, Stream};
use super::vmm::Vmm;
use crate::ffi::{Answer, CuError};
use gpumem_sim_card::Cards;
use gpumem_sim_machine::Machine;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The state of the simulated driver.
pub struct State {
    /// The simulated machine.
    pub machine: &'static Machine,
    /// Requested and physical bytes.
    pub books: Books,
    /// Contexts.
    pub contexts: Contexts,
    /// Allocations by address.
    pub memory: Memory,
    /// Memory pools.
    pub pools: Pools,
    /// Virtual memory management: physical handles, reservations, mappings.
    pub vmm: Vmm,
    /// Memory shared between processes.
    pub ipc: Ipc,
    /// Multicast objects.
    pub multicasts: Handles<Multicast>,
    /// Memory of other interfaces.
    pub external: Handles<External>,
    /// Memory of the card that only other processes still hold.
    pub lingering: Vec<Lingering>,
    /// Green contexts.
    pub greens: Greens,
    /// Arrays.
    pub arrays: Handles<Array>,
    /// Streams.
    pub streams: Handles<Stream>,
    /// Events.
    pub events: Handles<Event>,
    /// Graphs, their executables and their memory.
    pub graphs: Graphs,
    /// Streams that are being captured.
    pub captures: Captures,
    /// Modules, libraries and their functions.
    pub modules: Modules,
    /// Kernel launches so far.
    pub launches: u64,
}

impl State {
    /// The state of a driver that has just been initialised.
    pub fn new(machine: &'static Machine) -> Self {
        let visible = (0..machine.visible.len()).filter_map(|o| machine.visible_device(o));
        let cards = machine.card.as_deref().and_then(shared_cards);
        let books = Books::new(visible, cards);
        let devices = books.devices();
        Self {
            machine,
            books,
            contexts: Contexts::new(devices),
            memory: Memory::default(),
            pools: Pools::new(devices),
            vmm: Vmm::default(),
            ipc: Ipc::default(),
            multicasts: Handles::new(0x31),
            external: Handles::new(0x32),
            lingering: Vec::new(),
            greens: Greens::new(),
            arrays: Handles::new(5),
            streams: Handles::new(2),
            events: Handles::new(3),
            graphs: Graphs::new(devices),
            captures: Captures::default(),
            modules: Modules::default(),
            launches: 0,
        }
    }

    /// The calling thread's context and its device.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` without a context, `CONTEXT_IS_DESTROYED` if it was destroyed. A primary
    /// context that was reset is created again, which may return `OUT_OF_MEMORY`.
    pub fn current(&mut self) -> Answer<Current> {
        let handle = super::context::top().ok_or(CuError::INVALID_CONTEXT)?;
        self.context_or_revive(handle)
    }

    /// The calling thread's context, for calls that need one but do not use it: they do not create
    /// a primary context.
    ///
    /// # Errors
    /// As [`current`](Self::current), without `OUT_OF_MEMORY`.
    pub fn bound(&self) -> Answer<Current> {
        let handle = super::context::top().ok_or(CuError::INVALID_CONTEXT)?;
        self.bindable(handle)
    }

    /// The context of `handle`, where null means the current one.
    pub fn context(&mut self, handle: usize) -> Answer<Current> {
        if handle == 0 {
            return self.current();
        }
        self.context_or_revive(handle)
    }

    /// Checks a device ordinal.
    pub fn device(&self, ordinal: i32) -> Answer<usize> {
        let device = usize::try_from(ordinal).map_err(|_| CuError::INVALID_DEVICE)?;
        if device < self.books.devices() {
            Ok(device)
        } else {
            Err(CuError::INVALID_DEVICE)
        }
    }

    /// Whether every device can use managed memory at the same time as the host
    /// (`CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS`).
    pub fn manages_concurrently(&self) -> bool {
        let ordinals = 0..self.machine.visible.len();
        let mut all = ordinals.filter_map(|ordinal| self.machine.visible_device(ordinal));
        all.all(|spec| spec.compute_capability >= (6, 0))
    }
}

/// The table of the memory that each process has on the cards. If it cannot be opened, this process
/// has separate cards.
fn shared_cards(path: &str) -> Option<Cards> {
    let cards = Cards::open(Path::new(path));
    cards
        .inspect_err(|error| {
            eprintln!("gpumem simulator: GPUMEM_SIM_CARD={path} cannot be used: {error}");
        })
        .ok()
}

const UNBORN: u8 = 0;
const LIVE: u8 = 1;
const ORPHANED: u8 = 2;

static LIFE: AtomicU8 = AtomicU8::new(UNBORN);
static STATE: OnceLock<Mutex<State>> = OnceLock::new();

/// The machine that the environment describes; read once. Warnings go to stderr.
pub fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let made = Machine::from_env();
        for complaint in made.complaints {
            eprintln!("gpumem simulator: {complaint}");
        }
        made.machine
    })
}

/// `cuInit`.
pub fn initialise() -> Answer {
    if LIFE.load(Ordering::Acquire) == ORPHANED {
        return Err(CuError::NOT_INITIALIZED);
    }
    if machine().visible.is_empty() {
        return Err(CuError::NO_DEVICE);
    }
    STATE.get_or_init(|| {
        // SAFETY: registers a handler that only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(orphan)) };
        Mutex::new(State::new(machine()))
    });
    let _ = LIFE.compare_exchange(UNBORN, LIVE, Ordering::AcqRel, Ordering::Acquire);
    Ok(())
}

extern "C" fn orphan() {
    LIFE.store(ORPHANED, Ordering::Release);
}

/// The locked state.
///
/// # Errors
/// `NOT_INITIALIZED` before `cuInit` and in a forked child.
pub fn state() -> Answer<MutexGuard<'static, State>> {
    if LIFE.load(Ordering::Acquire) != LIVE {
        return Err(CuError::NOT_INITIALIZED);
    }
    let mutex = STATE.get().ok_or(CuError::NOT_INITIALIZED)?;
    let mut state = mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if !state.lingering.is_empty() {
        state.settle_lingering();
    }
    Ok(state)
}
