//! The bytes that a limit currently withholds from each card, by which readings are corrected.
//!
//! A sequence lock for each device: readers read again if it changed meanwhile.

use core::sync::atomic::Ordering;

use gpumem_capture::DeviceOrdinal;
use gpumem_sys::wait;

use super::state::CARD;

/// The maximum number of attempts to read while it changes: about 7 ms.
const LOOKS: u32 = 100;

/// Sets whether there is a limit: without one nothing is withheld.
pub(crate) fn expect(any: bool) {
    CARD.may_be_withheld.store(any, Ordering::SeqCst);
}

/// Whether any bytes of any device may be withheld.
#[inline]
pub(crate) fn may_be() -> bool {
    CARD.may_be_withheld.load(Ordering::SeqCst)
}

/// Changes the withheld bytes of a device by `change`, which returns the new number. One call at a time for each
/// device.
pub(crate) fn change<R>(device: DeviceOrdinal, change: impl FnOnce() -> (R, u64)) -> R {
    let Some(place) = CARD.withheld.get(usize::from(device.0)) else {
        return change().0;
    };
    place.changes.fetch_add(1, Ordering::SeqCst);
    let (result, bytes) = change();
    place.bytes.store(bytes, Ordering::SeqCst);
    place.changes.fetch_add(1, Ordering::SeqCst);
    result
}

/// Reads a card's figures, and the bytes that were withheld from it meanwhile.
pub(crate) fn read<R>(device: DeviceOrdinal, mut read: impl FnMut() -> R) -> (R, u64) {
    let Some(place) = CARD.withheld.get(usize::from(device.0)) else {
        return (read(), 0);
    };
    let mut found = None;
    let mut looks = 0;
    wait::until(LOOKS, || {
        looks += 1;
        let before = place.changes.load(Ordering::SeqCst);
        let bytes = place.bytes.load(Ordering::SeqCst);
        if before % 2 == 1 && looks != LOOKS {
            return false;
        }
        found = Some((read(), bytes));
        place.changes.load(Ordering::SeqCst) == before
    });
    found.unwrap_or_else(|| (read(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_during_a_change_is_made_again() {
        const DEVICE: DeviceOrdinal = DeviceOrdinal(61);
        let mut reads = 0;
        let found = read(DEVICE, || {
            reads += 1;
            if reads == 1 {
                change(DEVICE, || ((), 7));
            }
            reads
        });
        assert_eq!(found, (2, 7));
        assert_eq!(change(DEVICE, || (3, 0)), 3);
        assert_eq!(read(DEVICE, || ()), ((), 0));
    }
}
