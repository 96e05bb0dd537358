//! Copies of plain ranges. An end that the caller declares as device memory must be live memory of
//! the simulated driver. A unified pointer to other memory is a host pointer, as in the real
//! driver.

use super::copy_side::{DEVICE, HOST, UNIFIED, no_side};
use super::on_stream::{on_stream, submit, synchronously};
use crate::ffi::{Answer, CuError, Handle, In};
use crate::host::{self, Access};
use crate::model::State;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::On;
use crate::sparse::{self, Piece, Target};
use gpumem_cuda_abi::{CuDevicePtr, CuMemcpy3d, CuMemcpySide3d};

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Host memory, from the function's name.
    Host(u64),
    /// Device memory, from the function's name.
    Device(u64),
    /// Either; detected from the address.
    Unified(u64),
}

impl End {
    /// The same end for a copy of boxes.
    fn side(self) -> CuMemcpySide3d {
        let (kind, host, device) = match self {
            Self::Host(address) => (HOST, address, 0),
            Self::Device(address) => (DEVICE, 0, address),
            Self::Unified(address) => (UNIFIED, 0, address),
        };
        CuMemcpySide3d {
            kind,
            host: host as usize,
            device: CuDevicePtr(device),
            ..no_side()
        }
    }
}

/// Checks both ends and copies `bytes` bytes.
pub fn copy(to: End, from: End, bytes: u64) -> Answer {
    copy_part(to, from, bytes, bytes)
}

/// As [`copy`], for a part of a copy of `of` bytes.
pub fn copy_part(to: End, from: End, bytes: u64, of: u64) -> Answer {
    let how = {
        let mut state = state()?;
        state.bound()?;
        if bytes == 0 {
            return Ok(());
        }
        let check = |end: End, access: Access| match end {
            End::Host(0) | End::Device(0) | End::Unified(0) => false,
            End::Host(_) => true,
            End::Device(address) => state.memory.covers(address, bytes, access),
            End::Unified(address) => {
                state.memory.holding(address).is_none()
                    || state.memory.covers(address, bytes, access)
            }
        };
        if !check(to, Access::ReadWrite) || !check(from, Access::Read) {
            return Err(CuError::INVALID_VALUE);
        }
        for end in [to, from] {
            if let End::Device(address) | End::Unified(address) = end {
                state.touch(address);
            }
        }
        How::of(&state, (address(to), address(from)), bytes, of)
    };
    let (to, from) = (address(to), address(from));
    match how {
        How::Plainly => host::copy(to, from, bytes),
        How::WithoutZeros(pieces, target) => sparse::copy(to, from, &pieces, target),
        How::NotAtAll => host::zero(to, bytes),
    }
    Ok(())
}

/// How a copy is done.
enum How {
    Plainly,
    WithoutZeros(Vec<Piece>, Target),
    /// It is larger than the limit for copies from the host: the target is zeroed.
    NotAtAll,
}

impl How {
    fn of(state: &State, (to, from): (u64, u64), bytes: u64, of: u64) -> Self {
        let most = state.machine.copy_most;
        if most.is_some_and(|most| of > most) && !state.is_on_device(from) && state.is_on_device(to)
        {
            return Self::NotAtAll;
        }
        if bytes < sparse::WORTH_LOOKING || to.abs_diff(from) < bytes {
            return Self::Plainly;
        }
        let target = if state.has_made(to, bytes) {
            Target::Own
        } else {
            Target::Programs
        };
        Self::WithoutZeros(state.contents(from, bytes), target)
    }
}

fn address(end: End) -> u64 {
    match end {
        End::Host(address) | End::Device(address) | End::Unified(address) => address,
    }
}

/// The same copy on a stream.
pub fn copy_on(on: On, to: End, from: End, bytes: usize) -> Answer {
    let work = Work::Copy(CuMemcpy3d {
        from: from.side(),
        to: to.side(),
        width_bytes: bytes,
        height: 1,
        depth: 1,
    });
    submit(on, work, || copy(to, from, bytes as u64))
}

/// The same copy, synchronously.
pub fn copy_now(to: End, from: End, bytes: usize) -> Answer {
    synchronously(|| copy(to, from, bytes as u64))
}

/// `cuMemcpy`.
pub extern "C" fn unified(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_now(End::Unified(to.0), End::Unified(from.0), bytes)
}

/// `cuMemcpyHtoD`.
pub extern "C" fn host_to_device(to: CuDevicePtr, from: Handle, bytes: usize) -> Answer {
    copy_now(End::Device(to.0), End::Host(from as u64), bytes)
}

/// `cuMemcpyDtoH`.
pub extern "C" fn device_to_host(to: Handle, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_now(End::Host(to as u64), End::Device(from.0), bytes)
}

/// `cuMemcpyDtoD`.
pub extern "C" fn device_to_device(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_now(End::Device(to.0), End::Device(from.0), bytes)
}

/// `cuMemcpyPeer`: the contexts must be live.
pub extern "C" fn peer(
    to: CuDevicePtr,
    to_context: Handle,
    from: CuDevicePtr,
    from_context: Handle,
    bytes: usize,
) -> Answer {
    check_peers(to_context, from_context)?;
    copy_now(End::Device(to.0), End::Device(from.0), bytes)
}

