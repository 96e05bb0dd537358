//! User objects.

use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::state::state;
use crate::model::user_object::Ended;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, the only flag, which is required.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: u32 = 1;

/// `cuUserObjectCreate`.
pub extern "C" fn create(
    out: Out<Handle>,
    data: usize,
    destructor: Option<extern "C" fn(usize)>,
    references: u32,
    flags: u32,
) -> Answer {
    require(!out.is_null() && references > 0 && flags == NO_DESTRUCTOR_SYNC)?;
    let destructor = destructor.ok_or(CuError::INVALID_VALUE)?;
    let mut state = state()?;
    out.put(state.graphs.create_object(data, destructor, references))
}

/// `cuUserObjectRetain`.
pub extern "C" fn retain(object: Handle, count: u32) -> Answer {
    require(count > 0)?;
    state()?.graphs.retain_object(object, count)
}

/// `cuUserObjectRelease`: the last one calls the destructor, on this thread.
pub extern "C" fn release(object: Handle, count: u32) -> Answer {
    require(count > 0)?;
    let mut ended = Ended::default();
    let mut state = state()?;
    state.graphs.release_object(object, count, &mut ended)?;
    drop(state);
    ended.run();
    Ok(())
}

/// `cuGraphRetainUserObject`.
pub extern "C" fn graph_retain(graph: Handle, object: Handle, count: u32, flags: u32) -> Answer {
    require(count > 0 && flags & !MOVE == 0)?;
    let moved = flags & MOVE != 0;
    state()?.graphs.give_object(graph, object, count, moved)
}

/// `cuGraphReleaseUserObject`.
pub extern "C" fn graph_release(graph: Handle, object: Handle, count: u32) -> Answer {
    require(count > 0)?;
    let mut ended = Ended::default();
    let mut state = state()?;
    state.graphs.take_object(graph, object, count, &mut ended)?;
    drop(state);
    ended.run();
    Ok(())
}
