//! GPUMEM_LIMIT: a card that looks smaller than it is.
//!
//! | part | purpose |
//! |---|---|
//! | [`spec`] | the values of the option |
//! | [`ballast`] | during a call that comes near the limit, withholds all memory of the card beyond it |
//! | [`reported`] | the figures of the card that are returned to the program |
//! | [`takes`] | how much of which card a call may take |
//!
//! The driver decides whether an allocation fits: how it shares pages, what its pools and graphs free first, what it
//! moves to the host, how it fails. So no call is refused here. A call that may take more than is left below the limit
//! finds a card that has no more: while it lasts, the rest is withheld. A call that stays well below proceeds
//! directly. Without a limit, all of it costs one load.

pub(crate) mod ballast;
pub(crate) mod reported;
pub(crate) mod spec;
mod takes;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Once;

use gpumem_capture::writer::lock::Lock;
use gpumem_capture::{DeviceOrdinal, Level, ProcessKey, Writer};
use gpumem_cuda_abi::CuDevice;

use self::ballast::{Ballast, Held};
use self::spec::{DEVICES, Spec};
use self::takes::CONTEXT;
pub(crate) use self::takes::Takes;
use crate::card::{reading, withheld};
use crate::driver;
use crate::failed::Failed;
use crate::{message, thread};

const UNREAD: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

/// The limits, which apply before there is a session and without one.
struct Limit {
    state: AtomicU8,
    read: Once,
    /// The limit of each device; 0 for none.
    limits: [AtomicU64; DEVICES],
    /// The devices whose limit the program itself has set, a bit each.
    by_program: AtomicU64,
    /// Whether limits were written into the capture.
    written: AtomicBool,
    /// The devices for which a note about a limit above their memory was printed, a bit each.
    too_large: AtomicU64,
    /// The true total of each card; 0 if not queried yet.
    totals: [AtomicU64; DEVICES],
    /// The process that first came near a limit: CUDA cannot be used in a forked child.
    owner: AtomicU32,
    /// By device: the last thread for which the driver refused memory that the card itself had.
    refused: [AtomicU32; DEVICES],
    /// The size of a context; 0 if not measured.
    context_takes: [AtomicU64; DEVICES],
    /// The memory withheld during calls.
    ballast: [Ballast; DEVICES],
    /// CUDA's ordinals of NVML's devices.
    nvml_devices: Lock<BTreeMap<usize, u8>>,
}

static LIMIT: Limit = Limit {
    state: AtomicU8::new(UNREAD),
    read: Once::new(),
    limits: [const { AtomicU64::new(0) }; DEVICES],
    by_program: AtomicU64::new(0),
    written: AtomicBool::new(false),
    too_large: AtomicU64::new(0),
    totals: [const { AtomicU64::new(0) }; DEVICES],
    owner: AtomicU32::new(0),
    refused: [const { AtomicU32::new(0) }; DEVICES],
    context_takes: [const { AtomicU64::new(0) }; DEVICES],
    ballast: [const { Ballast::new() }; DEVICES],
    nvml_devices: Lock::new(BTreeMap::new()),
};

/// Whether any device has a limit.
#[inline]
pub(crate) fn any() -> bool {
    match LIMIT.state.load(Ordering::Acquire) {
        NONE => false,
        SOME => true,
        _ => read(),
    }
}

/// Reads the option, once. Invalid values are reported where all options are read.
#[cold]
fn read() -> bool {
    LIMIT.read.call_once(|| {
        let value = std::env::var("GPUMEM_LIMIT").ok();
        let spec = value.as_deref().and_then(Spec::parse).unwrap_or_default();
        for (device, limit) in (0u8..).zip(&LIMIT.limits) {
            limit.store(spec.of(device).unwrap_or(0), Ordering::Relaxed);
        }
        note_whether_any();
    });
    LIMIT.state.load(Ordering::Acquire) == SOME
}

fn note_whether_any() {
    let any = LIMIT
        .limits
        .iter()
        .any(|limit| limit.load(Ordering::Relaxed) != 0);
    withheld::expect(any);
    LIMIT
        .state
        .store(if any { SOME } else { NONE }, Ordering::Release);
}

/// Sets the limit of a device, or (`None`) of all, at run time; 0 removes it. False if there is no such device.
pub(crate) fn set(device: Option<u8>, bytes: u64) -> bool {
    any();
    let devices = match device {
        None => 0..DEVICES,
        Some(device) if usize::from(device) < DEVICES => {
            usize::from(device)..usize::from(device) + 1
        }
        Some(_) => return false,
    };
    for device in devices {
        if let Some(limit) = LIMIT.limits.get(device) {
            limit.store(bytes, Ordering::Relaxed);
            LIMIT.by_program.fetch_or(1 << device, Ordering::Relaxed);
        }
    }
    note_whether_any();
    true
}

