//! The tensors that are live. They come and go a thousand times as often as all else and have a table of their own: no other
//! look-up goes through it. All else is the tracker's ([`gpumem_tracker`]).

mod line;
pub(crate) mod report;
pub(crate) mod roles;
mod table;

pub(crate) use table::{Tensor, Tensors};
