//! The requests of `cuGetProcAddress`: names without a version, and the form of the function that each
//! CUDA version means by them.
//!
//! Needed when a driver returns an address that it does not export. The versions are those that
//! NVIDIA's runtimes request, which the tests compare, and otherwise those of cudaTypedefs.h.

use core::ffi::c_int;

use crate::hook::{self, Hook};

/// A form of a function: the first CUDA version with it, and the exported names for the legacy and for
/// the per-thread default stream.
struct Form {
    since: c_int,
    legacy: &'static str,
    per_thread: &'static str,
}

macro_rules! requests {
    ($($base:ident: $($since:literal $legacy:ident $(| $per_thread:ident)?),*;)*) => {
        /// The forms of each hooked function, the oldest first.
        const REQUESTS: &[(&str, &[Form])] = &[$((
            stringify!($base),
            &[$(Form {
                since: $since,
                legacy: stringify!($legacy),
                per_thread: requests!(@either $legacy $($per_thread)?),
            }),*],
        )),*];
    };
    (@either $legacy:ident) => { stringify!($legacy) };
    (@either $legacy:ident $per_thread:ident) => { stringify!($per_thread) };
}

requests! {
    cuGetProcAddress: 11030 cuGetProcAddress, 12000 cuGetProcAddress_v2;
    cuMemAlloc: 2000 cuMemAlloc, 3020 cuMemAlloc_v2;
    cuMemAllocManaged: 6000 cuMemAllocManaged;
    cuMemAllocPitch: 2000 cuMemAllocPitch, 3020 cuMemAllocPitch_v2;
    cuMemFree: 2000 cuMemFree, 3020 cuMemFree_v2;
    cuMemAllocHost: 2000 cuMemAllocHost, 3020 cuMemAllocHost_v2;
    cuMemFreeHost: 2000 cuMemFreeHost;
    cuMemHostAlloc: 2020 cuMemHostAlloc;
    cuMemHostRegister: 4000 cuMemHostRegister, 6050 cuMemHostRegister_v2;
    cuMemHostUnregister: 4000 cuMemHostUnregister;
    cuMemAllocAsync: 11020 cuMemAllocAsync | cuMemAllocAsync_ptsz;
    cuMemAllocFromPoolAsync: 11020 cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz;
    cuMemFreeAsync: 11020 cuMemFreeAsync | cuMemFreeAsync_ptsz;
    cuMemPoolCreate: 11020 cuMemPoolCreate;
    cuMemPoolDestroy: 11020 cuMemPoolDestroy;
    cuMemPoolSetAttribute: 11020 cuMemPoolSetAttribute;
    cuMemPoolTrimTo: 11020 cuMemPoolTrimTo;
    cuMemPoolImportFromShareableHandle: 11020 cuMemPoolImportFromShareableHandle;
    cuMemPoolImportPointer: 11020 cuMemPoolImportPointer;
    cuMemAddressFree: 10020 cuMemAddressFree;
    cuMemAddressReserve: 10020 cuMemAddressReserve;
    cuMemCreate: 10020 cuMemCreate;
    cuMemMap: 10020 cuMemMap;
    cuMemMapArrayAsync: 11010 cuMemMapArrayAsync | cuMemMapArrayAsync_ptsz;
    cuMemRelease: 10020 cuMemRelease;
    cuMemRetainAllocationHandle: 11000 cuMemRetainAllocationHandle;
    cuMemSetAccess: 10020 cuMemSetAccess;
    cuMemUnmap: 10020 cuMemUnmap;
    cuMemImportFromShareableHandle: 10020 cuMemImportFromShareableHandle;
    cuMemExportToShareableHandle: 10020 cuMemExportToShareableHandle;
    cuMemPoolExportToShareableHandle: 11020 cuMemPoolExportToShareableHandle;
    cuIpcGetMemHandle: 4010 cuIpcGetMemHandle;
    cuGraphicsMapResources:
        3000 cuGraphicsMapResources,
        7000 cuGraphicsMapResources | cuGraphicsMapResources_ptsz;
    cuArray3DCreate: 2000 cuArray3DCreate, 3020 cuArray3DCreate_v2;
    cuArrayCreate: 2000 cuArrayCreate, 3020 cuArrayCreate_v2;
    cuArrayDestroy: 2000 cuArrayDestroy;
    cuMipmappedArrayCreate: 5000 cuMipmappedArrayCreate;
    cuMipmappedArrayDestroy: 5000 cuMipmappedArrayDestroy;
    cuDestroyExternalMemory: 10000 cuDestroyExternalMemory;
    cuExternalMemoryGetMappedBuffer: 10000 cuExternalMemoryGetMappedBuffer;
    cuExternalMemoryGetMappedMipmappedArray: 10000 cuExternalMemoryGetMappedMipmappedArray;
    cuImportExternalMemory: 10000 cuImportExternalMemory;
    cuIpcCloseMemHandle: 4010 cuIpcCloseMemHandle;
    cuIpcOpenMemHandle: 4010 cuIpcOpenMemHandle, 11000 cuIpcOpenMemHandle_v2;
    cuMulticastBindAddr: 12010 cuMulticastBindAddr, 13010 cuMulticastBindAddr_v2;
    cuMulticastBindMem: 12010 cuMulticastBindMem, 13010 cuMulticastBindMem_v2;
    cuMulticastCreate: 12010 cuMulticastCreate;
    cuMulticastUnbind: 12010 cuMulticastUnbind;
    cuCtxAttach: 2000 cuCtxAttach;
    cuCtxCreate: 2000 cuCtxCreate, 3020 cuCtxCreate_v2, 11040 cuCtxCreate_v3, 12050 cuCtxCreate_v4;
    cuCtxDestroy: 2000 cuCtxDestroy, 4000 cuCtxDestroy_v2;
    cuCtxDetach: 2000 cuCtxDetach;
    cuCtxFromGreenCtx: 12040 cuCtxFromGreenCtx;
    cuDevicePrimaryCtxRelease: 7000 cuDevicePrimaryCtxRelease, 11000 cuDevicePrimaryCtxRelease_v2;
    cuDevicePrimaryCtxReset: 7000 cuDevicePrimaryCtxReset, 11000 cuDevicePrimaryCtxReset_v2;
    cuDevicePrimaryCtxRetain: 7000 cuDevicePrimaryCtxRetain;
    cuGLCtxCreate: 2000 cuGLCtxCreate, 3020 cuGLCtxCreate_v2;
    cuGreenCtxCreate: 12040 cuGreenCtxCreate;
    cuGreenCtxDestroy: 12040 cuGreenCtxDestroy;
    cuVDPAUCtxCreate: 3010 cuVDPAUCtxCreate, 3020 cuVDPAUCtxCreate_v2;
    cuCtxSynchronize: 2000 cuCtxSynchronize, 13000 cuCtxSynchronize_v2;
    cuEventSynchronize: 2000 cuEventSynchronize;
    cuStreamCreate: 2000 cuStreamCreate;
    cuStreamCreateWithPriority: 5050 cuStreamCreateWithPriority;
    cuGreenCtxStreamCreate: 12050 cuGreenCtxStreamCreate;
    cuStreamSynchronize:
        2000 cuStreamSynchronize,
        7000 cuStreamSynchronize | cuStreamSynchronize_ptsz;
    cuDeviceGraphMemTrim: 11040 cuDeviceGraphMemTrim;
    cuGraphAddChildGraphNode: 10000 cuGraphAddChildGraphNode;
    cuGraphAddMemAllocNode: 11040 cuGraphAddMemAllocNode;
    cuGraphAddMemFreeNode: 11040 cuGraphAddMemFreeNode;
    cuGraphAddNode:
        12020 cuGraphAddNode,
        12030 cuGraphAddNode_v2,
        13040 cuGraphAddNode_v3;
    cuGraphDestroy: 10000 cuGraphDestroy;
    cuGraphDestroyNode: 10000 cuGraphDestroyNode;
    cuGraphExecDestroy: 10000 cuGraphExecDestroy;
    cuGraphInstantiate: 10000 cuGraphInstantiate, 11000 cuGraphInstantiate_v2;
    cuGraphInstantiateWithFlags: 11040 cuGraphInstantiateWithFlags;
    cuGraphInstantiateWithParams:
        12000 cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz;
    cuGraphLaunch: 10000 cuGraphLaunch | cuGraphLaunch_ptsz;
    cuGraphUpload: 11010 cuGraphUpload | cuGraphUpload_ptsz;
    cuCtxSetLimit: 3010 cuCtxSetLimit;
    cuGetErrorString: 6000 cuGetErrorString;
    cuMemGetInfo: 2000 cuMemGetInfo, 3020 cuMemGetInfo_v2;
    cuDeviceTotalMem: 2000 cuDeviceTotalMem, 3020 cuDeviceTotalMem_v2;
    cuFuncLoad: 12040 cuFuncLoad;
    cuKernelGetFunction: 12000 cuKernelGetFunction;
    cuLibraryGetModule: 12000 cuLibraryGetModule;
    cuLibraryGetKernel: 12000 cuLibraryGetKernel;
    cuLibraryGetGlobal: 12000 cuLibraryGetGlobal;
    cuLibraryGetManaged: 12000 cuLibraryGetManaged;
    cuModuleGetFunction: 2000 cuModuleGetFunction;
    cuModuleGetGlobal: 3020 cuModuleGetGlobal_v2;
    cuLibraryLoadData: 12000 cuLibraryLoadData;
    cuLibraryLoadFromFile: 12000 cuLibraryLoadFromFile;
    cuLibraryUnload: 12000 cuLibraryUnload;
    cuModuleLoad: 2000 cuModuleLoad;
    cuModuleLoadData: 2000 cuModuleLoadData;
    cuModuleLoadDataEx: 2010 cuModuleLoadDataEx;
    cuModuleLoadFatBinary: 2000 cuModuleLoadFatBinary;
    cuModuleUnload: 2000 cuModuleUnload;
    cuLaunchCooperativeKernel: 9000 cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz;
    cuLaunch: 2000 cuLaunch;
    cuLaunchGrid: 2000 cuLaunchGrid;
    cuLaunchGridAsync: 2000 cuLaunchGridAsync;
    cuLaunchKernel: 4000 cuLaunchKernel, 7000 cuLaunchKernel | cuLaunchKernel_ptsz;
    cuLaunchKernelEx: 11060 cuLaunchKernelEx | cuLaunchKernelEx_ptsz;
}