/// The requested limit of a device; it may be more than the card has.
fn asked(device: DeviceOrdinal) -> Option<u64> {
    let limit = LIMIT
        .limits
        .get(usize::from(device.0))?
        .load(Ordering::Relaxed);
    (limit != 0).then_some(limit)
}

/// The total memory of the card itself.
fn total(device: DeviceOrdinal) -> Option<u64> {
    let known = LIMIT.totals.get(usize::from(device.0))?;
    match known.load(Ordering::Relaxed) {
        0 => {
            let total = driver::total_bytes(CuDevice(i32::from(device.0)))?;
            known.store(total, Ordering::Relaxed);
            Some(total)
        }
        total => Some(total),
    }
}

/// How much of a card is beyond its limit; 0 without one.
pub(crate) fn beyond(device: DeviceOrdinal) -> u64 {
    let (true, Some(limit)) = (any(), asked(device)) else {
        return 0;
    };
    let Some(total) = total(device) else { return 0 };
    if limit >= total {
        say_too_large(device, limit, total);
    }
    total.saturating_sub(limit)
}

#[cold]
fn say_too_large(device: DeviceOrdinal, limit: u64, total: u64) {
    let bit = 1 << (device.0 & 63);
    if LIMIT.too_large.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        message::line(&format!(
            "{}: GPU {} has only {}, so it is not limited. Use a lower limit.",
            name(device, limit),
            device.0,
            spec::written(total)
        ));
    }
}

/// The name of a limit: the option or the function that set it.
fn name(device: DeviceOrdinal, limit: u64) -> String {
    let by_program = LIMIT.by_program.load(Ordering::Relaxed) & (1 << (device.0 & 63)) != 0;
    let size = spec::written(limit);
    match by_program {
        true => format!("gpumem_limit {size}"),
        false => format!("GPUMEM_LIMIT={size}"),
    }
}

/// A limit that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InForce {
    /// Its name.
    pub(crate) name: String,
    /// The bytes of the card beyond it.
    pub(crate) beyond: u64,
    /// The total memory of the card.
    pub(crate) total: u64,
}

/// The limit that is in force on a device.
pub(crate) fn in_force(device: DeviceOrdinal) -> Option<InForce> {
    let beyond = Some(beyond(device)).filter(|beyond| *beyond != 0)?;
    Some(InForce {
        name: name(device, asked(device)?),
        beyond,
        total: total(device)?,
    })
}

/// Writes the current limits into the capture: now, and whenever they change.
pub(crate) fn tell(writer: &'static Writer) {
    if !any() && !LIMIT.written.load(Ordering::Relaxed) {
        return;
    }
    LIMIT.written.store(true, Ordering::Relaxed);
    let limits: Vec<u64> = LIMIT
        .limits
        .iter()
        .map(|limit| limit.load(Ordering::Relaxed))
        .collect();
    let of = |(device, limit): (usize, &u64)| (*limit != 0).then(|| format!("{device}={limit}"));
    let value = match limits.as_slice() {
        [first, rest @ ..] if rest.iter().all(|limit| limit == first) => first.to_string(),
        all => all
            .iter()
            .enumerate()
            .filter_map(of)
            .collect::<Vec<_>>()
            .join(","),
    };
    let _ = writer.fact(ProcessKey::LIMIT, value);
}

/// Whether a context on a device is a primary one that was reset. Passed in, because the modules that track contexts
/// depend on this one.
pub(crate) type IsInactive = fn(u64, DeviceOrdinal) -> bool;

/// The free memory of a card, as the card itself reports it, without regard to a limit.
fn free(device: DeviceOrdinal, is_inactive: IsInactive) -> Option<u64> {
    let current = driver::current_context();
    let awake = current != 0 && driver::current_device() == device && !is_inactive(current, device);
    match awake {
        true => driver::free_bytes(),
        false => reading::free(device),
    }
}

/// The driver's possible allocation beyond the requested bytes: it allocates larger units for pools, and pads rows.
const BESIDES: u64 = 64 << 20;
/// More than any card has.
const ENDLESS: u64 = 1 << 50;

/// A call of the driver in progress: on each device that it may take memory of.
pub(crate) struct Limited {
    _of: Vec<OnDevice>,
}

