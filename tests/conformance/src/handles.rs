//! Physical handles: granularity, and when their memory is released.

use std::ffi::c_void;

use gpumem_cuda_abi::{CuMemAccessDesc, CuMemAllocationProp};
use serde_json::json;

use crate::card::{Card, Facts, on_device};
use crate::library::call;

/// Runs all checks of this file.
pub fn check(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let properties = on_device();
    let granularity = |kind: u32| {
        let mut bytes = 0usize;
        let code = call!(cuda, "cuMemGetAllocationGranularity"(
            *mut usize: &mut bytes, *const CuMemAllocationProp: &properties, u32: kind
        ));
        (code, bytes)
    };
    let (code, minimum) = granularity(0);
    facts.note("vmm.granularity_code", code);
    facts.note("vmm.minimum", minimum);
    facts.note("vmm.recommended", granularity(1).1);
    if code != 0 || minimum == 0 {
        return;
    }
    let mut handle = 0u64;
    let create = |handle: &mut u64, bytes: usize| {
        call!(cuda, "cuMemCreate"(
            *mut u64: handle, usize: bytes, *const CuMemAllocationProp: &properties, u64: 0
        ))
    };
    facts.note("vmm.odd_size_code", create(&mut handle, minimum + 512));
    let size = 3 * minimum;
    let mut steps = Vec::new();
    let mut step = |what: &str, f: &mut dyn FnMut() -> i32| {
        let mut code = 0;
        let moved = card.step(|| code = f());
        steps.push(json!([what, code, moved]));
    };
    let mut address = 0u64;
    step("create", &mut || create(&mut handle, size));
    step("reserve", &mut || {
        call!(cuda, "cuMemAddressReserve"(
            *mut u64: &mut address, usize: 8 * size, usize: 0, u64: 0, u64: 0
        ))
    });
    step(
        "map",
        &mut || call!(cuda, "cuMemMap"(u64: address, usize: size, usize: 0, u64: handle, u64: 0)),
    );
    let access = CuMemAccessDesc {
        location: properties.location,
        flags: 3,
    };
    step("access", &mut || {
        call!(cuda, "cuMemSetAccess"(
            u64: address, usize: size, *const CuMemAccessDesc: &access, usize: 1
        ))
    });
    step(
        "map again",
        &mut || call!(cuda, "cuMemMap"(u64: address + size as u64, usize: size, usize: 0, u64: handle, u64: 0)),
    );
    let mut retained = 0u64;
    step("retain", &mut || {
        call!(cuda, "cuMemRetainAllocationHandle"(
            *mut u64: &mut retained, *mut c_void: address as *mut c_void
        ))
    });
    let same = retained == handle;
    step("release", &mut || call!(cuda, "cuMemRelease"(u64: handle)));
    step(
        "release the retained",
        &mut || call!(cuda, "cuMemRelease"(u64: retained)),
    );
    step(
        "unmap one",
        &mut || call!(cuda, "cuMemUnmap"(u64: address, usize: size)),
    );
    step(
        "unmap the other",
        &mut || call!(cuda, "cuMemUnmap"(u64: address + size as u64, usize: size)),
    );
    step(
        "return the address",
        &mut || call!(cuda, "cuMemAddressFree"(u64: address, usize: 8 * size)),
    );
    facts.note("vmm.steps", steps);
    facts.note("vmm.retained_is_the_handle", same);
}
