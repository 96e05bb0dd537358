//! Who keeps the tensors at a new peak.

use core::ffi::{c_int, c_void};

use gpumem_capture::{DeviceOrdinal, Nanos, ProcessKey, Seq};

use super::peaks::Peaks;
use super::{find, text};
use crate::session::{self, Session};
use crate::{account, process, thread};

/// A device has a new peak since this event, which was at that time.
#[cold]
#[inline(never)]
pub(crate) fn reached(peaks: &Peaks, device: DeviceOrdinal, live: u64, at: (Seq, Nanos)) {
    let _ = thread::caught(|| {
        if peaks.begin(device, live, at) && !gpumem_holders::call_soon(called) {
            peaks.end();
        }
    });
}

/// Called by the interpreter in its main thread, with its lock.
extern "C-unwind" fn called(_: *mut c_void) -> c_int {
    if process::is_aside() {
        return 0;
    }
    let session = session::session();
    let Some((session, peaks)) = session.and_then(|of| Some((of, of.peaks.as_ref()?))) else {
        return 0;
    };
    let lock = gpumem_holders::lock();
    if let Some(lock) = &lock {
        let _ = thread::guarded_with_room(|_| record(session, peaks, lock));
    }
    drop(lock);
    peaks.end();
    0
}

fn record(session: &'static Session, peaks: &Peaks, lock: &gpumem_holders::Lock) {
    let (device, seq, least) = peaks.peak();
    if session.tensors.live_bytes(device) < least {
        return peaks.passed(device);
    }
    let began = session.writer.now();
    let Some((holders, live)) = find(session, lock, device) else {
        return peaks.passed(device);
    };
    peaks.searched(device, live, [began, session.writer.now()]);
    let key = format!("{}{}", ProcessKey::PEAK_HOLDERS, device.0);
    let value = format!("at {}\n{}", seq.0, text::recorded(&holders, live));
    if session.writer.fact(key, value).is_err() {
        account::note(
            session.writer,
            "the holders of blocks did not fit into the capture",
        );
    }
}
