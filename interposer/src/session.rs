//! The open capture, and what stands around it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::num::NonZeroU64;
use std::time::Duration;

use gpumem_capture::writer::lock::Lock;
use gpumem_capture::{DefKind, DeviceOrdinal, Seq, StackId, Writer};
use gpumem_cuda_abi::CuDevice;
use gpumem_stacks::{Interner, Stacks};
use gpumem_tracker::{Asked, Interest, Tracker};

use crate::allocator::state::Allocator;
use crate::backward::nodes::Nodes;
use crate::backward::steps::Steps;
use crate::driver::{self, DeviceFacts};
use crate::failed::Failed;
use crate::names::Names;
use crate::process::PROCESS;
use crate::storage::Storage;
use crate::tensors::Tensors;
use crate::thread::Thread;

/// Reads the cards. It stands above what records, and is called once an event is in the ring, with no lock held.
pub(crate) trait Readings: Sync {
    /// A device that the process uses for the first time: it is read from now on.
    fn know(&'static self, session: &'static Session, device: DeviceOrdinal, facts: &DeviceFacts);

    /// An allocation of the driver's on a device: a new peak is worth a reading.
    fn grown(&self, writer: &'static Writer, device: DeviceOrdinal);

    /// Cards are to be read soon: there is evidence of bytes that no call asks for, or memory was wanting. A counter and
    /// a wake-up; nothing once the process ends.
    fn read_soon(&self);

    /// A device is to be read now, on this thread: a context was made there, or has ended.
    fn read_now(&self, session: &'static Session, device: DeviceOrdinal);

    /// The program asks for a reading of a device, or (`None`) of all that this process has used. False: other threads
    /// moved memory meanwhile. None: NVML is not there, or does not know the device.
    fn read_for_program(
        &self,
        session: &'static Session,
        thread: &Thread,
        device: Option<DeviceOrdinal>,
    ) -> Option<bool>;

    /// Asks for the last reading, which is made while what else there is to do at the end is done. Its number.
    fn begin_last(&self) -> Option<u64>;

    /// Waits for the last reading, if one was asked for, and stops the thread: from here on nothing of ours calls NVML,
    /// whatever hooks still ask for. A thread that is inside of a call that does not return in time makes no other one
    /// once it does.
    fn end(&self, last: Option<u64>);
}

/// Reports allocations that fail. It stands above what records, too.
pub(crate) trait Failures: Sync {
    /// An allocation that failed, with its event and its stacks.
    fn tell(
        &self,
        session: &'static Session,
        thread: &Thread,
        failed: Failed,
        seq: Seq,
        stacks: (StackId, StackId),
    );
}

/// What of a card is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardUse {
    pub(crate) used: u64,
    pub(crate) total: u64,
    /// By this process; `None` if NVML does not tell.
    pub(crate) mine: Option<u64>,
}

/// Hears of each reading of a card, on the thread that reads them.
pub(crate) trait Watch: Sync {
    /// A device was read.
    fn card_read(&self, device: DeviceOrdinal, card: CardUse);
}

/// Which devices are defined in the capture.
pub(crate) struct Known([AtomicBool; 64]);

impl Default for Known {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; 64])
    }
}

/// An open capture and what the hooks need with it.
pub(crate) struct Session {
    pub(crate) writer: &'static Writer,
    /// Where it goes.
    pub(crate) storage: &'static Storage,
    /// What PyTorch's allocator decides by.
    pub(crate) allocator: Allocator,
    /// The tensors that are live.
    pub(crate) tensors: &'static Tensors,
    /// What else is live.
    pub(crate) tracker: Lock<Tracker>,
    /// What the tracker has, as of its last transition: see [`Session::interest`].
    pub(crate) interest: AtomicU8,
    /// [`Tracker::context_ends`], as of its last transition.
    pub(crate) context_ends: AtomicU64,
    /// [`Tracker::only_pool`], as of its last transition: the pool and its device in one word; 0: there is none.
    pub(crate) only_pool: AtomicU64,
    pub(crate) asked: Asked,
    /// Allocations from pools that are in progress.
    pub(crate) allocating: AtomicU32,
    /// Which stacks are taken.
    pub(crate) stacks: Stacks,
    pub(crate) interner: Interner,
    /// Mean distance in allocated bytes of those tensors whose stacks are taken; `None`: all are.
    pub(crate) stack_sample: Option<NonZeroU64>,
    /// Whether PyTorch's backward is charged to forward lines: needs Python stacks.
    pub(crate) backward: bool,
    /// Whether releases carry a Python stack too.
    pub(crate) free_stacks: bool,
    /// How often NVML is read; `None`: only when something happens.
    pub(crate) sample_every: Option<Duration>,
    /// Whether the lines at the end are left out.
    pub(crate) quiet: bool,
    /// Whether allocations that fail are told of at once.
    pub(crate) postmortem: bool,
    pub(crate) known_devices: Known,
    /// What the program calls its ranges, scopes and marks.
    pub(crate) names: Names,
    /// PyTorch's autograd nodes.
    pub(crate) nodes: Nodes,
    /// The training's steps.
    pub(crate) steps: Lock<Steps>,
    /// The newest event by which a phase of the training was left; 0: none, or a request has failed since.
    pub(crate) trained_until: AtomicU64,
    pub(crate) readings: &'static dyn Readings,
    pub(crate) failures: &'static dyn Failures,
    pub(crate) watch: Option<&'static dyn Watch>,
}

