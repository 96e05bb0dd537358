//! Handles, their streams, and the version.

use crate::objects::Objects;
use crate::status::{Done, Status, pointer, status};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Handle, Out};

/// 9.26.0, the version that PyTorch 2.15 brings. Programs build different graphs for different
/// versions.
const VERSION: [i32; 3] = [9, 26, 0];

/// Streams by handle.
static HANDLES: Objects<Handle> = Objects::new();

/// Ensures that there is a context: the current one, else the primary one of the first device, as
/// the runtime inside the real library does.
fn context() -> Done {
    let failed = |_| Status::NOT_INITIALIZED;
    cu::cuInit(0).map_err(failed)?;
    let mut current = 0;
    cu::cuCtxGetCurrent(Out::to(&mut current)).map_err(failed)?;
    if current == 0 {
        cu::cuDevicePrimaryCtxRetain(Out::to(&mut current), 0).map_err(failed)?;
        cu::cuCtxSetCurrent(current).map_err(failed)?;
    }
    Ok(())
}

/// `cudnnCreate`.
pub fn create(place: Out<Handle>) -> Status {
    if place.is_null() {
        return status(Err(Status::BAD_PARAM));
    }
    status(context().and_then(|()| HANDLES.insert(place, 0)))
}

/// `cudnnDestroy`: waits for the device, as documented.
pub fn destroy(handle: Handle) -> Status {
    if HANDLES.get(handle).is_ok() {
        // An error of the device is reported by the next call that uses it.
        let _ = cu::cuCtxSynchronize();
    }
    HANDLES.destroy(handle)
}

/// `cudnnSetStream`.
pub fn set_stream(handle: Handle, stream: Handle) -> Status {
    status(HANDLES.set(handle, stream))
}

/// `cudnnGetStream`.
pub fn get_stream(handle: Handle, place: Out<Handle>) -> Status {
    status(stream(handle).and_then(|stream| pointer(place.put(stream))))
}

/// The stream of a live handle.
///
/// # Errors
/// `BAD_PARAM` if there is no such handle.
pub fn stream(handle: Handle) -> Done<Handle> {
    HANDLES.get(handle)
}

/// `cudnnGetVersion`.
pub fn version() -> usize {
    let [major, minor, patch] = VERSION;
    (major * 10_000 + minor * 100 + patch) as usize
}

/// `cudnnGetCudartVersion`: the version of the runtime inside NVIDIA's library.
pub fn runtime_version() -> usize {
    13040
}

/// `cudnnGetMaxDeviceVersion`: `CUDNN_MAX_DEVICE_VERSION`.
pub fn max_device_version() -> usize {
    1210
}

/// `cudnnGetProperty`: major, minor, patch.
pub fn property(which: u32, value: Out<i32>) -> Status {
    status(match VERSION.get(which as usize) {
        Some(number) => pointer(value.put(*number)),
        None => Err(Status::BAD_PARAM),
    })
}

/// `cudnn…VersionCheck`: all parts are in this library, so versions always match.
pub fn version_check() -> Status {
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_told_whole_and_in_parts() {
        let mut parts = [0; 3];
        for (which, part) in (0..).zip(&mut parts) {
            assert_eq!(property(which, Out::to(part)), Status::SUCCESS);
        }
        let [major, minor, patch] = parts.map(|part| part as usize);
        assert_eq!(major * 10_000 + minor * 100 + patch, version());
        assert_eq!(property(3, Out::to(&mut parts[0])), Status::BAD_PARAM);
        assert_eq!(property(0, Out::NOWHERE), Status::BAD_PARAM);
    }

    #[test]
    fn handles_that_were_never_made_are_refused() {
        let mut stream = 0;
        assert_eq!(set_stream(0, 0), Status::BAD_PARAM);
        assert_eq!(get_stream(77, Out::to(&mut stream)), Status::BAD_PARAM);
        assert_eq!(destroy(77), Status::BAD_PARAM);
        assert_eq!(create(Out::NOWHERE), Status::BAD_PARAM);
    }
}
