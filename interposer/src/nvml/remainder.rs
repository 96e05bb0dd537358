//! What was measured while other threads were at work, put right as soon as none is.
//!
//! A measure by difference has in it whatever other calls took meanwhile. What such a call made larger is
//! noted here as unsure and nothing is charged. The last call to leave asks NVML: what this process has,
//! less what the second ledger explains, must be what it was when last nobody was at work. What is more
//! is charged to what is unsure, what is less is taken from it. The sum is exact from then on; of several
//! that are unsure, which has how much of it is not known, so the end of one owes a question again.
//!
//! Until then the figure lacks what is owed, which NVML's figure leaves unexplained. Where managed memory is
//! live, what may be its residence is not charged, and the rest as an estimate. Once memory was handed to
//! other processes nothing is charged here: what they keep of it after its release cannot be told from
//! what is owed.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use gpumem_capture::{DeviceOrdinal, EventFlags};

use super::reading::{self, Reading, Settled};
use super::{ask, device, library};
use crate::call::{self, Moment, OwnWork};
use crate::lock::{Guard, Lock};
use crate::physical::holdings::{self, Holding, Resized};
use crate::physical::{self, Cause, Debtor};
use crate::session;

/// The devices of which something is owed, a bit each.
static OWED: AtomicU64 = AtomicU64::new(0);

/// What NVML left unexplained of each device when last nobody was at work.
static REST: [AtomicI64; device::MOST] = [const { AtomicI64::new(0) }; device::MOST];

/// Whether memory was handed to other processes.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Memory was handed to other processes.
pub(crate) fn shared() {
    SHARED.store(true, Ordering::Release);
}

/// Whether what is owed can be told from what nobody explains.
pub(super) fn can_be_told() -> bool {
    !SHARED.load(Ordering::Acquire)
}

/// A holding whose share was measured while others were at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unsure {
    device: DeviceOrdinal,
    holding: Holding,
    /// The context that it ends with; 0: none.
    context: u64,
    debtor: Debtor,
}

/// The newest last.
fn unsure() -> Guard<'static, Vec<Unsure>> {
    static UNSURE: Lock<Vec<Unsure>> = Lock::new(Vec::new());
    UNSURE.lock()
}

fn bit(device: DeviceOrdinal) -> u64 {
    1u64.checked_shl(device.0.into()).unwrap_or(0)
}

/// Whether anything is owed.
#[inline]
pub(crate) fn any() -> bool {
    OWED.load(Ordering::SeqCst) != 0
}

/// What `holding` has more or less since the call that `cause` names is to be found out when nobody is
/// at work. It ends with `context`, if that is not 0.
pub(crate) fn owe(cause: &Cause<'_>, device: DeviceOrdinal, holding: Holding, context: u64) {
    doubt(cause, device, holding, context);
    OWED.fetch_or(bit(device), Ordering::SeqCst);
    ask();
}

/// What `holding` has may be another's that is in doubt too: the sum of both is right.
pub(super) fn doubt(cause: &Cause<'_>, device: DeviceOrdinal, holding: Holding, context: u64) {
    let debtor = cause.debtor();
    let one = Unsure {
        device,
        holding,
        context,
        debtor,
    };
    let mut all = unsure();
    all.retain(|other| other.holding != holding);
    all.push(one);
}

/// Whether anything is owed of a device.
pub(super) fn is_owed(device: DeviceOrdinal) -> bool {
    OWED.load(Ordering::SeqCst) & bit(device) != 0
}

/// What is unsure of a device does not fit what became of it.
pub(super) fn look_again(device: DeviceOrdinal) {
    if unsure().iter().any(|one| one.device == device) {
        OWED.fetch_or(bit(device), Ordering::SeqCst);
    }
}

/// What was unsure of holdings that end, should they not end.
pub(crate) struct Ended(Vec<Unsure>);

/// What `wanted` picks, by device, holding and context, ends. What it had may be another's.
pub(crate) fn ended(wanted: impl Fn(DeviceOrdinal, Holding, u64) -> bool) -> Ended {
    let mut all = unsure();
    let picked = |one: &Unsure| wanted(one.device, one.holding, one.context);
    let (gone, left): (Vec<_>, Vec<_>) = all.drain(..).partition(picked);
    *all = left;
    for one in &gone {
        if all.iter().any(|other| other.device == one.device) {
            OWED.fetch_or(bit(one.device), Ordering::SeqCst);
        }
    }
    Ended(gone)
}

/// They did not end after all.
pub(crate) fn restore(ended: Ended) {
    for one in &ended.0 {
        OWED.fetch_or(bit(one.device), Ordering::SeqCst);
    }
    unsure().extend(ended.0);
}

