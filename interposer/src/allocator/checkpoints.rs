//! States of private pools: the allocator returns the state of a pool, and later restores the pool to it. Trees of CUDA
//! graphs use that. As in [`super::calls`], but the recorded values are known, or the operation is complete, only once
//! the call has returned.

use core::sync::atomic::Ordering;

use gpumem_capture::{AllocatorCall, DeviceOrdinal};
use gpumem_torch_abi::Method;

use super::calls::device;
use super::found;
use super::record::{Call, record};

/// `getCheckpointState(DeviceIndex, MempoolId)`. The address for its result, a `std::shared_ptr<AllocatorState>`, is
/// the first argument.
pub(super) extern "C-unwind" fn state_taken(
    result: u64,
    this: u64,
    of: u64,
    first: u64,
    second: u64,
) -> u64 {
    type Real = extern "C-unwind" fn(u64, u64, u64, u64, u64) -> u64;
    let real = found::real(Method::GetCheckpointState).load(Ordering::Acquire);
    // SAFETY: what stood in the slot takes and gives these words; ours is there only once it is known.
    let real: Real = unsafe { core::mem::transmute(real) };
    let given = real(result, this, of, first, second);
    // SAFETY: the place has the result now.
    let state = unsafe { object_of(result) };
    let device = device(of);
    record(AllocatorCall::STATE, device, |session| Call {
        ptr: state,
        ..Call::of_pool(session, device, (first, second))
    });
    given
}

/// `setCheckpointPoolState(DeviceIndex, std::shared_ptr<AllocatorState>)`. The address for its result is the first
/// argument. It reports its frees and allocations on this thread.
pub(super) extern "C-unwind" fn restored(result: u64, this: u64, of: u64, state: u64) -> u64 {
    type Real = extern "C-unwind" fn(u64, u64, u64, u64) -> u64;
    let real = found::real(Method::SetCheckpointPoolState).load(Ordering::Acquire);
    // SAFETY: as above.
    let real: Real = unsafe { core::mem::transmute(real) };
    // SAFETY: PyTorch passes the place of its argument.
    let mut restore = Restore::begin(device(of), unsafe { object_of(state) });
    let given = real(result, this, of, state);
    restore.failed = false;
    given
}

/// The target of a `std::shared_ptr`: its first word.
///
/// # Safety
/// The address is that of a `std::shared_ptr`.
unsafe fn object_of(shared: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (shared as *const u64).read() }
}

/// A pool that is being restored, until the end of the call, also by a C++ exception.
struct Restore {
    device: DeviceOrdinal,
    state: u64,
    failed: bool,
}

impl Restore {
    fn begin(device: DeviceOrdinal, state: u64) -> Self {
        record(AllocatorCall::CHECKPOINT, device, |_| Call {
            ptr: state,
            ..Call::PLAIN
        });
        Self {
            device,
            state,
            failed: true,
        }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        record(AllocatorCall::CHECKPOINT_END, self.device, |_| Call {
            ptr: self.state,
            bytes: self.failed.into(),
            ..Call::PLAIN
        });
    }
}
