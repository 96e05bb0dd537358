//! Bytes that no call asked for: what contexts, modules, limits and kernels' stacks take.
//!
//! Nobody tells them, so they are measured by difference around the rare calls that change them. The
//! quick test is the card's free memory before and after, less what the second ledger saw in between;
//! only if that has changed is NVML asked whether it was this process. What a call made more of is
//! charged to a holding: to a module or library what its code takes, to the context all else.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, StackId};
use gpumem_cuda_abi::CuDevice;

use super::device::Identity;
use super::endings::{Loaded, charged, number_of};
use super::reading::{self, Reading, Settled};
use super::{device, library, note_unknown_device, process, remainder};
use crate::call::{self, Call, Moment};
use crate::contexts;
use crate::driver;
use crate::hooks::context;
use crate::lock::{Guard, Lock};
use crate::physical::holdings::{self, Holding, Kind};
use crate::physical::{self, Cause};
use crate::record;
use crate::session::{self, Session};
use crate::stack;
use crate::thread::Thread;

/// Which modules are those of libraries: module to library.
fn parts() -> Guard<'static, BTreeMap<u64, u64>> {
    static PARTS: Lock<BTreeMap<u64, u64>> = Lock::new(BTreeMap::new());
    PARTS.lock()
}

/// A module is that of a library in some context.
pub(crate) fn is_module_of(module: u64, library: u64) {
    parts().insert(module, library);
}

/// The library whose module this is, or else the module itself.
pub(crate) fn library_of(module: u64) -> u64 {
    parts().get(&module).copied().unwrap_or(module)
}

/// A module or library is no more.
pub(super) fn forget_parts(module: u64) {
    parts().retain(|_, library| *library != module);
}

/// What all other processes used when a device was last measured; `u64::MAX`: not known.
static OTHERS: [AtomicU64; device::MOST] = [const { AtomicU64::new(u64::MAX) }; device::MOST];

/// Remembers what the others use; whether that is the same as the last time.
fn others_stayed(device: DeviceOrdinal, read: &Reading) -> bool {
    let others = read.figures.others.unwrap_or(u64::MAX);
    let known = OTHERS.get(usize::from(device.0));
    known.is_some_and(|known| known.swap(others, Ordering::Relaxed) == others) && others != u64::MAX
}

/// By device: what this process still had of it without its primary context and nothing explained, such
/// as memory that was released while another process has it open.
static LEFT: [AtomicU64; device::MOST] = [const { AtomicU64::new(0) }; device::MOST];

/// By device: what the last context cost whose birth was measured; `u64::MAX`: not known.
static BIRTH: [AtomicU64; device::MOST] = [const { AtomicU64::new(u64::MAX) }; device::MOST];

fn left(device: DeviceOrdinal) -> u64 {
    let left = LEFT.get(usize::from(device.0));
    left.map_or(0, |left| left.load(Ordering::Relaxed))
}

fn birth(device: DeviceOrdinal) -> Option<u64> {
    let birth = BIRTH.get(usize::from(device.0));
    let known = birth.map_or(u64::MAX, |birth| birth.load(Ordering::Relaxed));
    (known != u64::MAX).then_some(known)
}

fn store(figures: &[AtomicU64], device: DeviceOrdinal, bytes: u64) {
    if let Some(figure) = figures.get(usize::from(device.0)) {
        figure.store(bytes, Ordering::Relaxed);
    }
}

/// The primary context of a device has ended, or is about to come back: what there is of this process's
/// meanwhile is no cost of the context's.
pub(crate) fn note_left(device: DeviceOrdinal) {
    let read = || {
        library::opened()?;
        reading::unborn(device, device::known(device)?)?
            .figures
            .mine
    };
    let left = read().map_or(0, |mine| mine.saturating_sub(physical_bytes(device)));
    store(&LEFT, device, left);
}

/// Of what nothing else explains, the cost of a context that came to life unseen: not what was `left`
/// before it, most of which may still be there, but no less than one cost at its `birth`.
fn cost_of_found(unexplained: u64, left: u64, birth: u64) -> u64 {
    unexplained.saturating_sub(left).max(birth.min(unexplained))
}

