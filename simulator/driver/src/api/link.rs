//! The linker of device code: takes anything and makes an image of nothing.

use crate::ffi::{Handle, Out, answer, require};
use crate::model::state::state;
use gpumem_cuda_abi::CuResult;

/// The linked image. Nobody looks at code here, but clients want bytes.
static IMAGE: [u8; 64] = [0; 64];

/// `cuLinkCreate`: options are ignored.
pub extern "C" fn create(
    _count: u32,
    _options: Handle,
    _values: Handle,
    out: Out<Handle>,
) -> CuResult {
    answer(|| {
        require(!out.is_null())?;
        let mut state = state()?;
        let context = state.current()?.context;
        out.put(state.modules.add(context))
    })
}

/// `cuLinkAddData`, `cuLinkAddFile`.
pub extern "C" fn add(linker: Handle) -> CuResult {
    answer(|| {
        let known = state()?.modules.modules.get(linker).is_some();
        if known {
            Ok(())
        } else {
            Err(CuResult::INVALID_HANDLE)
        }
    })
}

/// `cuLinkComplete`.
pub extern "C" fn complete(linker: Handle, image: Out<usize>, bytes: Out<usize>) -> CuResult {
    answer(|| {
        let known = state()?.modules.modules.get(linker).is_some();
        if !known {
            return Err(CuResult::INVALID_HANDLE);
        }
        image.put(IMAGE.as_ptr() as usize)?;
        bytes.put_if_asked(IMAGE.len());
        Ok(())
    })
}
