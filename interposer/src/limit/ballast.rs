//! What is taken of a card for the moment of a call, so that the driver finds no more than the limit.
//!
//! ```text
//!            first user                 made
//!   NONE ───────────────► CHANGING ─────────────► TAKEN   (others join)
//!     ▲                                             │ last user
//!     └──────────── CHANGING ◄──────────────────────┘
//! ```
//! Physical memory with no address (`cuMemCreate`) needs no context, is no event (it is asked for past the
//! hooks), and is given back as soon as no call needs it. No lock is held meanwhile.
//!
//! Who finds room goes ahead without; who does not waits until those have come back, and from then on
//! nobody goes ahead. So two calls at once are told apart by the driver, on a card of the limit's size.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuMemHandle;
use gpumem_sys::wait;

use super::spec::DEVICES;
use crate::card::withheld;
use crate::driver;
use crate::{account, thread};
use gpumem_capture::writer::lock::{Guard, Lock};

/// What the card gives at the least.
pub(crate) const PAGE: u64 = 2 << 20;

/// How often, and how long at a time, a call waits for those that went ahead: some 7 ms in all. One may be
/// blocked in the driver by what this thread would do next.
const LOOKS: u32 = 100;
/// The same for another thread that takes or gives back: some 0.7 s.
const LONG_LOOKS: u32 = 10_000;

/// See the diagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    None,
    Changing,
    Taken,
}

/// What is taken of a device.
struct Taken {
    phase: Phase,
    users: u32,
    handles: Vec<CuMemHandle>,
}

/// One device.
struct Place {
    taken: Lock<Taken>,
    /// Calls that need it taken, or wait until it is.
    wanted: AtomicU32,
    /// The most that the calls take that went ahead.
    ahead: AtomicU64,
}

static PLACES: [Place; DEVICES] = [const {
    Place {
        taken: Lock::new(Taken {
            phase: Phase::None,
            users: 0,
            handles: Vec::new(),
        }),
        wanted: AtomicU32::new(0),
        ahead: AtomicU64::new(0),
    }
}; DEVICES];

impl Place {
    /// Never locked across a driver call.
    fn lock(&self) -> Guard<'_, Taken> {
        self.taken.lock()
    }
}

/// A call that takes no more than `bytes` would go ahead: how much all those take that have, with it. `None`
/// if it has to wait, for there may be no room.
pub(super) fn go_ahead(device: usize, bytes: u64) -> Option<u64> {
    let place = PLACES.get(device)?;
    let all = place
        .ahead
        .fetch_add(bytes, Ordering::SeqCst)
        .saturating_add(bytes);
    if place.wanted.load(Ordering::SeqCst) == 0 {
        return Some(all);
    }
    leave(device, bytes);
    None
}

/// Such a call has come back, or does not go.
pub(super) fn leave(device: usize, bytes: u64) {
    if let Some(place) = PLACES.get(device) {
        place.ahead.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// All of a card beyond its limit, for as long as a call needs it taken.
pub(crate) struct Ballast {
    device: DeviceOrdinal,
    place: &'static Place,
    joined: bool,
}

impl Ballast {
    /// Takes `beyond` bytes of a device, or as much of it as is free, unless another call has.
    pub(super) fn take(device: DeviceOrdinal, beyond: u64, free: Option<u64>) -> Option<Self> {
        let place = PLACES.get(usize::from(device.0))?;
        place.wanted.fetch_add(1, Ordering::SeqCst);
        let _ = wait::until(LOOKS, || place.ahead.load(Ordering::SeqCst) == 0);
        let mut makes = false;
        let joined = wait::until(LONG_LOOKS, || {
            let mut taken = place.lock();
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
            let mut taken = place.lock();
            taken.handles = handles;
            taken.phase = Phase::Taken;
        }
        Some(Self {
            device,
            place,
            joined,
        })
    }

    fn give_back(&self) {
        let place = self.place;
        let handles = {
            let mut taken = place.lock();
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
        place.lock().phase = Phase::None;
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        if self.joined {
            let _ = thread::quietly(|_| self.give_back());
        }
        self.place.wanted.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes that much of a device in pages, or all that is free if that is less.
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

/// Says once that the rest of a card could not be taken, though it was free.
#[cold]
fn say_not_held(device: DeviceOrdinal) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        account::leave(format!(
            "the limit of GPU {} did not hold: the driver did not give what is beyond it (cuMemCreate)",
            device.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_ahead_while_another_needs_it_taken() {
        const DEVICE: usize = 60;
        assert_eq!(go_ahead(DEVICE, 10), Some(10));
        assert_eq!(go_ahead(DEVICE, 5), Some(15));
        leave(DEVICE, 10);
        leave(DEVICE, 5);
        PLACES[DEVICE].wanted.fetch_add(1, Ordering::SeqCst);
        assert_eq!(go_ahead(DEVICE, 10), None);
        PLACES[DEVICE].wanted.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(go_ahead(DEVICE, 10), Some(10));
        leave(DEVICE, 10);
    }
}
