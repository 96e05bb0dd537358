//! Modules and libraries of kernels: their code takes memory that no call asks for.

use core::ffi::{c_char, c_uint, c_void};

use gpumem_capture::{EventKind, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuFunction, CuKernel, CuLibrary, CuModule, CuResult};

use crate::call::Call;
use crate::driver;
use crate::limit::Takes;
use crate::nvml::endings;
use crate::nvml::implicit::{self, Before};
use crate::nvml::kernels;
use crate::record::{self, Remark};
use crate::thread::Thread;

/// A module or library was loaded, from an image in memory or (0) from a file.
fn loaded(thread: &Thread, call: &Call, handle: u64, image: u64, before: Option<Before>) {
    let what = Remark {
        ptr: handle,
        bytes: image,
        aux: call.caller(),
        device: driver::current_device(),
        with_stacks: true,
        ..Remark::default()
    };
    record::remark(
        thread,
        call.api(),
        EventKind::MODULE_LOAD,
        Level::DRIVER,
        what,
    );
    if let Some(before) = before {
        implicit::settle_growth(thread, call, before, Some(handle));
    }
}

/// What a function's code may take, if it is not there yet.
fn code_of(function: u64) -> Takes {
    match kernels::is_loaded(function) {
        true => Takes::nothing(),
        false => Takes::unknown(),
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
            before { implicit::before() }
            after {
                if result.is_success() && !$made.is_null() {
                    // SAFETY: checked for null; the call succeeded, so the driver has just written there.
                    let handle = unsafe { *$made }.0 as u64;
                    loaded(thread, &call, handle, $image, held.flatten());
                }
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
                let before = implicit::before();
                (before, endings::unloading(thread, &call, $gone.0 as u64))
            }
            after {
                let handle = $gone.0 as u64;
                if let Some((before, ended)) = held {
                    if !result.is_success() {
                        if let Some(ended) = ended {
                            endings::restore(thread, &call, ended);
                        }
                    } else {
                        kernels::gone(handle);
                        let what = Remark {
                            ptr: handle,
                            device: driver::current_device(),
                            ..Remark::default()
                        };
                        record::remark(
                            thread, call.api(), EventKind::MODULE_UNLOAD, Level::DRIVER, what,
                        );
                        if let Some(before) = before {
                            implicit::settle_context(thread, &call, before);
                        }
                    }
                }
            }
        }
    )*};
}

unloads! {
    /// Takes a module away.
    fn cuModuleUnload(module: CuModule);
    /// Takes a library away.
    fn cuLibraryUnload(library: CuLibrary);
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
            kernels::got(unsafe { *kernel }.0 as u64, library.0 as u64);
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
    before { implicit::before() }
    after {
        if result.is_success() && !module.is_null() {
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            implicit::is_module_of(unsafe { *module }.0 as u64, library.0 as u64);
            if let Some(before) = held.flatten() {
                implicit::settle_growth(thread, &call, before, Some(library.0 as u64));
            }
        }
    }
}

/// A function was got, which may have loaded its code.
fn got(thread: &Thread, call: &Call, function: u64, owner: Option<u64>, before: Option<Before>) {
    if let Some(owner) = owner {
        kernels::got(function, owner);
    }
    if let Some(before) = before {
        implicit::settle_growth(thread, call, before, owner);
        kernels::loaded(function);
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
    before { implicit::before() }
    after {
        if result.is_success() && !function.is_null() {
            let owner = implicit::library_of(module.0 as u64);
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            got(thread, &call, unsafe { *function }.0 as u64, Some(owner), held.flatten());
        }
    }
}

hook! {
    /// A kernel's function in the current context: its code is loaded if it was not.
    Driver Optional
    fn cuKernelGetFunction(function: *mut CuFunction, kernel: CuKernel) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes code_of(kernel.0 as u64);
    with call, thread, result, held;
    before { if kernels::is_loaded(kernel.0 as u64) { None } else { implicit::before() } }
    after {
        if result.is_success() && !function.is_null() {
            let owner = kernels::owner(kernel.0 as u64);
            // SAFETY: checked for null; the call succeeded, so the driver has just written there.
            got(thread, &call, unsafe { *function }.0 as u64, owner, held.flatten());
            kernels::loaded(kernel.0 as u64);
        }
    }
}

hook! {
    /// Loads a function's code.
    Driver Optional
    fn cuFuncLoad(function: CuFunction) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes code_of(function.0 as u64);
    with call, thread, result, held;
    before { if kernels::is_loaded(function.0 as u64) { None } else { implicit::before() } }
    after {
        if let (true, Some(before)) = (result.is_success(), held.flatten()) {
            let owner = kernels::owner(function.0 as u64);
            implicit::settle_growth(thread, &call, before, owner);
            kernels::loaded(function.0 as u64);
        }
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
            before { implicit::before() }
            after {
                if let (true, Some(before)) = (result.is_success(), held.flatten()) {
                    let owner = implicit::library_of($owner.0 as u64);
                    implicit::settle_growth(thread, &call, before, Some(owner));
                }
            }
        }
    )*};
}

variables! {
    /// A variable of a module: it may be given its memory only now.
    fn cuModuleGetGlobal_v2(module: CuModule);
    /// A variable of a library.
    fn cuLibraryGetGlobal(library: CuLibrary);
    /// A managed variable of a library.
    fn cuLibraryGetManaged(library: CuLibrary);
}
