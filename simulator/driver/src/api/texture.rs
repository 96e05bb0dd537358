//! Texture and surface objects: numbers, because kernels that would use them never run.

use crate::ffi::{Answer, Handle, Out, require};
use crate::model::state::state;
use std::sync::atomic::{AtomicU64, Ordering};

/// `cuTexObjectCreate`, `cuSurfObjectCreate`.
pub extern "C" fn create(out: Out<u64>, resource: Handle) -> Answer {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    require(!out.is_null() && resource != 0)?;
    state()?.bound()?;
    out.put(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// `cuTexObjectDestroy`, `cuSurfObjectDestroy`.
pub extern "C" fn destroy(_object: u64) -> Answer {
    state()?.current().map(drop)
}
