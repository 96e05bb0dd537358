//! The open capture, and the interfaces of the modules around it.

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
use crate::holders::peaks::Peaks;
use crate::holders::walks::Walks;
use crate::names::Names;
use crate::process::PROCESS;
use crate::storage::Storage;
use crate::tensors::Tensors;
use crate::thread::Thread;

/// Reads the cards. Implemented in a higher-level module than the recording ones, and called once an event is in the
/// ring, with no lock held.
pub(crate) trait Readings: Sync {
    /// A device that the process uses for the first time: it is read from now on.
    fn know(&'static self, session: &'static Session, device: DeviceOrdinal, facts: &DeviceFacts);

    /// An allocation of the driver on a device: a new peak causes a reading.
    fn grown(&self, writer: &'static Writer, device: DeviceOrdinal);

    /// Requests a reading soon: there is evidence of implicitly allocated bytes, or an allocation failed. Costs a
    /// counter and a wake-up; no effect once the process ends.
    fn read_soon(&self);

    /// Reads a device now, on this thread: a context was created there, or has ended.
    fn read_now(&self, session: &'static Session, device: DeviceOrdinal);

    /// A reading of a device, or (`None`) of all that this process has used, requested by the program. False: other
    /// threads changed memory meanwhile. None: NVML is missing, or does not have the device.
    fn read_for_program(
        &self,
        session: &'static Session,
        thread: &Thread,
        device: Option<DeviceOrdinal>,
    ) -> Option<bool>;

    /// Requests the last reading, which is made during the other work at the end. Returns its number.
    fn begin_last(&self) -> Option<u64>;

    /// Waits for the last reading, if one was requested, and stops the thread: from here on the recorder does not call
    /// NVML, even if hooks request a reading. A thread inside a call that does not return in time makes no other call
    /// after it.
    fn end(&self, last: Option<u64>);
}

/// Who keeps memory, at a failure.
pub(crate) struct Walked {
    /// The table on stderr.
    pub(crate) table: String,
    /// The fact's key and value in the capture.
    pub(crate) fact: (String, String),
}

/// Reports failed allocations. Also implemented in a higher-level module than the recording ones.
pub(crate) trait Failures: Sync {
    /// An allocation that failed, with its event and its stacks.
    fn tell(
        &'static self,
        session: &'static Session,
        thread: &Thread,
        failed: Failed,
        seq: Seq,
        stacks: (StackId, StackId),
    );

    /// PyTorch calls its observers on this thread, after a failure: with who keeps memory, if that was searched for.
    fn observed(&'static self, thread: &Thread, walked: Option<Walked>);

    /// The process ends: waits, within a bound, for reports that are not complete.
    fn finish(&'static self, session: &'static Session);
}

/// The used memory of a card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardUse {
    pub(crate) used: u64,
    pub(crate) total: u64,
    /// Used by this process; `None` if NVML does not report it.
    pub(crate) mine: Option<u64>,
}

/// Receives each reading of a card, on the thread that reads them.
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
    /// The capture's storage.
    pub(crate) storage: &'static Storage,
    /// The inputs of the decisions of PyTorch's allocator.
    pub(crate) allocator: Allocator,
    /// The live tensors.
    pub(crate) tensors: &'static Tensors,
    /// Everything else that is live.
    pub(crate) tracker: Lock<Tracker>,
    /// The kinds of state in the tracker, as of its last change: see [`Session::interest`].
    pub(crate) interest: AtomicU8,
    /// [`Tracker::context_ends`], as of its last change.
    pub(crate) context_ends: AtomicU64,
    /// [`Tracker::only_pool`], as of its last change: the pool and its device in one word; 0 if there is no such pool.
    pub(crate) only_pool: AtomicU64,
    pub(crate) asked: Asked,
    /// The number of allocations from pools in progress.
    pub(crate) allocating: AtomicU32,
    /// Which stacks are captured.
    pub(crate) stacks: Stacks,
    pub(crate) interner: Interner,
    /// Mean distance in allocated bytes of the tensors whose stacks are captured; `None`: all.
    pub(crate) stack_sample: Option<NonZeroU64>,
    /// Whether PyTorch's backward is charged to forward lines: needs Python stacks.
    pub(crate) backward: bool,
    /// Whether releases carry a Python stack too.
    pub(crate) free_stacks: bool,
    /// How often NVML is read; `None`: only at certain events.
    pub(crate) sample_every: Option<Duration>,
    /// Whether the lines at the end are omitted.
    pub(crate) quiet: bool,
    /// Whether failed allocations are reported at once.
    pub(crate) postmortem: bool,
    /// The searches for holders at failures, unless they are off.
    pub(crate) walks: Option<Walks>,
    /// The peaks of tensors at which holders are searched for, if they are.
    pub(crate) peaks: Option<Peaks>,
    pub(crate) known_devices: Known,
    /// The program's names for its ranges, scopes and marks.
    pub(crate) names: Names,
    /// PyTorch's autograd nodes.
    pub(crate) nodes: Nodes,
    /// The training's steps.
    pub(crate) steps: Lock<Steps>,
    /// The newest event by which a phase of the training was left; 0 if there is no such event, or an allocation has
    /// failed since.
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

/// Sets `session` as that of the process, permanently.
pub(crate) fn publish(session: &'static Session) {
    let session = core::ptr::from_ref(session).cast_mut().cast();
    PROCESS.session.store(session, Ordering::Release);
}

/// Opens the capture, or waits until another thread has opened it; false if that failed.
pub(crate) type Open = extern "C" fn() -> bool;

// The module that opens a capture is a higher-level one than the recording modules, and registers itself in this
// section: [`crate::open`].
core::arch::global_asm!(".hidden __start_gpumem_open");

unsafe extern "C" {
    #[link_name = "__start_gpumem_open"]
    static OPEN: Open;
}

/// The session, opened now if necessary.
pub(crate) fn open() -> Option<&'static Session> {
    // SAFETY: the section holds one function of this type, and the loader has relocated it before anything here runs.
    if published().is_none() && !unsafe { OPEN }() {
        return None;
    }
    session()
}

impl Session {
    /// The kinds of state that need queries or precautions.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        Interest(self.interest.load(Ordering::Acquire))
    }

    /// Whether an allocation from a pool is in progress. A completed one is live in the tracker.
    pub(crate) fn is_allocating(&self) -> bool {
        self.allocating.load(Ordering::SeqCst) != 0
    }

    /// Ensures that a device is defined before an event refers to it.
    #[inline]
    pub(crate) fn know_device(&'static self, device: DeviceOrdinal) {
        if let Some(known) = self.known_devices.0.get(usize::from(device.0))
            && !known.load(Ordering::Acquire)
        {
            self.define_device(device, known);
        }
    }

    /// Whether the device is completely defined.
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
        // Set last: concurrent threads each write the same definition, and no thread continues with an event before
        // there is one.
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
