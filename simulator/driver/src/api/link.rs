//! The linker of device code: it accepts any input and produces an empty image.

use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::ptx::Ptx;
use crate::model::state::state;

/// The linked image. Its contents are never read here, but clients expect bytes.
static IMAGE: [u8; 64] = [0; 64];

/// `cuLinkCreate`: options are ignored.
pub extern "C" fn create(
    _count: u32,
    _options: Handle,
    _values: Handle,
    out: Out<Handle>,
) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    let context = state.current()?.context;
    out.put(state.modules.add(context, Ptx::default(), 0))
}

/// `cuLinkAddData`, `cuLinkAddFile`.
pub extern "C" fn add(linker: Handle) -> Answer {
    let known = state()?.modules.modules.get(linker).is_some();
    if known {
        Ok(())
    } else {
        Err(CuError::INVALID_HANDLE)
    }
}

/// `cuLinkComplete`.
pub extern "C" fn complete(linker: Handle, image: Out<usize>, bytes: Out<usize>) -> Answer {
    let known = state()?.modules.modules.get(linker).is_some();
    if !known {
        return Err(CuError::INVALID_HANDLE);
    }
    image.put(IMAGE.as_ptr() as usize)?;
    bytes.put_if_asked(IMAGE.len());
    Ok(())
}