/// The hook for a name without suffix, a version and flags: the newest form for that version.
pub(super) fn by_request(name: &[u8], version: c_int, flags: u64) -> Option<&'static Hook> {
    const PER_THREAD_STREAM: u64 = 2;
    let (_, forms) = REQUESTS.iter().find(|(base, _)| base.as_bytes() == name)?;
    let form = forms.iter().rev().find(|form| form.since <= version)?;
    let wanted = if flags & PER_THREAD_STREAM != 0 {
        form.per_thread
    } else {
        form.legacy
    };
    hook::by_name(wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook;

    fn requested(name: &[u8], version: c_int, flags: u64) -> Option<&'static str> {
        by_request(name, version, flags).and_then(|hook| hook.name.to_str().ok())
    }

    #[test]
    fn requests_name_the_newest_that_the_version_has() {
        assert_eq!(requested(b"cuMemAlloc", 13000, 0), Some("cuMemAlloc_v2"));
        assert_eq!(requested(b"cuMemAlloc", 2000, 0), Some("cuMemAlloc"));
        assert_eq!(requested(b"cuMemAlloc", 1000, 0), None);
        assert_eq!(
            requested(b"cuMemAllocAsync", 12000, 2),
            Some("cuMemAllocAsync_ptsz")
        );
        assert_eq!(
            requested(b"cuMemAllocAsync", 12000, 1),
            Some("cuMemAllocAsync")
        );
        assert_eq!(
            requested(b"cuGetProcAddress", 11030, 0),
            Some("cuGetProcAddress")
        );
        assert_eq!(
            requested(b"cuGetProcAddress", 12000, 0),
            Some("cuGetProcAddress_v2")
        );
        // From CUDA 13.5's cudaTypedefs.h: PFN_cuGraphAddNode_v13040.
        assert_eq!(
            requested(b"cuGraphAddNode", 13050, 0),
            Some("cuGraphAddNode_v3")
        );
        assert_eq!(
            requested(b"cuGraphAddNode", 13030, 0),
            Some("cuGraphAddNode_v2")
        );
        assert_eq!(requested(b"cuMemcpy", 12000, 0), None);
    }

    /// The requests of NVIDIA's runtimes 12.9 and 13.5, and the results of a driver.
    const ASKED: [&str; 2] = [
        include_str!("../../../tests/data/cudart12_getprocaddress.txt"),
        include_str!("../../../tests/data/cudart13_getprocaddress.txt"),
    ];

    #[test]
    fn requests_of_the_runtimes_lead_to_what_the_driver_answers() {
        let mut hooked = 0;
        for line in ASKED.iter().flat_map(|list| list.lines()) {
            let (request, answer) = line.split_once(" -> ").expect("an answer");
            let mut words = request.split_whitespace();
            let (Some(name), Some(version), Some(flags)) =
                (words.next(), words.next(), words.next())
            else {
                continue; // the runtime also requests an empty name
            };
            if answer == "NOT_FOUND" {
                continue; // by the driver in use; another one may have it
            }
            let number = |word: &str, key| -> u64 {
                let digits = word.strip_prefix(key).expect("the list's form");
                digits.parse().expect("a number")
            };
            let (version, flags) = (number(version, "ver="), number(flags, "flags="));
            let found = requested(name.as_bytes(), version as c_int, flags);
            let wanted = hook::by_name(answer.as_bytes()).and_then(|hook| hook.name.to_str().ok());
            assert_eq!(found, wanted, "{line}");
            hooked += u32::from(wanted.is_some());
        }
        assert!(hooked > 100, "{hooked}");
    }

    #[test]
    fn every_hook_of_the_driver_can_be_asked_for() {
        let forms = || REQUESTS.iter().flat_map(|(_, forms)| forms.iter());
        for hook in hook::all().iter().filter(|hook| hook.is_driver()) {
            let name = hook.name.to_str().expect("an ASCII name");
            let known = forms().any(|form| form.legacy == name || form.per_thread == name);
            assert!(known, "{name} is in no row");
        }
    }

    #[test]
    fn forms_are_in_order_and_bear_their_functions_name() {
        for (base, forms) in REQUESTS {
            assert!(forms.is_sorted_by_key(|form| form.since), "{base}");
            for form in *forms {
                assert!(form.legacy.starts_with(base) && form.per_thread.starts_with(base));
            }
        }
    }
}
