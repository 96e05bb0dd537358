//! Modules and libraries. Any image loads, and contains any name. The declarations of PTX text are
//! read.

use crate::ffi::{Answer, CuError, Handle, Out, Text, require};
use crate::model::ptx::Ptx;
use crate::model::state::{machine, state};
use gpumem_cuda_abi::CuDevicePtr;
use std::ffi::{CStr, c_char};

/// Loads a module into the current context.
pub fn load(out: Out<Handle>, ptx: Ptx) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    let current = state.current()?;
    out.put(state.load_module(current, ptx)?)
}

/// The declarations of an image if it is PTX, which is detected by the first byte.
fn ptx_of(image: Handle) -> Ptx {
    // SAFETY: the caller's image, which has at least one byte.
    let first = unsafe { *(image as *const u8) };
    if !matches!(first, b'.' | b'/' | b' ' | b'\t' | b'\n' | b'\r') {
        return Ptx::default();
    }
    // SAFETY: PTX text ends with a zero byte.
    let text = unsafe { CStr::from_ptr(image as *const c_char) };
    Ptx::of(&text.to_string_lossy())
}

/// `cuModuleLoadData`, `cuModuleLoadDataEx`, `cuModuleLoadFatBinary`.
pub extern "C" fn module_load_data(out: Out<Handle>, image: Handle) -> Answer {
    require(image != 0)?;
    load(out, ptx_of(image))
}

/// `cuModuleLoad`.
pub extern "C" fn module_load(out: Out<Handle>, path: Text) -> Answer {
    readable(path)?;
    load(out, Ptx::default())
}

fn readable(path: Text) -> Answer {
    let path = path.get()?;
    // SAFETY: a terminated string from the caller.
    if unsafe { libc::access(path.as_ptr(), libc::R_OK) } != 0 {
        return Err(CuError::FILE_NOT_FOUND);
    }
    Ok(())
}

/// `cuModuleUnload`.
pub extern "C" fn module_unload(module: Handle) -> Answer {
    state()?.unload_module(module)
}

/// `cuModuleGetFunction`, `cuLibraryGetKernel`.
pub extern "C" fn get_function(out: Out<Handle>, module: Handle, name: Text) -> Answer {
    require(!out.is_null())?;
    let name = name.get()?;
    let mut state = state()?;
    let function = state.modules.function(module, name);
    out.put(function.ok_or(CuError::INVALID_HANDLE)?)
}

/// `cuModuleGetGlobal`, `cuLibraryGetGlobal`, `cuLibraryGetManaged`.
pub extern "C" fn get_global(
    pointer: Out<CuDevicePtr>,
    bytes: Out<usize>,
    module: Handle,
    name: Text,
) -> Answer {
    let name = name.get()?;
    let mut state = state()?;
    let current = state.current()?;
    let (base, size) = state.global(current, module, name)?;
    pointer.put_if_asked(CuDevicePtr(base));
    bytes.put_if_asked(size as usize);
    Ok(())
}

/// `cuModuleGetTexRef`, `cuModuleGetSurfRef`: a reference that all functions ignore.
pub extern "C" fn get_reference(out: Out<Handle>, module: Handle, name: Text) -> Answer {
    name.get()?;
    let known = state()?.modules.modules.get(module).is_some();
    if !known {
        return Err(CuError::INVALID_HANDLE);
    }
    out.put(module)
}

/// `cuTexRefCreate`: likewise.
pub extern "C" fn create_reference(out: Out<Handle>) -> Answer {
    out.put(0x5c_00ff_0000_1000)
}

/// `cuModuleGetLoadingMode`: lazy by default, see `CUDA_MODULE_LOADING`.
pub extern "C" fn get_loading_mode(mode: Out<u32>) -> Answer {
    mode.put(if machine().eager_loading { 1 } else { 2 })
}

/// `cuModuleGetFunctionCount`, `cuLibraryGetKernelCount`: 0, because code is not read.
pub extern "C" fn get_count(count: Out<u32>, module: Handle) -> Answer {
    let known = state()?.modules.modules.get(module).is_some();
    if !known {
        return Err(CuError::INVALID_HANDLE);
    }
    count.put(0)
}

/// `cuModuleEnumerateFunctions`, `cuLibraryEnumerateKernels`: likewise empty.
pub extern "C" fn enumerate(_functions: Out<Handle>, _room: u32, module: Handle) -> Answer {
    let known = state()?.modules.modules.get(module).is_some();
    if known {
        Ok(())
    } else {
        Err(CuError::INVALID_HANDLE)
    }
}

/// `cuLibraryLoadData`: needs no context.
pub extern "C" fn library_load_data(out: Out<Handle>, image: Handle) -> Answer {
    require(!out.is_null() && image != 0)?;
    out.put(state()?.load_library(ptx_of(image))?)
}

/// `cuLibraryLoadFromFile`.
pub extern "C" fn library_load_from_file(out: Out<Handle>, path: Text) -> Answer {
    require(!out.is_null())?;
    readable(path)?;
    out.put(state()?.load_library(Ptx::default())?)
}

/// `cuLibraryUnload`.
pub extern "C" fn library_unload(library: Handle) -> Answer {
    state()?.unload_module(library)
}

/// `cuLibraryGetModule`: one handle is used for both. Loads the library in the current context.
pub extern "C" fn library_get_module(out: Out<Handle>, library: Handle) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    state.bound()?;
    if state.modules.modules.get(library).is_none() {
        return Err(CuError::INVALID_HANDLE);
    }
    let current = state.current()?;
    state.need_module(library, current)?;
    out.put(library)
}
