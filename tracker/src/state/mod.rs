//! The data of the tracker, and operations on a single piece of it.

pub(crate) mod alias;
pub(crate) mod block;
pub(crate) mod code;
pub(crate) mod context;
pub(crate) mod ended;
pub(crate) mod evidence;
pub(crate) mod graph;
pub(crate) mod handle;
pub(crate) mod origin;
pub(crate) mod pages;
pub(crate) mod pending;
pub(crate) mod pool;
pub(crate) mod reservations;
pub(crate) mod residual;
