//! Pages about a point in time, apart from its table.

mod account;
mod cause;
mod stacks;
mod text;

pub(crate) use account::account;
pub(crate) use cause::cause;
pub(crate) use stacks::stacks;
pub use text::{Kind, Page};
