//! A rank's parallel coordinates, as the program gives them while it runs.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use gpumem_capture::{Coordinates, Writer};

use crate::definitions;
use crate::process::PROCESS;

/// Keeps the coordinates until [`write_pending`]; they take the place of earlier ones.
pub(crate) fn keep(coordinates: Coordinates) {
    drop(swap(Box::into_raw(Box::new(coordinates))));
}

/// Writes what was kept, if anything was. Called by whoever keeps coordinates, and when a session was made: whichever comes last
/// finds both.
pub(crate) fn write_pending(writer: &Writer) {
    if let Some(coordinates) = swap(null_mut()) {
        definitions::write_coordinates(writer, &coordinates);
    }
}

fn swap(new: *mut Coordinates) -> Option<Box<Coordinates>> {
    let old = PROCESS.coordinates.swap(new, Ordering::SeqCst);
    // SAFETY: null, or a box that `keep` gave away; the swap makes us its only owner.
    (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
}