fn physical_bytes(device: DeviceOrdinal) -> u64 {
    session::session().map_or(0, |session| {
        session.writer.counters(device, Level::PHYSICAL).live
    })
}

/// On whose behalf a call changes what is held.
pub(super) fn cause<'a>(
    session: &'a Session,
    thread: &Thread,
    call: &Call,
    with_stacks: bool,
) -> Cause<'a> {
    Cause {
        session,
        thread: thread.id(),
        api: call.api(),
        stacks: if with_stacks {
            stack::take(session.writer, session.stacks)
        } else {
            (StackId::NONE, StackId::NONE)
        },
    }
}

/// A reading of a device on which this process has a context.
fn read(session: &Session, device: DeviceOrdinal) -> Option<Settled<Reading>> {
    library::opened()?;
    reading::settled(session.writer, device, device::known(device)?)
}

/// Calls in progress whose cost is not charged yet.
static IN_PROGRESS: AtomicU32 = AtomicU32::new(0);

/// Whether a call is in progress whose cost is not charged yet: what NVML says is not explained then.
pub(super) fn in_progress() -> bool {
    IN_PROGRESS.load(Ordering::Acquire) != 0
}

/// Such a call, until its cost is charged or it has failed.
struct InProgress;

impl InProgress {
    fn begin() -> Self {
        IN_PROGRESS.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        IN_PROGRESS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What NVML said before a context was made.
pub(crate) struct Unborn {
    _in_progress: InProgress,
    ours_or_all: u64,
    physical: u64,
    knew_us: bool,
    alone: Option<Moment>,
    /// Only a part of a context is to be made: its cost tells nothing of a whole one's.
    is_part: bool,
}

impl Unborn {
    /// What is to be made is only a part of a context.
    pub(crate) fn of_part(self) -> Self {
        Self {
            is_part: true,
            ..self
        }
    }
}

/// Before a context is made on `device`.
pub(crate) fn before_birth(ordinal: DeviceOrdinal) -> Option<Unborn> {
    let nvml = library::open()?;
    let facts = driver::device_facts(CuDevice(i32::from(ordinal.0)));
    device::find(nvml, ordinal, &Identity::of(&facts));
    let alone = call::alone();
    let read = reading::unborn(ordinal, device::known(ordinal)?)?;
    let physical = physical_bytes(ordinal);
    if let (0, Some(list)) = (physical, &read.list) {
        process::keep_before(ordinal, list);
    }
    others_stayed(ordinal, &read);
    Some(Unborn {
        _in_progress: InProgress::begin(),
        ours_or_all: read.ours_or_all(),
        physical,
        knew_us: read.figures.mine.is_some(),
        alone,
        is_part: false,
    })
}

/// A context was made: what has grown since is its cost.
pub(crate) fn born(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    context: u64,
    before: Option<Unborn>,
) {
    let (Some(before), Some(session)) = (before, session::session()) else {
        return;
    };
    // What pools and graphs gave back to make room.
    record::settle(thread, call.api());
    let Some(after) = read(session, device) else {
        return;
    };
    let grown_to = |now: u64, then: u64| {
        let now = i128::from(now) - i128::from(after.physical);
        let then = i128::from(then) - i128::from(before.physical);
        u64::try_from(now - then).unwrap_or(0)
    };
    let (grown, sure) = match after.reading.figures.mine {
        // NVML did not know the process before, though it may have held handles without a context.
        Some(mine) if !before.knew_us => (mine.saturating_sub(after.physical), true),
        Some(mine) => (grown_to(mine, before.ours_or_all), true),
        None if before.knew_us => return,
        None => (grown_to(after.reading.card.used, before.ours_or_all), false),
    };
    others_stayed(device, &after.reading);
    if !before.knew_us {
        remainder::explained(device, 0);
    }
    let alone = still_alone(before.alone, device);
    let sure = sure && after.stable && alone;
    if sure && !before.is_part {
        store(&BIRTH, device, grown);
    }
    let bill = Bill {
        cause: cause(session, thread, call, true),
        device,
        context,
        flags: estimated(!sure),
    };
    if alone || !bill.owes(None, after.reading.figures.mine) {
        bill.charge(None, grown);
    }
}

/// A context was first seen in use: it was made out of our sight, so all that nothing else explains is
/// its cost.
pub(crate) fn found(thread: &Thread, call: &Call, ordinal: DeviceOrdinal, context: u64) {
    let (Some(nvml), Some(session)) = (library::open(), session::session()) else {
        return;
    };
    let facts = driver::device_facts(CuDevice(i32::from(ordinal.0)));
    if !device::find(nvml, ordinal, &Identity::of(&facts)) {
        note_unknown_device(session.writer, ordinal);
    }
    record::settle(thread, call.api());
    let alone = call::alone();
    let Some(read) = read(session, ordinal) else {
        return;
    };
    others_stayed(ordinal, &read.reading);
    let Some(mine) = read.reading.figures.mine else {
        return; // the card's figure has other processes in it
    };
    // How much of it lies on the card only the driver knows: it may be all.
    let managed = physical::managed(ordinal);
    let alone = still_alone(alone, ordinal);
    let bill = Bill {
        cause: cause(session, thread, call, true),
        device: ordinal,
        context,
        flags: estimated(!read.stable || !alone || managed > 0),
    };
    let unexplained = mine.saturating_sub(read.physical);
    let free_of_managed = unexplained.saturating_sub(managed);
    let birth = birth(ordinal).unwrap_or(0);
    let cost = cost_of_found(free_of_managed, left(ordinal), birth);
    remainder::explained(ordinal, free_of_managed - cost);
    if !alone && bill.owes(None, Some(mine)) {
        return;
    }
    bill.charge(None, cost);
}

/// Whether no other call was in progress since that moment, and none before has left anything open.
fn still_alone(since: Option<Moment>, device: DeviceOrdinal) -> bool {
    since.is_some() && !remainder::is_owed(device) && call::alone() == since
}

fn estimated(is: bool) -> EventFlags {
    if is {
        EventFlags::ESTIMATED
    } else {
        EventFlags::NONE
    }
}

/// What was free before a call that may change what contexts and modules hold.
pub(crate) struct Before {
    _in_progress: InProgress,
    device: DeviceOrdinal,
    context: u64,
    free: u64,
    physical: u64,
    alone: Option<Moment>,
    /// The context was reset, and the call may bring it back to life.
    asleep: bool,
}

/// Whether there may be something to measure by.
pub(crate) fn can_measure() -> bool {
    library::opened().is_some()
}

/// Bytes that are free on the card. The driver is not asked for a context that sleeps since its reset:
/// the question would wake it.
fn free_bytes(context: u64, ordinal: DeviceOrdinal) -> Option<u64> {
    if !contexts::is_inactive(context, ordinal) {
        return driver::free_bytes();
    }
    let card = reading::unborn(ordinal, device::known(ordinal)?)?.card;
    Some(card.total.saturating_sub(card.used))
}

/// Before such a call; `None` if there is no context, or nothing to measure by.
pub(crate) fn before() -> Option<Before> {
    library::opened()?;
    let context = driver::current_context();
    if context == 0 {
        return None;
    }
    let device = driver::current_device();
    device::known(device)?;
    let asleep = contexts::is_inactive(context, device);
    if asleep {
        note_left(device);
    }
    Some(Before {
        _in_progress: InProgress::begin(),
        device,
        context,
        alone: call::alone(),
        free: free_bytes(context, device)?,
        physical: physical_bytes(device),
        asleep,
    })
}

impl Before {
    /// The context that was current.
    pub(crate) fn context(&self) -> u64 {
        self.context
    }
}

/// What the card's free memory fell by (negative: rose by), less what the second ledger saw.
fn fallen(free: (u64, u64), physical: (u64, u64)) -> i128 {
    let fell = i128::from(free.0) - i128::from(free.1);
    let seen = i128::from(physical.1) - i128::from(physical.0);
    fell - seen
}

/// Of what the card's free memory fell by, how much is this process's: never more than nothing else
/// explains, `unexplained`, if NVML tells that. Where it rose and `others_moved`, no more was given back
/// than is missing.
fn ours(fallen: i128, unexplained: Option<i128>, others_moved: bool) -> i128 {
    match unexplained {
        Some(unexplained) if fallen > 0 => fallen.min(unexplained.max(0)),
        Some(unexplained) if others_moved => fallen.max(unexplained.min(0)),
        _ => fallen,
    }
}

/// After a call that can only take: charges what it took to `module`, if one is named, else to the
/// context that was current.
pub(crate) fn settle_growth(thread: &Thread, call: &Call, before: Before, module: Option<u64>) {
    settle(thread, call, before, module, |fallen| fallen.max(0));
}

/// After a launch, which may take memory for the code of `module` and for larger `stacks`.
pub(crate) fn settle_launch(
    thread: &Thread,
    call: &Call,
    before: Before,
    module: Option<u64>,
    stacks: bool,
) {
    match module {
        Some(module) if stacks => {
            let (device, context) = (before.device, before.context);
            settle_growth(thread, call, before, None);
            together(thread, call, device, Loaded { module, context });
        }
        _ => settle_growth(thread, call, before, module),
    }
}

/// A context was charged for what it and a module in it took in one call.
fn together(thread: &Thread, call: &Call, device: DeviceOrdinal, loaded: Loaded) {
    let Some(session) = session::session() else {
        return;
    };
    let cause = cause(session, thread, call, false);
    let of_module = holding(Kind::Module, number_of(&mut charged(), loaded));
    let of_context = holding(Kind::Context, loaded.context);
    for holding in [of_module, of_context] {
        remainder::doubt(&cause, device, holding, loaded.context);
    }
}

/// After a call that may also give back what the current context holds.
pub(crate) fn settle_context(thread: &Thread, call: &Call, before: Before) {
    settle(thread, call, before, None, |fallen| fallen);
}

fn settle(
    thread: &Thread,
    call: &Call,
    before: Before,
    module: Option<u64>,
    plausible: impl FnOnce(i128) -> i128,
) {
    let Some(session) = session::session() else {
        return;
    };
    if before.asleep {
        return woken(session, thread, call, &before, module);
    }
    let Some(free) = free_bytes(before.context, before.device) else {
        return;
    };
    record::settle(thread, call.api());
    let physical = (before.physical, physical_bytes(before.device));
    let fallen = plausible(fallen((before.free, free), physical));
    // Managed memory that made room on a full card looks like something given back.
    let room_made = || i128::from(before.free) < -fallen && physical::managed(before.device) > 0;
    let alone = still_alone(before.alone, before.device);
    if alone && (fallen == 0 || room_made()) {
        return;
    }
    let Some(read) = read(session, before.device) else {
        return;
    };
    // Who came since has changed one of the two figures that are read, perhaps, and not the other.
    let alone = alone && still_alone(before.alone, before.device);
    let stayed = others_stayed(before.device, &read.reading);
    let mine = read.reading.figures.mine;
    let unexplained = mine.map(|mine| i128::from(mine) - i128::from(read.physical));
    let ours = ours(fallen, unexplained, !stayed);
    let bill = Bill {
        cause: cause(session, thread, call, ours > 0 || !alone),
        device: before.device,
        context: before.context,
        flags: estimated(!read.stable || !stayed || !alone || mine.is_none()),
    };
    if (!alone && bill.owes(module, mine)) || room_made() {
        return;
    }
    if let Ok(grown) = u64::try_from(ours) {
        bill.charge(module, grown);
    } else if let Ok(shrunk) = u64::try_from(-ours) {
        bill.relieve(shrunk);
    }
}

/// After a call that brought a context back to life: what both cost is one measure. What is more than a
/// context of this device cost at birth is the module's that the call loaded, if one is named; the share
/// of either is in doubt, their sum is not.
fn woken(session: &Session, thread: &Thread, call: &Call, before: &Before, module: Option<u64>) {
    let slept = holding(Kind::Context, before.context);
    let fresh = holdings::size(slept) == 0;
    context::in_use(thread, call);
    let Some(module) = module else {
        return;
    };
    let more = birth(before.device).map(|birth| holdings::size(slept).saturating_sub(birth));
    if let (true, Some(more)) = (fresh, more) {
        let bill = Bill {
            cause: cause(session, thread, call, true),
            device: before.device,
            context: before.context,
            flags: EventFlags::ESTIMATED,
        };
        bill.relieve(more);
        bill.charge(Some(module), more);
    }
    let context = before.context;
    together(thread, call, before.device, Loaded { module, context });
}

pub(super) fn holding(kind: Kind, ptr: u64) -> Holding {
    Holding { kind, ptr }
}

/// What a call has changed, and how it is to be recorded.
struct Bill<'a> {
    cause: Cause<'a>,
    device: DeviceOrdinal,
    context: u64,
    /// Qualifies the change.
    flags: EventFlags,
}

impl Bill<'_> {
    /// Adds to what a module, or else the context, holds.
    fn charge(&self, module: Option<u64>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let to = self.debtor(module);
        holdings::resize(&self.cause, self.device, to, self.flags, |before| {
            before.saturating_add(bytes)
        });
    }

