//! Installs our functions in the slots of the allocator's vtable.

use core::ffi::CStr;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicUsize, Ordering};

use gpumem_sys::{loaded, pages};
use gpumem_torch_abi::{self as torch, CURRENT_STREAM, Library, Method, STREAM_HANDLE};

use super::found::SLOTS;
use super::{calls, checkpoints, found};
use crate::account;
use crate::resolve::libraries::{self, Home};

/// Finds the allocator, once; returns whether that was done now. PyTorch is about to set it up, on this
/// thread.
pub(crate) fn take() -> bool {
    if SLOTS.looked.swap(true, Ordering::AcqRel) {
        return false;
    }
    let find = |home, name: &CStr| libraries::find(home, name, 0);
    SLOTS
        .current_stream
        .store(find(Home::C10Cuda, CURRENT_STREAM), Ordering::Release);
    SLOTS
        .stream_handle
        .store(find(Home::C10Cuda, STREAM_HANDLE), Ordering::Release);
    SLOTS
        .active_pool
        .store(find(Home::C10Cuda, torch::ACTIVE_POOL), Ordering::Release);
    SLOTS
        .pool_id
        .store(find(Home::C10Cuda, torch::POOL_ID), Ordering::Release);
    let symbol = |library, name: &CStr| match library {
        Library::C10Cuda => find(Home::C10Cuda, name),
        Library::TorchCuda => find(Home::TorchCuda, name),
    };
    // SAFETY: PyTorch never unloads its libraries.
    let memory = |address, length| unsafe { loaded::constants(address, length) };
    let Some(found) = torch::find(symbol, memory) else {
        return true;
    };
    SLOTS.backend.store(
        found.backend.map_or(0, |backend| backend as u8 + 1),
        Ordering::Release,
    );
    let Some(table) = found.table else {
        return true;
    };
    SLOTS.object.store(table.object, Ordering::Release);
    SLOTS.attach.store(
        table
            .function(Method::AttachAllocatorTraceTracker)
            .unwrap_or(0),
        Ordering::Release,
    );
    SLOTS.observe.store(
        table
            .function(Method::AttachOutOfMemoryObserver)
            .unwrap_or(0),
        Ordering::Release,
    );
    // A replay needs everything that a release has; in some releases each of these has a different form.
    let all = [
        one_of(
            &table,
            &[
                (Method::EmptyCache, calls::empty_cache as *const () as usize),
                (
                    Method::EmptyAllCaches,
                    calls::empty_all_caches as *const () as usize,
                ),
            ],
        ),
        one_of(
            &table,
            &[(
                Method::SetMemoryFraction,
                calls::set_fraction as *const () as usize,
            )],
        ),
        one_of(
            &table,
            &[
                (
                    Method::BeginAllocateToPool,
                    calls::pool_begin as *const () as usize,
                ),
                (
                    Method::BeginAllocateStreamToPool,
                    calls::stream_pool_begin as *const () as usize,
                ),
            ],
        ),
        one_of(
            &table,
            &[
                (
                    Method::EndAllocateToPool,
                    calls::pool_end as *const () as usize,
                ),
                (
                    Method::EndAllocateStreamToPool,
                    calls::stream_pool_end as *const () as usize,
                ),
            ],
        ),
        one_of(
            &table,
            &[(
                Method::ReleasePool,
                calls::pool_release as *const () as usize,
            )],
        ),
        one_of(
            &table,
            &[(
                Method::SetCheckpointPoolState,
                checkpoints::restored as *const () as usize,
            )],
        ),
        // Last: this slot indicates that all are replaced.
        one_of(
            &table,
            &[(
                Method::RecordStream,
                calls::record_stream as *const () as usize,
            )],
        ),
    ];
    let use_on_oom = match table.shares_allocators() {
        true => calls::use_on_oom as *const () as usize,
        false => calls::always_use_on_oom as *const () as usize,
    };
    let some = [
        (
            Method::CreateOrIncrefPool,
            calls::pool_retain as *const () as usize,
        ),
        (Method::SetUseOnOom, use_on_oom),
        (Method::SetNoSplit, calls::no_split as *const () as usize),
        (
            Method::MarkCaptureBegin,
            calls::capture_begin as *const () as usize,
        ),
        (
            Method::MarkCaptureEnd,
            calls::capture_end as *const () as usize,
        ),
        (
            Method::GetCheckpointState,
            checkpoints::state_taken as *const () as usize,
        ),
    ];
    if !table.knows_pools() || all.iter().any(Option::is_none) {
        account::leave(String::from(
            "PyTorch's allocator has unknown functions: its calls are not recorded",
        ));
        return true;
    }
    let some = some
        .into_iter()
        .filter(|(method, _)| table.slot(*method).is_some());
    for (method, ours) in some.chain(all.into_iter().flatten()) {
        let Some(slot) = table.slot(method).map(|slot| table.place(slot)) else {
            break;
        };
        found::real(method).store(slot.load(Ordering::Acquire), Ordering::Release);
        if !write(slot, ours) {
            break;
        }
    }
    true
}

/// The first of these methods that the table has, and our function for it.
fn one_of(table: &torch::Table, forms: &[(Method, usize)]) -> Option<(Method, usize)> {
    let mut forms = forms.iter();
    forms
        .find(|(method, _)| table.slot(*method).is_some())
        .copied()
}

/// Writes a function to a slot, whose page is made writable only for the write; returns whether that
/// succeeded.
fn write(slot: &AtomicUsize, function: usize) -> bool {
    let page = pages::size();
    let address = core::ptr::from_ref(slot) as usize;
    let read_only = loaded::find(|library| match library.holds(address) {
        true => ControlFlow::Break(library.is_relocated_read_only(address)),
        false => ControlFlow::Continue(()),
    });
    let Some(read_only) = read_only else {
        return false;
    };
    let protect = |access| {
        // SAFETY: the page belongs to a library's data, and only a slot in it changes.
        unsafe { libc::mprotect((address & !(page - 1)) as *mut _, page, access) == 0 }
    };
    if read_only && !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    slot.store(function, Ordering::Release);
    if read_only {
        protect(libc::PROT_READ);
    }
    true
}