/// Such a call, on one device.
enum OnDevice {
    /// There is room for its maximum.
    WithRoom { of: &'static Ballast, bytes: u64 },
    /// It finds a card that has no more than the limit.
    Small { _held: Held },
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        if let Self::WithRoom { of, bytes } = self {
            of.leave(*bytes);
        }
    }
}

/// Called before a call that takes memory of a card; the result must be dropped as soon as the call has returned.
#[inline]
pub(crate) fn before(takes: impl FnOnce() -> Takes, is_inactive: IsInactive) -> Option<Limited> {
    if any() {
        near(takes, is_inactive)
    } else {
        None
    }
}

#[cold]
fn near(takes: impl FnOnce() -> Takes, is_inactive: IsInactive) -> Option<Limited> {
    // Calls of our own code are not the program's.
    if thread::with(|thread| thread.in_recorder.get()) {
        return None;
    }
    thread::guarded(|_| {
        if is_foreign() {
            return None;
        }
        let mut takes = takes();
        let current = driver::current_device();
        // The first call that uses a primary context that was reset activates it.
        if current != DeviceOrdinal::NONE && is_inactive(driver::current_context(), current) {
            takes = takes.and(current, CONTEXT);
        }
        let of = |(device, bytes): (u8, u64)| enter(DeviceOrdinal(device), bytes, is_inactive);
        Some(Limited {
            _of: takes.0.into_iter().filter_map(of).collect(),
        })
    })
    .flatten()
}

/// Whether another process came near its limit before this one was forked from it: CUDA cannot be used here, and our
/// state must not be accessed, because another thread may have held it.
fn is_foreign() -> bool {
    let owner = LIMIT.owner.load(Ordering::Relaxed);
    owner != 0 && owner != std::process::id()
}

fn enter(ordinal: DeviceOrdinal, bytes: u64, is_inactive: IsInactive) -> Option<OnDevice> {
    let beyond = beyond(ordinal);
    if beyond == 0 {
        return None;
    }
    LIMIT.owner.store(std::process::id(), Ordering::Relaxed);
    let of = LIMIT.ballast.get(usize::from(ordinal.0))?;
    let bytes = bytes.saturating_add(BESIDES).min(ENDLESS);
    // Calls that proceeded are counted before the free memory is queried: memory that they take until then is counted
    // twice, but never missed.
    if let Some(all) = of.go_ahead(bytes) {
        if free(ordinal, is_inactive).is_some_and(|free| free.saturating_sub(beyond) >= all) {
            return Some(OnDevice::WithRoom { of, bytes });
        }
        of.leave(bytes);
    }
    let _held = of.hold(ordinal, beyond, free(ordinal, is_inactive));
    Some(OnDevice::Small { _held })
}

/// The size of a context of a device that the limit has refused: one is created beyond the limit, measured and
/// destroyed, once for each device. `None` without a limit, and where it cannot be measured.
pub(crate) fn context_takes(ordinal: DeviceOrdinal) -> Option<u64> {
    let takes = LIMIT.context_takes.get(usize::from(ordinal.0))?;
    let device = CuDevice(i32::from(ordinal.0));
    let known = takes.load(Ordering::Relaxed);
    if known != 0 || beyond(ordinal) == 0 || driver::primary_is_active(device) != Some(false) {
        return (known != 0).then_some(known);
    }
    let before = reading::free(ordinal)?;
    driver::retain_primary(device)?;
    let after = reading::free(ordinal);
    driver::release_primary(device);
    let taken = before.checked_sub(after?).filter(|taken| *taken != 0)?;
    takes.store(taken, Ordering::Relaxed);
    Some(taken)
}

/// Whether an allocation failed because of the limit: the card itself had enough memory.
pub(crate) fn refused(failed: &Failed, me: u32, is_inactive: IsInactive) -> bool {
    let Some(last) = LIMIT.refused.get(usize::from(failed.device.0)) else {
        return false;
    };
    if failed.level == Level::HOST || !any() {
        return false;
    }
    if failed.level == Level::TENSOR {
        // A framework may also refuse an allocation itself.
        return last.swap(0, Ordering::Relaxed) == me;
    }
    let beyond = beyond(failed.device);
    let needed = failed.bytes.checked_next_multiple_of(ballast::PAGE);
    let by_limit = beyond != 0
        && needed.is_some_and(|needed| {
            free(failed.device, is_inactive).is_some_and(|free| free >= needed)
        });
    last.store(if by_limit { me } else { 0 }, Ordering::Relaxed);
    by_limit
}