/// What NVML left unexplained of a device was charged, but for `left`.
pub(super) fn explained(device: DeviceOrdinal, left: u64) {
    if let Some(rest) = REST.get(usize::from(device.0)) {
        rest.store(i64::try_from(left).unwrap_or(i64::MAX), Ordering::Release);
    }
}

/// A reading while nobody was at work and nothing was owed.
pub(super) fn seen(device: DeviceOrdinal, read: &Settled<Reading>) {
    if physical::managed(device) == 0
        && let (Some(left), Some(rest)) = (left(read), REST.get(usize::from(device.0)))
    {
        rest.store(left, Ordering::Release);
    }
}

/// What a reading leaves unexplained; `None` if NVML does not tell what this process has.
fn left(read: &Settled<Reading>) -> Option<i64> {
    let mine = i64::try_from(read.reading.figures.mine?).ok()?;
    Some(mine - i64::try_from(read.physical).ok()?)
}

/// How much more is held than is known, if `rest` was unexplained before and so many bytes of managed
/// memory may be on the card by now.
fn missing(left: i64, rest: i64, managed: u64) -> i64 {
    match i64::try_from(managed) {
        Ok(0) => left - rest,
        Ok(managed) if left > managed => left - managed,
        _ => left.min(0),
    }
}

/// Puts right what is owed, if nobody is at work. To be called by each call that leaves: the last one
/// finds nobody. Whoever comes meanwhile finds that they are not alone, and nothing to do as they leave:
/// that is looked after here, again and again.
pub(crate) fn put_right() {
    while any() && call::still().is_some() {
        let _own_work = OwnWork::begin();
        if let Some(moment) = call::alone() {
            pay(moment);
        }
    }
}

/// Asks NVML what is owed of each device. What others came between stays owed.
fn pay(moment: Moment) {
    let owed = OWED.swap(0, Ordering::SeqCst);
    let devices = (0..64u8).filter(|device| owed & (1 << device) != 0);
    for device in devices.map(DeviceOrdinal) {
        let known = library::opened().and_then(|_| device::known(device));
        let read = session::session()
            .zip(known)
            .and_then(|(session, known)| reading::settled(session.writer, device, known));
        let Some(read) = read else {
            continue; // nothing to measure by
        };
        if call::alone() == Some(moment) {
            charge(device, &read);
        } else {
            OWED.fetch_or(bit(device), Ordering::SeqCst);
        }
    }
}

/// Charges to what is unsure what `read` shows to be missing.
fn charge(device: DeviceOrdinal, read: &Settled<Reading>) {
    if !can_be_told() {
        return;
    }
    let (Some(left), Some(rest)) = (left(read), REST.get(usize::from(device.0))) else {
        return;
    };
    let managed = physical::managed(device);
    let mut missing = missing(left, rest.load(Ordering::Acquire), managed);
    let sure = managed == 0 && read.stable;
    let flags = if sure {
        EventFlags::NONE
    } else {
        EventFlags::ESTIMATED
    };
    let of_device: Vec<Unsure> = {
        let all = unsure();
        let newest_first = all.iter().rev().filter(|one| one.device == device);
        newest_first.copied().collect()
    };
    for one in of_device {
        if missing == 0 {
            return;
        }
        let Some(cause) = one.debtor.cause() else {
            return;
        };
        let holding = one.holding;
        let resized = cause.in_order(|attempt| {
            // Held meanwhile: what ends is taken out before its end is recorded.
            let all = unsure();
            if all.iter().all(|other| other.holding != holding) {
                return Ok(None); // with what is left this is looked at again
            }
            let to = |before: u64| before.saturating_add_signed(missing);
            holdings::resize_without_waiting(attempt, &cause, device, holding, flags, to).map(Some)
        });
        if let Some(Resized { before, now }) = resized {
            missing -= now.cast_signed() - before.cast_signed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unexplained_before_is_nobodys() {
        assert_eq!(missing(30, 0, 0), 30);
        assert_eq!(missing(30, 30, 0), 0);
        assert_eq!(missing(10, 30, 0), -20);
        assert_eq!(missing(-4, 0, 0), -4);
    }

    #[test]
    fn what_managed_memory_may_take_is_not_charged() {
        assert_eq!(missing(30, 0, 40), 0);
        assert_eq!(missing(50, 0, 40), 10);
        assert_eq!(missing(-50, 0, 40), -50);
        assert_eq!(missing(-1, 7, u64::MAX), -1);
    }
}
