//! The hooks, one family per file, and the macros that define them.

/// The table's entry of the hook of that name, in a module of that name, with the additions in `$inside`.
macro_rules! entry {
    ($home:ident $need:ident $name:ident $($inside:item)*) => {
        #[allow(non_snake_case)]
        pub(crate) mod $name {
            #[allow(unused_imports)]
            use super::*;

            // Hooks are found by this section: `crate::hook::all`.
            #[used]
            #[unsafe(link_section = "gpumem_hooks")]
            pub(crate) static HOOK: crate::hook::Hook = crate::hook::Hook::new(
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                crate::resolve::libraries::Home::$home,
                crate::hook::Need::$need,
                crate::hook::Code(super::$name as *const core::ffi::c_void),
            );

            $($inside)*
        }
    };
}

/// Defines a hook: its entry, and the exported function in front of the real one. The exported function only stores the
/// caller and jumps to the body. Without `after`, no recorder code follows the real call. `takes` is the maximum memory
/// that the call may take from a card: see [`crate::limit`].
macro_rules! hook {
    (
        $(#[$doc:meta])*
        $home:ident $need:ident
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;
        missing $missing:expr;
        $(takes $takes:expr;)?
        with $call:ident, $thread:ident, $result:ident, $held:ident;
        before $before:block
        $(after $after:block)?
    ) => {
        entry! {
            $home $need $name

            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe extern "C-unwind" fn body($($arg: $type),*) -> $ret {
                let caller = crate::caller::noted();
                let address = HOOK.real();
                if address == 0 {
                    return $missing;
                }
                type Real = unsafe extern "C-unwind" fn($($type),*) -> $ret;
                // SAFETY: the address is that of the function of this name, whose type this is.
                let real = unsafe { core::mem::transmute::<usize, Real>(address) };
                #[allow(unused_mut, unused_variables)]
                let mut $call = crate::call::Call::enter(&HOOK, caller);
                const ROLE: crate::call_times::Role = crate::call_times::role(stringify!($name));
                let mut timer = crate::call_timer::CallTimer::enter(ROLE);
                #[allow(unused_variables, clippy::let_unit_value)]
                let $held = crate::thread::in_hook(|$thread| $before);
                $(let limited = crate::limit::before(|| $takes, crate::contexts::is_inactive);)?
                timer.real_begins();
                // SAFETY: the caller's own arguments.
                #[allow(clippy::let_unit_value, clippy::let_and_return)]
                let $result = unsafe { real($($arg),*) };
                timer.real_returned(crate::call_timer::Returned::has_failed(&$result));
                if let Some(ran_out) = crate::call_timer::Returned::ran_out(&$result)
                    && !HOOK.is_question()
                {
                    crate::thread::with(|thread| thread.ran_out.set(ran_out));
                }
                $(
                    let _: &str = stringify!($takes);
                    drop(limited);
                )?
                $(
                    #[allow(unused_variables)]
                    let _ = crate::thread::in_hook(|$thread| $after);
                )?
                $result
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function: the arguments go to it unchanged.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            crate::caller::note_and_go_on!($name::body)
        }
    };
}

/// Defines a hook of a runtime function that calls hooked functions of the driver: it records the name that the program
/// called, and the caller.
macro_rules! named {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name($($arg: $type),*) -> gpumem_cuda_abi::CudaError;
            missing gpumem_cuda_abi::CudaError::INITIALIZATION_ERROR;
            with call, thread, result, held;
            before {}
        }
    )*};
}

/// A word that passes an argument.
macro_rules! word {
    ($argument:ident) => {
        u64
    };
}

/// The type of an argument: a word unless another type is given.
macro_rules! passed {
    () => {
        u64
    };
    ($other:ty) => {
        $other
    };
}

/// Defines a hook of a C++ function of PyTorch that belongs to no CUDA call: every argument and result is passed on as
/// register words. It surrounds the real function, which `$real` calls.
macro_rules! around {
    (
        $(#[$doc:meta])*
        $home:ident
        fn $name:ident($($arg:ident $(: $type:ty)?),*) -> $ret:ty;
        missing $missing:expr;
        with $api:ident, $real:ident;
        $body:block
    ) => {
        entry! {
            $home Optional $name

            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe extern "C-unwind" fn body($($arg: passed!($($type)?)),*) -> $ret {
                let caller = crate::caller::noted();
                let address = HOOK.real();
                if address == 0 {
                    return $missing;
                }
                HOOK.called(caller.pc as usize);
                type Real = unsafe extern "C-unwind" fn($(passed!($($type)?)),*) -> $ret;
                // SAFETY: the address is that of the function of this name, and these are the words of
                // its arguments and of its result.
                let function = unsafe { core::mem::transmute::<usize, Real>(address) };
                // SAFETY: the caller's own arguments.
                let $real = || unsafe { function($($arg),*) };
                #[allow(unused_variables)]
                let $api = gpumem_capture::ApiId(HOOK.id());
                $body
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function: the arguments go to it unchanged.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $name($($arg: passed!($($type)?)),*) -> $ret {
            crate::caller::note_and_go_on!($name::body)
        }
    };
}

pub(crate) mod address;
pub(crate) mod aliases;
pub(crate) mod allocator;
mod array_size;
pub(crate) mod arrays;
pub(crate) mod autograd;
mod blocks;
pub(crate) mod context;
mod contexts_seen;
pub(crate) mod graph_launches;
pub(crate) mod graphs;
pub(crate) mod green;
pub(crate) mod host_register;
pub(crate) mod legacy_contexts;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod multicast;
mod places;
pub(crate) mod pools;
pub(crate) mod proc_address;
pub(crate) mod pytorch;
pub(crate) mod questions;
pub(crate) mod refusals;
pub(crate) mod runtime;
pub(crate) mod runtime_arrays;
pub(crate) mod runtime_names;
pub(crate) mod sharing;
pub(crate) mod stream_ordered;
pub(crate) mod streams;
pub(crate) mod sync;
pub(crate) mod unrecorded;
pub(crate) mod vmm;