/// The session, if there is one, also in a child that was forked since.
#[inline(always)]
fn published() -> Option<&'static Session> {
    let session = PROCESS.session.load(Ordering::Acquire).cast::<Session>();
    // SAFETY: null, or stored by `publish` alone: a leaked session, published with Release.
    unsafe { session.as_ref() }
}

/// The session, if one is open and this is its process.
#[inline]
pub(crate) fn session() -> Option<&'static Session> {
    let session = published()?;
    session.writer.is_own_process().then_some(session)
}

/// The session of this process, also after recording has ended.
pub(crate) fn session_of_process() -> Option<&'static Session> {
    let session = published()?;
    session.writer.is_of_this_process().then_some(session)
}

/// Makes `session` that of the process, for good.
pub(crate) fn publish(session: &'static Session) {
    let session = core::ptr::from_ref(session).cast_mut().cast();
    PROCESS.session.store(session, Ordering::Release);
}

/// Opens the capture, or waits until another thread has; false: there is none.
pub(crate) type Open = extern "C" fn() -> bool;

// What opens a capture stands above everything that records, and puts itself into this section: [`crate::open`].
core::arch::global_asm!(".hidden __start_gpumem_open");

unsafe extern "C" {
    #[link_name = "__start_gpumem_open"]
    static OPEN: Open;
}

/// The session, opened now if there is none yet.
pub(crate) fn open() -> Option<&'static Session> {
    // SAFETY: the section holds one function of this type, and the loader has relocated it before anything here runs.
    if published().is_none() && !unsafe { OPEN }() {
        return None;
    }
    session()
}

impl Session {
    /// What there is that needs questions or care.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        Interest(self.interest.load(Ordering::Acquire))
    }

    /// Whether an allocation from a pool is in progress. One that has ended is live in the tracker.
    pub(crate) fn is_allocating(&self) -> bool {
        self.allocating.load(Ordering::SeqCst) != 0
    }

    /// Makes sure that a device is defined before an event names it.
    #[inline]
    pub(crate) fn know_device(&'static self, device: DeviceOrdinal) {
        if let Some(known) = self.known_devices.0.get(usize::from(device.0))
            && !known.load(Ordering::Acquire)
        {
            self.define_device(device, known);
        }
    }

    /// Whether nothing is left to be defined of the device.
    #[inline(always)]
    pub(crate) fn knows_device(&self, device: DeviceOrdinal) -> bool {
        self.known_devices
            .0
            .get(usize::from(device.0))
            .is_none_or(|known| known.load(Ordering::Acquire))
    }

    #[cold]
    #[inline(never)]
    fn define_device(&'static self, device: DeviceOrdinal, known: &AtomicBool) {
        // Set last: threads that meet here each write the same definition, and none goes on to an
        // event before there is one.
        let asked = driver::device_facts(CuDevice(i32::from(device.0)));
        let (name, pci) = (asked.name.bytes(), asked.pci.bytes());
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        let written = self.writer.definition(
            DefKind::DEVICE,
            &[
                &[device.0],
                &asked.total_bytes.to_le_bytes(),
                &length(&asked.uuid),
                &asked.uuid,
                &length(name),
                name,
                &length(pci),
                pci,
            ],
        );
        known.store(written.is_ok(), Ordering::Release);
        self.readings.know(self, device, &asked);
    }
}
