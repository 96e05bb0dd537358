//! Hooks of PyTorch's C++ functions that it calls by name, also within libtorch_cpu: the numbering and evaluation
//! of autograd nodes, the start and end of backward and of the profiler's scopes, and the allocation of
//! workspaces for cuBLAS.
//!
//! They belong to no CUDA call, so no event has the name of one of them. Every argument and result is passed on
//! as register words. C++ exceptions pass through.

#![allow(clippy::unused_unit)] // the macro requires a return type

use core::ffi::{CStr, c_char};

use gpumem_capture::ApiId;

use crate::backward::{self, gradients, phases, steps};
use crate::workspace;

/// A value that is passed in two registers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TwoWords(u64, u64);

around! {
    /// `at::sequence_number::get_and_increment()`: called wherever a node is created.
    TorchCpu
    fn _ZN2at15sequence_number17get_and_incrementEv() -> u64;
    missing 0;
    with api, real;
    {
        let sequence = real();
        backward::made(sequence);
        sequence
    }
}

around! {
    /// `Engine::evaluate_function(graph_task, node, inputs, ready_queue)`: a node runs.
    TorchCpu
    fn _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE(
        engine, graph_task, node, inputs, ready_queue
    ) -> ();
    missing ();
    with api, real;
    {
        // SAFETY: PyTorch evaluates this node, before the function returns.
        let run = unsafe { backward::run(node as usize) };
        let running = backward::enter(&run);
        real();
        drop(running);
        gradients::ran(&run, api);
    }
}

around! {
    /// `Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs)`: backward. The first
    /// word is the address for the result.
    TorchCpu
    fn _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_(
        result, engine, roots, inputs, keep_graph, create_graph, accumulate_grad, outputs
    ) -> u64;
    missing result;
    with api, real;
    {
        let _backward = phases::backward(api);
        real()
    }
}

/// A hook of a PyTorch function that is called with nearly every operation and rarely matters. Unless `$skip`
/// jumps to label 2, it jumps to the real function, without recorder code after it and without counting. So a
/// call that does not matter costs a few instructions and no stack.
macro_rules! seldom {
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident),*);
        skip $($skip:expr),*;
        with $api:ident, $real:ident;
        $body:block
    ) => {
        entry! {
            TorchCpu Optional $name

            pub(super) unsafe extern "C-unwind" fn body($($arg: u64),*) {
                let caller = crate::caller::noted();
                let address = HOOK.real();
                if address == 0 {
                    return;
                }
                HOOK.called(caller.pc as usize);
                type Real = unsafe extern "C-unwind" fn($(word!($arg)),*);
                // SAFETY: the address is that of the function of this name, and these are the words of
                // its arguments.
                let function = unsafe { core::mem::transmute::<usize, Real>(address) };
                // SAFETY: the caller's own arguments.
                let $real = || unsafe { function($($arg),*) };
                let $api = ApiId(HOOK.id());
                $body
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function: the arguments go to it unchanged.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name($($arg: u64),*) {
            crate::caller::go_on_or_note!(
                $name::body, $name::HOOK, $($skip),*
            )
        }
    };
}

seldom! {
    /// `RecordFunction(scope)`: a scope is announced to the profiler. Only those of Python matter
    /// (`RecordScope::USER_SCOPE`).
    fn _ZN2at14RecordFunctionC1ENS_11RecordScopeE(this, scope);
    skip "cmp sil, 7", "je 2f";
    with api, real;
    {
        const USER: u8 = 7;
        if scope as u8 == USER {
            phases::announced(api, this);
        }
        real()
    }
}

seldom! {
    /// `RecordFunction::end()`: a scope has ended. It matters only if the thread is in a phase.
    fn _ZN2at14RecordFunction3endEv(this);
    skip phases::to_2_in_a_phase!();
    with api, real;
    {
        real();
        phases::ended(api, this);
    }
}

macro_rules! usages {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        around! {
            $(#[$doc])*
            PyTorch
            fn $name(event) -> ();
            missing ();
            with api, real;
            {
                // SAFETY: PyTorch passes a string.
                steps::used(unsafe { characters(event) });
                real()
            }
        }
    )*};
}

usages! {
    /// `c10::LogAPIUsage(event)`, called once in a process for each event, from Python among others.
    _ZN3c1011LogAPIUsageERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE;
    /// As above, in builds with the older form of C++'s strings (up to 2.5).
    _ZN3c1011LogAPIUsageERKSs;
}

/// The characters of a `std::string`: in both of its forms it begins with a pointer to them, and they end
/// with a NUL.
///
/// # Safety
/// `string` is the address of a live `std::string`.
unsafe fn characters<'a>(string: u64) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr((string as *const *const c_char).read()) }.to_bytes()
}

around! {
    /// `at::cuda::allocateCUDABlasWorkspace(size)`: its allocation from PyTorch's pool is a workspace.
    TorchCuda
    fn _ZN2at4cuda25allocateCUDABlasWorkspaceEm(result, size, third) -> TwoWords;
    missing TwoWords::default();
    with api, real;
    {
        let _workspace = workspace::enter();
        real()
    }
}

macro_rules! workspaces {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        around! {
            $(#[$doc])*
            TorchCuda
            fn $name() -> u64;
            missing 0;
            with api, real;
            {
                let _workspace = workspace::enter();
                real()
            }
        }
    )*};
}

workspaces! {
    /// `at::cuda::getCurrentCUDABlasHandle()`: allocates the handle's workspace from the pool if it has none yet
    /// (up to 2.11 at least; 2.15 has the function above for it).
    _ZN2at4cuda24getCurrentCUDABlasHandleEv;
    /// `at::cuda::getCUDABlasLtWorkspace()`: the same for cuBLASLt (2.9, 2.11).
    _ZN2at4cuda22getCUDABlasLtWorkspaceEv;
}
