//! A rank's parallel coordinates, as set by the program at run time.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use gpumem_capture::{Coordinates, Writer};

use crate::definitions;
use crate::process::PROCESS;

/// Keeps the coordinates until [`write_pending`]; they replace earlier ones.
pub(crate) fn keep(coordinates: Coordinates) {
    drop(swap(Box::into_raw(Box::new(coordinates))));
}

/// Writes the kept coordinates, if any. Called after coordinates were kept, and after a session was created: the later
/// of the two calls finds both.
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