fn check_peers(to: Handle, from: Handle) -> Answer {
    let mut state = state()?;
    state.context(to)?;
    state.context(from)?;
    Ok(())
}

fn unified_on(on: On, to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_on(on, End::Unified(to.0), End::Unified(from.0), bytes)
}

fn host_to_device_on(on: On, to: CuDevicePtr, from: Handle, bytes: usize) -> Answer {
    copy_on(on, End::Device(to.0), End::Host(from as u64), bytes)
}

fn device_to_host_on(on: On, to: Handle, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_on(on, End::Host(to as u64), End::Device(from.0), bytes)
}

fn device_to_device_on(on: On, to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Answer {
    copy_on(on, End::Device(to.0), End::Device(from.0), bytes)
}

fn peer_on(
    on: On,
    to: CuDevicePtr,
    to_context: Handle,
    from: CuDevicePtr,
    from_context: Handle,
    bytes: usize,
) -> Answer {
    check_peers(to_context, from_context)?;
    copy_on(on, End::Device(to.0), End::Device(from.0), bytes)
}

/// The parameters that differ between CUDA 12.8 and 13.0, which include the stream, come after
/// `count`. Each version has a separate export.
fn batch_on(
    on: On,
    to: In<CuDevicePtr>,
    from: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
) -> Answer {
    let (to, from) = (to.list(count)?, from.list(count)?);
    for ((to, from), bytes) in to.into_iter().zip(from).zip(sizes.list(count)?) {
        unified_on(on, to, from, bytes)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn batch_of_12_on(
    on: On,
    to: In<CuDevicePtr>,
    from: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
    _attributes: Handle,
    _indices: Handle,
    _attribute_count: usize,
    _failed: Handle,
) -> Answer {
    batch_on(on, to, from, sizes, count)
}

#[allow(clippy::too_many_arguments)]
fn batch_of_13_on(
    on: On,
    to: In<CuDevicePtr>,
    from: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
    _attributes: Handle,
    _indices: Handle,
    _attribute_count: usize,
) -> Answer {
    batch_on(on, to, from, sizes, count)
}

on_stream! {
    "`cuMemcpyAsync`." unified_async unified_own
        [to: CuDevicePtr, from: CuDevicePtr, bytes: usize] [] = unified_on;
    "`cuMemcpyHtoDAsync`." host_to_device_async host_to_device_own
        [to: CuDevicePtr, from: Handle, bytes: usize] [] = host_to_device_on;
    "`cuMemcpyDtoHAsync`." device_to_host_async device_to_host_own
        [to: Handle, from: CuDevicePtr, bytes: usize] [] = device_to_host_on;
    "`cuMemcpyDtoDAsync`." device_to_device_async device_to_device_own
        [to: CuDevicePtr, from: CuDevicePtr, bytes: usize] [] = device_to_device_on;
    "`cuMemcpyPeerAsync`." peer_async peer_own
        [to: CuDevicePtr, to_context: Handle, from: CuDevicePtr, from_context: Handle, bytes: usize]
        [] = peer_on;
    "`cuMemcpyBatchAsync` of CUDA 12.8." batch_of_12 batch_of_12_own
        [to: In<CuDevicePtr>, from: In<CuDevicePtr>, sizes: In<usize>, count: usize,
         attributes: Handle, indices: Handle, attribute_count: usize, failed: Handle]
        [] = batch_of_12_on;
    "`cuMemcpyBatchAsync`." batch batch_own
        [to: In<CuDevicePtr>, from: In<CuDevicePtr>, sizes: In<usize>, count: usize,
         attributes: Handle, indices: Handle, attribute_count: usize]
        [] = batch_of_13_on;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kind::Kind;
    use crate::model::tests::{MIB, at, machine};

    #[test]
    fn only_large_copies_from_the_host_are_left_out() {
        let mut few = machine("1GiB").clone();
        few.copy_most = Some(2 * MIB);
        let mut state = State::new(Box::leak(Box::new(few)));
        let current = at(&state, 0);
        let mut device = || {
            state
                .allocate_device(current, 8 * MIB, Kind::Device)
                .expect("room")
        };
        let (one, other) = (device(), device());
        let pinned = state.allocate_host(current, 8 * MIB, 0).expect("room");
        let own = [0u8; 1];
        let own = own.as_ptr() as u64;
        let left_out = |to: u64, from: u64, bytes: u64, of: u64| {
            matches!(How::of(&state, (to, from), bytes, of), How::NotAtAll)
        };
        for host in [pinned, own] {
            assert!(left_out(one, host, 2 * MIB + 1, 2 * MIB + 1));
            assert!(!left_out(one, host, 2 * MIB, 2 * MIB));
            assert!(left_out(one, host, 1, 2 * MIB + 1), "a row of a box");
            assert!(!left_out(host, one, 8 * MIB, 8 * MIB));
        }
        assert!(!left_out(one, other, 8 * MIB, 8 * MIB));
        let all = State::new(machine("1GiB"));
        assert!(matches!(
            How::of(&all, (one, own), MIB - 1, MIB - 1),
            How::Plainly
        ));
        let near = How::of(&all, (one, one + MIB), 2 * MIB, 2 * MIB);
        assert!(matches!(near, How::Plainly), "the ranges overlap");
    }
}
