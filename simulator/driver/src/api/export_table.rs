//! The unnamed function tables that the runtime of CUDA 10.2 requests from the driver.
//!
//! Four tables are supported, each with the functions that this runtime was seen to call. Every
//! other table is refused. One of these is the table by which newer runtimes check that a driver is
//! NVIDIA's own: the simulator does not claim to be that.

use crate::ffi::{Answer, CuError, Handle, Out};
use crate::model::context::Stored;
use crate::model::ptx::Ptx;
use crate::model::state::state;
use gpumem_cuda_abi::{CuDevice, CuUuid};
use std::cell::UnsafeCell;

/// Context and modules, for `<<<>>>`.
const RUNTIME: [u8; 16] = uuid(0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9);
/// Two buffers that tools may use.
const TOOLS: [u8; 16] = uuid(0xa094_798c_2e74_2e74_93f2_0800_200c_0a66);
/// Requested by the runtime, but never called.
const UNUSED: [u8; 16] = uuid(0x42d8_5a81_23f6_cb47_8298_f6e7_8a3a_ecdc);
/// Context-local storage.
const STORAGE: [u8; 16] = uuid(0xc693_336e_1121_df11_a8c3_68f3_55d8_9593);

const fn uuid(number: u128) -> [u8; 16] {
    number.to_be_bytes()
}

/// A table: its size and its functions, as pointers.
struct Table<const N: usize>([Entry; N]);

#[derive(Clone, Copy)]
union Entry {
    bytes: usize,
    function: unsafe extern "C" fn(),
}

// SAFETY: the tables are constants and never written.
unsafe impl<const N: usize> Sync for Table<N> {}

macro_rules! function {
    ($function:path, fn($($argument:ty),*)) => {
        Entry {
            // SAFETY: the table's reader calls the entry with the parameters that the runtime of
            // CUDA 10.2 was seen to pass, which are those of the function.
            function: unsafe {
                std::mem::transmute::<extern "C" fn($($argument),*) -> Answer, unsafe extern "C" fn()>(
                    $function,
                )
            },
        }
    };
}

static RUNTIME_TABLE: Table<16> = Table({
    let mut entries = [function!(super::not_supported, fn()); 16];
    entries[0] = Entry { bytes: 16 * 8 };
    entries[2] = function!(retain_primary, fn(Out<Handle>, CuDevice));
    entries[6] = function!(load_module, fn(Out<Handle>, usize));
    entries[7] = function!(super::module::module_unload, fn(Handle));
    entries
});

static TOOLS_TABLE: Table<7> = Table({
    let mut entries = [function!(super::not_supported, fn()); 7];
    entries[0] = Entry { bytes: 7 * 8 };
    entries[2] = function!(tools_buffer, fn(Out<usize>, Out<usize>));
    entries[6] = function!(tools_flags, fn(Out<usize>, Out<usize>));
    entries
});

static UNUSED_TABLE: Table<4> = Table({
    let mut entries = [function!(super::not_supported, fn()); 4];
    entries[0] = Entry { bytes: 4 * 8 };
    entries
});

static STORAGE_TABLE: Table<3> = Table([
    function!(storage_put, fn(Handle, usize, usize, usize)),
    function!(storage_delete, fn(Handle, usize)),
    function!(storage_get, fn(Out<usize>, Handle, usize)),
]);

/// The table with this identifier, if it is one of the four.
pub fn by_id(id: &CuUuid) -> Option<usize> {
    match id.bytes {
        RUNTIME => Some(&raw const RUNTIME_TABLE as usize),
        TOOLS => Some(&raw const TOOLS_TABLE as usize),
        UNUSED => Some(&raw const UNUSED_TABLE as usize),
        STORAGE => Some(&raw const STORAGE_TABLE as usize),
        _ => None,
    }
}

/// The runtime calls this for every device when it starts, but a device that is never used gets no
/// context. So it takes a reference, and the context is created at its first use.
extern "C" fn retain_primary(context: Out<Handle>, device: CuDevice) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    context.put(state.contexts.refer_to_primary(device))
}

extern "C" fn load_module(module: Out<Handle>, _image: usize) -> Answer {
    super::module::load(module, Ptx::default())
}

/// Memory that the runtime may write to; zeroed, and never read here.
struct Scratch(UnsafeCell<[u8; 4096]>);

// SAFETY: this library only passes the address on; the runtime synchronises its own accesses.
unsafe impl Sync for Scratch {}

static BUFFER: Scratch = Scratch(UnsafeCell::new([0; 4096]));
static FLAGS: Scratch = Scratch(UnsafeCell::new([0; 4096]));

extern "C" fn tools_buffer(buffer: Out<usize>, count: Out<usize>) -> Answer {
    buffer.put(BUFFER.0.get() as usize)?;
    count.put(1024)
}

extern "C" fn tools_flags(buffer: Out<usize>, count: Out<usize>) -> Answer {
    buffer.put(FLAGS.0.get() as usize)?;
    count.put(14)
}

extern "C" fn storage_put(context: Handle, key: usize, value: usize, destructor: usize) -> Answer {
    let mut state = state()?;
    let context = state.context(context)?.context;
    let stored = Stored { value, destructor };
    state.contexts.get_mut(context)?.storage.insert(key, stored);
    Ok(())
}

extern "C" fn storage_delete(context: Handle, key: usize) -> Answer {
    let mut state = state()?;
    let context = state.context(context)?.context;
    state.contexts.get_mut(context)?.storage.remove(&key);
    Ok(())
}

extern "C" fn storage_get(value: Out<usize>, context: Handle, key: usize) -> Answer {
    value.put(stored(context, key)?)
}

fn stored(context: Handle, key: usize) -> Answer<usize> {
    let mut state = state()?;
    let context = state.context(context)?.context;
    let found = state.contexts.get(context)?.storage.get(&key);
    found
        .map(|stored| stored.value)
        .ok_or(CuError::INVALID_HANDLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_validity_check_is_refused() {
        let check = uuid(0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2);
        assert_eq!(by_id(&CuUuid { bytes: check }), None);
        assert!(by_id(&CuUuid { bytes: RUNTIME }).is_some());
    }
}
