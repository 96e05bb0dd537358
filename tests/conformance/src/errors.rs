//! The result codes of calls that must fail without damage to the context.

use std::ffi::c_void;

use gpumem_cuda_abi::{CuMemAllocationProp, CuMemLocationType};

use crate::card::{Card, Facts, on_device};
use crate::library::call;

/// Calls before there is a context.
pub fn without_context(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let mut word = 0u64;
    let mut device = 0i32;
    let mut size = [0usize; 2];
    facts.note(
        "error.no_context.cuMemAlloc",
        call!(cuda, "cuMemAlloc_v2"(*mut u64: &mut word, usize: 4096)),
    );
    facts.note(
        "error.no_context.cuMemFree",
        call!(cuda, "cuMemFree_v2"(u64: 0x7000_0000_0000)),
    );
    facts.note(
        "error.no_context.cuCtxGetDevice",
        call!(cuda, "cuCtxGetDevice"(*mut i32: &mut device)),
    );
    let [free, total] = &mut size;
    facts.note(
        "error.no_context.cuMemGetInfo",
        call!(cuda, "cuMemGetInfo_v2"(*mut usize: free, *mut usize: total)),
    );
    facts.note("error.no_context.cuCtxSynchronize", card.synchronize());
    facts.note(
        "error.cuDeviceGet_of_99",
        call!(cuda, "cuDeviceGet"(*mut i32: &mut device, i32: 99)),
    );
}

/// Calls in the primary context.
pub fn check(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let mut word = 0u64;
    let mut host: *mut c_void = core::ptr::null_mut();
    let null = core::ptr::null_mut::<u64>();
    let before = card.used();
    facts.note(
        "error.cuMemAlloc_of_0",
        call!(cuda, "cuMemAlloc_v2"(*mut u64: &mut word, usize: 0)),
    );
    facts.note(
        "error.cuMemAlloc_to_null",
        call!(cuda, "cuMemAlloc_v2"(*mut u64: null, usize: 4096)),
    );
    facts.note(
        "error.cuMemAlloc_of_1PiB",
        call!(cuda, "cuMemAlloc_v2"(*mut u64: &mut word, usize: 1 << 50)),
    );
    facts.note("error.cuMemFree_of_null", card.free(0));
    facts.note("error.cuMemFree_of_rubbish", card.free(0x7000_0000_0000));
    if let Ok(pointer) = card.alloc(8192) {
        facts.note("error.cuMemFree_inside", card.free(pointer + 4096));
        facts.note("error.cuMemFree", card.free(pointer));
        facts.note("error.cuMemFree_twice", card.free(pointer));
    }
    facts.note(
        "error.cuMemAllocManaged_of_0",
        call!(cuda, "cuMemAllocManaged"(*mut u64: &mut word, usize: 0, u32: 1)),
    );
    facts.note(
        "error.cuMemAllocManaged_flags",
        call!(cuda, "cuMemAllocManaged"(*mut u64: &mut word, usize: 4096, u32: 99)),
    );
    facts.note(
        "error.cuMemAllocHost_of_0",
        call!(cuda, "cuMemAllocHost_v2"(*mut *mut c_void: &mut host, usize: 0)),
    );
    facts.note("error.cuMemAllocHost_of_0_is_null", host.is_null());
    facts.note(
        "error.cuMemHostAlloc_flags",
        call!(cuda, "cuMemHostAlloc"(*mut *mut c_void: &mut host, usize: 4096, u32: 0x4000)),
    );
    let mut own = 0u64;
    facts.note(
        "error.cuMemFreeHost_of_own",
        call!(cuda, "cuMemFreeHost"(*mut c_void: (&raw mut own).cast())),
    );
    facts.note(
        "error.cuMemHostUnregister_of_own",
        call!(cuda, "cuMemHostUnregister"(*mut c_void: (&raw mut own).cast())),
    );
    word = 1;
    facts.note("error.cuMemAllocAsync_of_0", call!(cuda, "cuMemAllocAsync"(*mut u64: &mut word, usize: 0, *mut c_void: core::ptr::null_mut())));
    facts.note("error.cuMemAllocAsync_of_0_is_null", word == 0);
    facts.note("error.cuMemAllocAsync_of_1PiB", call!(cuda, "cuMemAllocAsync"(*mut u64: &mut word, usize: 1 << 50, *mut c_void: core::ptr::null_mut())));
    facts.note(
        "error.cuMemFreeAsync_of_rubbish",
        call!(cuda, "cuMemFreeAsync"(u64: 0x7000_0000_0000, *mut c_void: core::ptr::null_mut())),
    );
    handles(card, facts);
    facts.note("error.card_step", card.used() - before);
}

/// Physical handles and addresses.
fn handles(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let mut word = 0u64;
    let create = |word: &mut u64, properties: &CuMemAllocationProp, bytes: usize| call!(cuda, "cuMemCreate"(*mut u64: word, usize: bytes, *const CuMemAllocationProp: properties, u64: 0));
    let good = on_device();
    facts.note("error.cuMemCreate_of_0", create(&mut word, &good, 0));
    facts.note(
        "error.cuMemCreate_of_1PiB",
        create(&mut word, &good, 1 << 50),
    );
    let mut other = on_device();
    other.location.id = 99;
    facts.note(
        "error.cuMemCreate_on_99",
        create(&mut word, &other, 2 << 20),
    );
    let mut other = on_device();
    other.location.kind = CuMemLocationType(77);
    facts.note(
        "error.cuMemCreate_nowhere",
        create(&mut word, &other, 2 << 20),
    );
    facts.note(
        "error.cuMemUnmap_of_rubbish",
        call!(cuda, "cuMemUnmap"(u64: 0x7000_0000_0000, usize: 2 << 20)),
    );
    facts.note(
        "error.cuMemAddressFree_of_rubbish",
        call!(cuda, "cuMemAddressFree"(u64: 0x7000_0000_0000, usize: 2 << 20)),
    );
    facts.note(
        "error.cuMemAddressReserve_of_0",
        call!(cuda, "cuMemAddressReserve"(*mut u64: &mut word, usize: 0, usize: 0, u64: 0, u64: 0)),
    );
    let reserved = call!(cuda, "cuMemAddressReserve"(*mut u64: &mut word, usize: 2 << 20, usize: 0, u64: 0, u64: 0));
    if reserved == 0 {
        facts.note(
            "error.cuMemUnmap_of_nothing",
            call!(cuda, "cuMemUnmap"(u64: word, usize: 2 << 20)),
        );
        facts.note(
            "error.cuMemAddressFree_of_half",
            call!(cuda, "cuMemAddressFree"(u64: word, usize: 1 << 20)),
        );
        facts.note(
            "error.cuMemAddressFree",
            call!(cuda, "cuMemAddressFree"(u64: word, usize: 2 << 20)),
        );
    }
}
