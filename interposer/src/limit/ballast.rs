//! Memory that is withheld from a card during a call, so that the driver finds no more than the
//! limit.
//!
//! ```text
//!            first user                 made
//!   NONE ───────────────► CHANGING ─────────────► TAKEN   (others join)
//!     ▲                                             │ last user
//!     └──────────── CHANGING ◄──────────────────────┘
//! ```
//! Physical memory without an address (`cuMemCreate`) needs no context, causes no event (it is allocated without
//! the hooks), and is freed as soon as no call needs it. No lock is held meanwhile.
//!
//! A call with sufficient room proceeds without it. A call without room waits until those have returned,
//! and from then on no call proceeds without it. So the driver decides between two concurrent calls, on a card of
//! the limit's size.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuMemHandle;
use gpumem_sys::wait;

use crate::account::{self, Once};
use crate::card::withheld;
use crate::driver;
use crate::thread;
use gpumem_capture::writer::lock::{Guard, Lock};

/// The minimum allocation of the card.
pub(crate) const PAGE: u64 = 2 << 20;

/// How often, and how long at a time, a call waits for those that proceeded: about 7 ms in total. One of them
/// may be blocked in the driver by this thread's next operation.
const LOOKS: u32 = 100;
/// The same for another thread that allocates or frees it: about 0.7 s.
const LONG_LOOKS: u32 = 10_000;

/// See the diagram above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    None,
    Changing,
    Taken,
}

/// The withheld memory of a device.
struct Taken {
    phase: Phase,
    users: u32,
    handles: Vec<CuMemHandle>,
}

/// The memory withheld from one device, and the memory of calls in progress.
pub(super) struct Ballast {
    taken: Lock<Taken>,
    /// Calls that need it, or wait for it.
    wanted: AtomicU32,
    /// The maximum memory of the calls that proceeded without it.
    ahead: AtomicU64,
}

impl Ballast {
    /// No calls.
    pub(super) const fn new() -> Self {
        Self {
            taken: Lock::new(Taken {
                phase: Phase::None,
                users: 0,
                handles: Vec::new(),
            }),
            wanted: AtomicU32::new(0),
            ahead: AtomicU64::new(0),
        }
    }

    /// Never locked across a driver call.
    fn lock(&self) -> Guard<'_, Taken> {
        self.taken.lock()
    }

    /// Tries to proceed with a call that takes at most `bytes`: returns the maximum of all such calls, including
    /// it. `None` if it has to wait, because there may be no room.
    pub(super) fn go_ahead(&self, bytes: u64) -> Option<u64> {
        let all = self.ahead.fetch_add(bytes, Ordering::SeqCst);
        if self.wanted.load(Ordering::SeqCst) == 0 {
            return Some(all.saturating_add(bytes));
        }
        self.leave(bytes);
        None
    }

    /// Records that such a call has returned, or does not proceed.
    pub(super) fn leave(&self, bytes: u64) {
        self.ahead.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Withholds `beyond` bytes of the device, or as much of it as is free, unless another call has done so.
    pub(super) fn hold(
        &'static self,
        device: DeviceOrdinal,
        beyond: u64,
        free: Option<u64>,
    ) -> Held {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        let _ = wait::until(LOOKS, || self.ahead.load(Ordering::SeqCst) == 0);
        let mut makes = false;
        let joined = wait::until(LONG_LOOKS, || {
            let mut taken = self.lock();
            match taken.phase {
                Phase::Changing => return false,
                Phase::Taken => {}
                Phase::None => {
                    taken.phase = Phase::Changing;
                    makes = true;
                }
            }
            taken.users += 1;
            true
        });
        if makes {
            let handles = withheld::change(device, || make(device, beyond, free));
            let mut taken = self.lock();
            taken.handles = handles;
            taken.phase = Phase::Taken;
        }
        Held {
            device,
            of: self,
            joined,
        }
    }
}

/// All memory of a card beyond its limit, withheld as long as a call needs it.
pub(super) struct Held {
    device: DeviceOrdinal,
    of: &'static Ballast,
    joined: bool,
}

impl Held {
    fn give_back(&self) {
        let handles = {
            let mut taken = self.of.lock();
            taken.users -= 1;
            if taken.users != 0 {
                return;
            }
            taken.phase = Phase::Changing;
            core::mem::take(&mut taken.handles)
        };
        withheld::change(self.device, || {
            handles.into_iter().for_each(driver::release_physical);
            ((), 0)
        });
        self.of.lock().phase = Phase::None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.joined {
            let _ = thread::guarded(|_| self.give_back());
        }
        self.of.wanted.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Allocates that much of a device in pages, or all free memory if that is less.
fn make(device: DeviceOrdinal, wanted: u64, free: Option<u64>) -> (Vec<CuMemHandle>, u64) {
    let wanted = wanted.checked_next_multiple_of(PAGE).unwrap_or(0);
    let (mut handles, mut bytes) = (Vec::new(), 0);
    let mut piece = free.map_or(wanted, |free| wanted.min(free / PAGE * PAGE));
    while piece >= PAGE && bytes < wanted {
        let size = piece.min(wanted - bytes);
        match driver::create_physical(device, size) {
            Some(handle) => {
                handles.push(handle);
                bytes += size;
            }
            None => piece = piece / 2 / PAGE * PAGE,
        }
    }
    if bytes == 0 && wanted != 0 && free.is_some_and(|free| free >= wanted) {
        say_not_held(device);
    }
    (handles, bytes)
}

/// Notes once that the rest of a card could not be withheld, although it was free.
#[cold]
fn say_not_held(device: DeviceOrdinal) {
    if account::is_first(Once::LimitNotHeld) {
        account::leave(format!(
            "the limit of GPU {} has no effect: the driver refused the memory beyond it (cuMemCreate)",
            device.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_ahead_while_another_needs_it_taken() {
        let device = Ballast::new();
        assert_eq!(device.go_ahead(10), Some(10));
        assert_eq!(device.go_ahead(5), Some(15));
        device.leave(10);
        device.leave(5);
        device.wanted.fetch_add(1, Ordering::SeqCst);
        assert_eq!(device.go_ahead(10), None);
        device.wanted.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(device.go_ahead(10), Some(10));
        device.leave(10);
    }
}
