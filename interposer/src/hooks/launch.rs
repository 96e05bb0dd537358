//! Launches: the first one of a function may load its code, and the first one after the stacks were
//! asked to be larger makes them so. Every other launch goes straight on.

use core::ffi::{c_int, c_uint, c_void};

use gpumem_cuda_abi::{CuFunction, CuResult, CuStream};

use crate::call::Call;
use crate::contexts;
use crate::nvml::implicit::{self, Before};
use crate::nvml::kernels;
use crate::thread::Thread;

/// `CUlaunchConfig`, as far as the stream.
#[repr(C)]
pub struct LaunchConfig {
    shape: [c_uint; 7],
    stream: CuStream,
}

/// What is known before a launch that may take memory.
enum Measured {
    /// The stream is being captured: nothing runs, and nothing is to be asked.
    Captured,
    /// There is nothing to measure by.
    Not,
    Before(Before),
}

/// The default stream of a function of the per-thread kind.
fn per_thread(stream: CuStream) -> CuStream {
    const PER_THREAD: usize = 2;
    if stream.is_null() {
        CuStream(PER_THREAD as *mut c_void)
    } else {
        stream
    }
}

fn before(stream: CuStream) -> Measured {
    if !implicit::can_measure() {
        Measured::Not
    } else if contexts::is_capturing(stream) {
        Measured::Captured
    } else {
        implicit::before().map_or(Measured::Not, Measured::Before)
    }
}

/// A launch that fails for want of memory for its stacks has loaded its code all the same.
fn after(thread: &Thread, call: &Call, function: u64, result: CuResult, measured: Before) {
    let stacks = result.is_success() && kernels::stacks_grew(measured.context());
    // What was loaded before takes more only for its stack, which is the context's.
    let module = if kernels::is_loaded(function) {
        None
    } else {
        kernels::owner(function)
    };
    implicit::settle_launch(thread, call, measured, module, stacks);
}

macro_rules! launches {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*);
        launches $function:ident, stream $stream:expr;
    )*) => {$(
        entry! {
            Driver Optional $name

            pub(super) type Real = unsafe extern "C-unwind" fn($($type),*) -> CuResult;

            /// A launch that may take memory.
            ///
            /// # Safety
            /// As the exported function; `real` is the driver's.
            #[cold]
            #[inline(never)]
            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe fn first(real: Real, $($arg: $type),*) -> CuResult {
                let call = Call::enter(&HOOK, gpumem_unwind::Registers::default());
                let measured = crate::thread::in_hook(|_| before($stream));
                let limited = crate::limit::before(crate::limit::Takes::unknown);
                // SAFETY: the caller's own arguments.
                let result = unsafe { real($($arg),*) };
                drop(limited);
                if let Some(Measured::Captured) = measured {
                    return result;
                }
                let handle = $function.0 as u64;
                let _ = crate::thread::in_hook(|thread| {
                    if let Some(Measured::Before(measured)) = measured {
                        after(thread, &call, handle, result, measured);
                    }
                });
                if result.is_success() {
                    kernels::launched(handle);
                }
                result
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As the function that it stands before: the arguments go to it unchanged.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> CuResult {
            let address = $name::HOOK.real();
            if address == 0 {
                return CuResult::NOT_INITIALIZED;
            }
            // SAFETY: the address is that of the function of this name, whose type this is.
            let real = unsafe { core::mem::transmute::<usize, $name::Real>(address) };
            if kernels::has_run($function.0 as u64) {
                // SAFETY: the caller's own arguments.
                return unsafe { real($($arg),*) };
            }
            // SAFETY: as above.
            unsafe { $name::first(real, $($arg),*) }
        }
    )*};
}

/// The stream of a configuration; null for none.
///
/// # Safety
/// `config` is null or points to what the driver is about to read.
unsafe fn stream_of(config: *const LaunchConfig) -> CuStream {
    // SAFETY: the caller's promise.
    unsafe { config.as_ref() }.map_or(CuStream::NULL, |config| config.stream)
}

launches! {
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CuStream,
        parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    launches function, stream stream;
    /// Launches a kernel; the default stream is the thread's own.
    fn cuLaunchKernel_ptsz(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CuStream,
        parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    launches function, stream per_thread(stream);
    /// Launches a kernel as a structure says.
    fn cuLaunchKernelEx(
        config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    );
    // SAFETY: the caller's own argument.
    launches function, stream unsafe { stream_of(config) };
    /// Launches a kernel as a structure says; the default stream is the thread's own.
    fn cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    );
    // SAFETY: the caller's own argument.
    launches function, stream per_thread(unsafe { stream_of(config) });
    /// Launches a kernel whose blocks run together.
    fn cuLaunchCooperativeKernel(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CuStream,
        parameters: *mut *mut c_void
    );
    launches function, stream stream;
    /// Launches a kernel whose blocks run together; the default stream is the thread's own.
    fn cuLaunchCooperativeKernel_ptsz(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CuStream,
        parameters: *mut *mut c_void
    );
    launches function, stream per_thread(stream);
    /// Launches a kernel of one block, by CUDA 2's form.
    fn cuLaunch(function: CuFunction);
    launches function, stream CuStream::NULL;
    /// Launches a kernel, by CUDA 2's form.
    fn cuLaunchGrid(function: CuFunction, width: c_int, height: c_int);
    launches function, stream CuStream::NULL;
    /// Launches a kernel on a stream, by CUDA 2's form.
    fn cuLaunchGridAsync(function: CuFunction, width: c_int, height: c_int, stream: CuStream);
    launches function, stream stream;
}
