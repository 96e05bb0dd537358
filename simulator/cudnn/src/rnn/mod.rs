//! Recurrent networks: the layout of their weights, and the sizes of their buffers.

mod data;
mod descriptor;
mod layout;
mod run;
mod sizes;

pub use data::{DATA, set as set_data};
pub use descriptor::{RNNS, set};
pub use layout::{weight_parameters, weight_space};
pub use run::{backward_data, backward_weights, forward};
pub use sizes::temporary;
