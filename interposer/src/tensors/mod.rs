//! The live tensors. They are allocated and freed a thousand times as often as other memory and have a separate table,
//! which no other look-up uses. Other memory is in the tracker ([`gpumem_tracker`]).

mod line;
pub(crate) mod report;
pub(crate) mod roles;
mod table;

pub(crate) use table::{Tensor, Tensors};
