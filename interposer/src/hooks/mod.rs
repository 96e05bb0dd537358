//! The hooks, one family a file, and the macro that makes each of them.

/// The table's entry of the hook of that name.
macro_rules! entry {
    ($id:literal $home:ident $need:ident $name:ident) => {
        #[allow(non_snake_case)]
        pub(crate) mod $name {
            use crate::symbols::table::{Code, Home, Hook, Need};

            pub(crate) static HOOK: Hook = Hook::new(
                $id,
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                Home::$home,
                Need::$need,
                Code(super::$name as *const core::ffi::c_void),
            );
        }
    };
}

/// A hook: its entry and the exported function that stands before the real one.
macro_rules! hook {
    (
        $(#[$doc:meta])*
        $id:literal $home:ident $need:ident
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;
        missing $missing:expr;
        with $call:ident, $thread:ident, $result:ident, $held:ident;
        before $before:block
        after $after:block
    ) => {
        entry!($id $home $need $name);

        $(#[$doc])*
        ///
        /// # Safety
        /// As the function that it stands before: the arguments go to it unchanged.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            let address = $name::HOOK.real();
            if address == 0 {
                return $missing;
            }
            type Real = unsafe extern "C-unwind" fn($($type),*) -> $ret;
            // SAFETY: the address is that of the function of this name, whose type this is.
            let real = unsafe { core::mem::transmute::<usize, Real>(address) };
            #[allow(unused_mut, unused_variables)]
            let mut $call = crate::call::Call::enter(&$name::HOOK);
            #[allow(unused_variables, clippy::let_unit_value)]
            let $held = crate::thread::in_hook(|$thread| $before);
            // SAFETY: the caller's own arguments.
            #[allow(clippy::let_unit_value)]
            let $result = unsafe { real($($arg),*) };
            #[allow(unused_variables)]
            let _ = crate::thread::in_hook(|$thread| $after);
            $result
        }
    };
}

pub(crate) mod context;
pub(crate) mod memory;
pub(crate) mod proc_address;
pub(crate) mod pytorch;
pub(crate) mod runtime;
mod seen;
pub(crate) mod stream_ordered;
pub(crate) mod vmm;

use crate::symbols::table::Hook;

/// Every hook, in the order of its number.
pub(crate) static ALL: &[&Hook] = &[
    &proc_address::cuGetProcAddress::HOOK,
    &proc_address::cuGetProcAddress_v2::HOOK,
    &memory::cuMemAlloc_v2::HOOK,
    &memory::cuMemAllocPitch_v2::HOOK,
    &memory::cuMemAllocManaged::HOOK,
    &memory::cuMemFree_v2::HOOK,
    &memory::cuMemAllocHost_v2::HOOK,
    &memory::cuMemHostAlloc::HOOK,
    &memory::cuMemFreeHost::HOOK,
    &stream_ordered::cuMemAllocAsync::HOOK,
    &stream_ordered::cuMemAllocAsync_ptsz::HOOK,
    &stream_ordered::cuMemAllocFromPoolAsync::HOOK,
    &stream_ordered::cuMemAllocFromPoolAsync_ptsz::HOOK,
    &stream_ordered::cuMemFreeAsync::HOOK,
    &stream_ordered::cuMemFreeAsync_ptsz::HOOK,
    &vmm::cuMemCreate::HOOK,
    &vmm::cuMemRelease::HOOK,
    &vmm::cuMemRetainAllocationHandle::HOOK,
    &vmm::cuMemImportFromShareableHandle::HOOK,
    &vmm::cuMemMap::HOOK,
    &vmm::cuMemUnmap::HOOK,
    &context::cuDevicePrimaryCtxRetain::HOOK,
    &context::cuDevicePrimaryCtxRelease::HOOK,
    &context::cuDevicePrimaryCtxRelease_v2::HOOK,
    &context::cuDevicePrimaryCtxReset::HOOK,
    &context::cuDevicePrimaryCtxReset_v2::HOOK,
    &context::cuCtxCreate_v2::HOOK,
    &context::cuCtxCreate_v3::HOOK,
    &context::cuCtxCreate_v4::HOOK,
    &context::cuCtxDestroy_v2::HOOK,
    &runtime::cudaMalloc::HOOK,
    &runtime::cudaMallocPitch::HOOK,
    &runtime::cudaMalloc3D::HOOK,
    &runtime::cudaMallocManaged::HOOK,
    &runtime::cudaMallocHost::HOOK,
    &runtime::cudaHostAlloc::HOOK,
    &runtime::cudaMallocAsync::HOOK,
    &runtime::cudaMallocAsync_ptsz::HOOK,
    &runtime::cudaMallocFromPoolAsync::HOOK,
    &runtime::cudaMallocFromPoolAsync_ptsz::HOOK,
    &runtime::cudaFree::HOOK,
    &runtime::cudaFreeHost::HOOK,
    &runtime::cudaFreeAsync::HOOK,
    &runtime::cudaFreeAsync_ptsz::HOOK,
    &runtime::cudaDeviceReset::HOOK,
    &pytorch::_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE::HOOK,
    &pytorch::_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE::HOOK,
    &pytorch::_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE::HOOK,
    &pytorch::_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE::HOOK,
    &pytorch::_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE::HOOK,
];