    /// What is charged: a module in the context, or else the context itself.
    fn debtor(&self, module: Option<u64>) -> Holding {
        let context = self.context;
        let loaded = module.map(|module| Loaded { module, context });
        match loaded {
            Some(loaded) => holding(Kind::Module, number_of(&mut charged(), loaded)),
            None => holding(Kind::Context, context),
        }
    }

    /// Leaves it open what a module, or else the context, holds until nobody is at work; whether it can
    /// be told then: NVML says what this process has, and no managed memory is in that.
    fn owes(&self, module: Option<u64>, mine: Option<u64>) -> bool {
        let can = mine.is_some() && physical::managed(self.device) == 0 && remainder::can_be_told();
        if can {
            let debtor = self.debtor(module);
            remainder::owe(&self.cause, self.device, debtor, self.context);
        }
        can
    }

    /// Takes from what the context holds.
    fn relieve(&self, bytes: u64) {
        let from = holding(Kind::Context, self.context);
        let resized = holdings::resize(&self.cause, self.device, from, self.flags, |before| {
            before.saturating_sub(bytes)
        });
        if bytes > resized.before {
            // The rest was measured while others were at work, and is another's.
            remainder::look_again(self.device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_second_ledger_saw_is_not_implicit() {
        assert_eq!(fallen((100, 70), (10, 40)), 0);
        assert_eq!(fallen((100, 70), (10, 20)), 20);
        assert_eq!(fallen((100, 130), (40, 20)), -10);
    }

    #[test]
    fn no_more_is_charged_than_nvml_leaves_unexplained() {
        assert_eq!(ours(20, Some(20), false), 20);
        assert_eq!(ours(20, Some(8), false), 8);
        assert_eq!(ours(20, Some(-4), false), 0);
        assert_eq!(ours(20, None, false), 20);
        assert_eq!(ours(-20, Some(0), false), -20);
    }

    #[test]
    fn what_lingers_is_no_cost_of_a_context_that_comes_back() {
        assert_eq!(cost_of_found(20, 0, 16), 20);
        assert_eq!(cost_of_found(20, 4, 16), 16);
        assert_eq!(cost_of_found(16, 4, 16), 16, "gone meanwhile");
        assert_eq!(cost_of_found(22, 4, 16), 18, "with a module");
        assert_eq!(cost_of_found(3, 4, 0), 0);
        assert_eq!(cost_of_found(10, 4, 16), 10);
    }

    #[test]
    fn no_more_is_given_back_than_is_missing() {
        assert_eq!(ours(-20, Some(0), true), 0);
        assert_eq!(ours(-20, Some(-8), true), -8);
        assert_eq!(ours(-20, Some(-30), true), -20);
        assert_eq!(ours(-20, None, true), -20);
    }
}
