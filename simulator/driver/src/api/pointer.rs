//! Attributes of pointers.

use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::State;
use crate::model::kind::Kind;
use crate::model::memory::{Allocation, Backing};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevicePtr;

/// `CUmemorytype`.
const HOST: i32 = 1;
const DEVICE: i32 = 2;

/// An attribute's value, in C's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Int(i32),
    Byte(u8),
    Wide(u64),
    Tokens([u64; 2]),
}

impl Value {
    fn put(self, out: Out<u64>) -> Answer {
        match self {
            Self::Int(value) => out.cast().put(value),
            Self::Byte(value) => out.cast().put(value),
            Self::Wide(value) => out.put(value),
            Self::Tokens(value) => out.cast().put(value),
        }
    }
}

/// The attribute of a pointer into an allocation.
fn of(state: &State, found: &Allocation, attribute: u32, pointer: u64) -> Answer<Value> {
    let flag = |condition: bool| Ok(Value::Int(i32::from(condition)));
    let owner = match found.context {
        0 => state.contexts.primary_handle(found.device),
        context => context,
    };
    match attribute {
        1 => Ok(Value::Wide(owner as u64)),
        2 => Ok(Value::Int(if found.is_host() { HOST } else { DEVICE })),
        3 => Ok(Value::Wide(pointer)),
        4 if found.is_host() || found.kind == Kind::Managed => Ok(Value::Wide(pointer)),
        4 => Err(CuError::INVALID_VALUE),
        5 => Ok(Value::Tokens([0; 2])),
        6 => flag(false),
        7 | 20 => Ok(Value::Wide(found.id)),
        8 => flag(found.kind == Kind::Managed),
        9 => Ok(Value::Int(found.device as i32)),
        10 => flag(
            matches!(found.backing, Backing::Pages { .. } | Backing::Small)
                && found.kind == Kind::Device,
        ),
        11 | 19 => Ok(Value::Wide(found.base)),
        12 | 18 => Ok(Value::Wide(found.bytes)),
        13 => flag(true),
        14 => Ok(Value::Wide(exportable(state, found))),
        15 | 21 => Ok(Value::Byte(0)),
        16 => Ok(Value::Int(found.access.flags() as i32)),
        17 => Ok(Value::Wide(match found.backing {
            Backing::Pool { pool } => pool as u64,
            _ => 0,
        })),
        _ => Err(CuError::INVALID_VALUE),
    }
}

fn exportable(state: &State, found: &Allocation) -> u64 {
    let handle = state.vmm.mapped_at(found.base);
    let physical = handle.and_then(|handle| state.vmm.get(handle));
    physical.map_or(0, |p| u64::from(p.properties.requested_handle_types))
}

/// The attribute of a pointer that the driver does not know, for `cuPointerGetAttributes`.
fn of_unknown(attribute: u32) -> Answer<Value> {
    match attribute {
        1 | 3 | 4 | 7 | 11 | 12 | 14 | 17..=20 => Ok(Value::Wide(0)),
        2 | 6 | 8 | 10 | 13 | 16 => Ok(Value::Int(0)),
        15 | 21 => Ok(Value::Byte(0)),
        5 => Ok(Value::Tokens([0; 2])),
        9 => Ok(Value::Int(-2)),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuPointerGetAttribute`: an unknown pointer is an error, except for the attribute `MAPPED`.
pub extern "C" fn get_attribute(data: Out<u64>, attribute: u32, pointer: CuDevicePtr) -> Answer {
    require(!data.is_null())?;
    let state = state()?;
    state.bound()?;
    match state.memory.holding(pointer.0) {
        Some(found) => of(&state, found, attribute, pointer.0)?.put(data),
        None if attribute == 13 => data.cast().put(0i32),
        None => Err(CuError::INVALID_VALUE),
    }
}

/// `cuPointerGetAttributes`: returns zeros for an unknown pointer, and succeeds.
pub extern "C" fn get_attributes(
    count: u32,
    attributes: In<u32>,
    data: In<Out<u64>>,
    pointer: CuDevicePtr,
) -> Answer {
    let attributes = attributes.list(count as usize)?;
    let places = data.list(count as usize)?;
    let state = state()?;
    state.bound()?;
    let found = state.memory.holding(pointer.0);
    for (attribute, place) in attributes.into_iter().zip(places) {
        let known = match found {
            Some(found) => of(&state, found, attribute, pointer.0).ok(),
            None => None,
        };
        match known {
            Some(value) => value.put(place)?,
            None => of_unknown(attribute)?.put(place)?,
        }
    }
    Ok(())
}

/// `cuPointerSetAttribute`: only `SYNC_MEMOPS` can be set, and copies are always synchronous.
pub extern "C" fn set_attribute(value: Handle, attribute: u32, pointer: CuDevicePtr) -> Answer {
    require(value != 0 && attribute == 6)?;
    let state = state()?;
    state.bound()?;
    require(state.memory.holding(pointer.0).is_some())
}
