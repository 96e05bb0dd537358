//! Modules and libraries of kernels: their code takes memory implicitly.

use core::ffi::{c_char, c_uint, c_void};

use gpumem_capture::{DeviceOrdinal, EventKind, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuFunction, CuKernel, CuLibrary, CuModule, CuResult};

use gpumem_tracker::FunctionOf;

use super::{blocks, contexts_seen, refusals};
use crate::call::Call;
use crate::driver;
use crate::evidence::{self, Location};
use crate::limit::Takes;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// Records that a module or library was loaded, from an image in memory or (0) from a file.
fn loaded(thread: &Thread, call: &Call, handle: u64, image: u64, place: Option<Location>) {
    let is_known = place.is_some();
    let place = place.or_else(|| {
        Some(Location {
            context: driver::current_context(),
            device: driver::current_device(),
        })
    });
    let what = Sideband {
        ptr: handle,
        bytes: image,
        aux: call.caller(),
        device: place.map_or(DeviceOrdinal::NONE, |place| place.device),
        with_stacks: true,
        ..Sideband::default()
    };
    let (kind, level) = (EventKind::MODULE_LOAD, Level::DRIVER);
    sideband::record(thread, call.api(), kind, level, what);
    evidence::loaded(thread, call, place, handle);
    if !is_known {
        // It may have activated a context.
        contexts_seen::in_use(thread, call);
    }
}

macro_rules! loads {
    ($(
        $(#[$doc:meta])*
        $need:ident fn $name:ident($made:ident: $handle:ty, $($arg:ident: $type:ty),*);
        image $image:expr;
    )*) => {$(
        hook! {
            $(#[$doc])*
            Driver $need
            fn $name($made: *mut $handle, $($arg: $type),*) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::unknown();
            with call, thread, result, held;
            before { contexts_seen::before(thread, &call) }
            after {
                if result.is_success() && !$made.is_null() {
                    // SAFETY: checked for null; the call succeeded, so the driver has just written there.
                    let handle = unsafe { *$made }.0 as u64;
                    let place = held.flatten().map(|before| before.place);
                    loaded(thread, &call, handle, $image, place);
                }
                refusals::loading(thread, &call, result);
            }
        }
    )*};
}

loads! {
    /// A module from a file.
    Optional fn cuModuleLoad(module: CuModule, path: *const c_char);
    image 0;
    /// A module from an image in memory.
    Optional fn cuModuleLoadData(module: CuModule, image: *const c_void);
    image image as u64;
    /// A module from an image in memory, with options of the compiler.
    Optional fn cuModuleLoadDataEx(
        module: CuModule, image: *const c_void, count: c_uint, options: *mut c_void,
        values: *mut *mut c_void
    );
    image image as u64;
    /// A module from a fat binary in memory.
    Optional fn cuModuleLoadFatBinary(module: CuModule, image: *const c_void);
    image image as u64;
    /// A library from an image in memory.
    Optional fn cuLibraryLoadData(
        library: CuLibrary, image: *const c_void, options: *mut c_void, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_void, library_values: *mut *mut c_void,
        library_count: c_uint
    );
    image image as u64;
    /// A library from a file.
    Optional fn cuLibraryLoadFromFile(
        library: CuLibrary, path: *const c_char, options: *mut c_void, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_void, library_values: *mut *mut c_void,
        library_count: c_uint
    );
    image 0;
}

macro_rules! unloads {
    ($($(#[$doc:meta])* fn $name:ident($gone:ident: $handle:ty);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name($gone: $handle) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                evidence::unloading(thread, &call, $gone.0 as u64)
            }
            after {
                let handle = $gone.0 as u64;
                blocks::ended(&call, thread, result, held);
                if result.is_success() {
                    let what = Sideband {
                        ptr: handle,
                        device: driver::current_device(),
                        ..Sideband::default()
                    };
                    let (kind, level) = (EventKind::MODULE_UNLOAD, Level::DRIVER);
                    sideband::record(thread, call.api(), kind, level, what);
                    evidence::unloaded();
                }
            }
        }
    )*};
}

unloads! {
    /// Unloads a module.
    fn cuModuleUnload(module: CuModule);
    /// Unloads a library.
    fn cuLibraryUnload(library: CuLibrary);
}

/// Records a function look-up, which may have loaded its code.
fn got(thread: &Thread, call: &Call, function: u64, of: FunctionOf) {
    if of == FunctionOf::Unknown || !evidence::is_known(function) {
        let place = contexts_seen::place(thread, call);
        evidence::function_got(thread, call, place, function, of);
    }
}

hook! {
    /// A kernel of a library, in no context yet.
    Driver Optional
    fn cuLibraryGetKernel(
        kernel: *mut CuKernel, library: CuLibrary, name: *const c_char,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() && !kernel.is_null() {
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            let kernel = unsafe { *kernel }.0 as u64;
            got(thread, &call, kernel, FunctionOf::Library(library.0 as u64));
        }
    }
}

hook! {
    /// A library's module in the current context: its code is loaded if it was not.
    Driver Optional
    fn cuLibraryGetModule(module: *mut CuModule, library: CuLibrary) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::unknown();
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() && !module.is_null() {
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            let module = unsafe { *module }.0 as u64;
            let place = contexts_seen::place(thread, &call);
            evidence::part_got(thread, &call, place, module, library.0 as u64);
        }
        refusals::loading(thread, &call, result);
    }
}

hook! {
    /// A function of a module: its code may be loaded only now.
    Driver Optional
    fn cuModuleGetFunction(
        function: *mut CuFunction, module: CuModule, name: *const c_char,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::unknown();
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() && !function.is_null() {
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            let function = unsafe { *function }.0 as u64;
            got(thread, &call, function, FunctionOf::Module(module.0 as u64));
        }
        refusals::loading(thread, &call, result);
    }
}

hook! {
    /// A kernel's function in the current context: its code is loaded if it was not.
    Driver Optional
    fn cuKernelGetFunction(function: *mut CuFunction, kernel: CuKernel) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::unknown();
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() && !function.is_null() {
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            let function = unsafe { *function }.0 as u64;
            got(thread, &call, function, FunctionOf::Kernel(kernel.0 as u64));
        }
        refusals::loading(thread, &call, result);
    }
}

hook! {
    /// Loads a function's code.
    Driver Optional
    fn cuFuncLoad(function: CuFunction) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::unknown();
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            got(thread, &call, function.0 as u64, FunctionOf::Unknown);
        }
        refusals::loading(thread, &call, result);
    }
}

macro_rules! variables {
    ($($(#[$doc:meta])* fn $name:ident($owner:ident: $type:ty);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name(
                pointer: *mut CuDevicePtr,
                bytes: *mut usize,
                $owner: $type,
                name: *const c_char,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::unknown();
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() {
                    let place = contexts_seen::place(thread, &call);
                    evidence::variable_got(thread, &call, place, $owner.0 as u64);
                }
                refusals::loading(thread, &call, result);
            }
        }
    )*};
}

variables! {
    /// A variable of a module: its memory may be allocated only now.
    fn cuModuleGetGlobal_v2(module: CuModule);
    /// A variable of a library.
    fn cuLibraryGetGlobal(library: CuLibrary);
    /// A managed variable of a library.
    fn cuLibraryGetManaged(library: CuLibrary);
}
