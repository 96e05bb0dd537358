//! Descriptors whose settings have no effect on the simulation. Only their existence is stored.

use crate::objects::Objects;
use crate::status::{Status, status};
use gpumem_sim_client::ffi::Handle;

/// Activations.
pub static ACTIVATIONS: Objects<()> = Objects::new();

/// Poolings.
pub static POOLINGS: Objects<()> = Objects::new();

/// Spatial transformers.
pub static TRANSFORMERS: Objects<()> = Objects::new();

/// Makes a `Set` function for each table.
macro_rules! settable {
    ($($(#[$doc:meta])* $name:ident $table:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(descriptor: Handle) -> Status {
            status($table.set(descriptor, ()))
        }
    )*};
}

settable! {
    /// `cudnnSetActivationDescriptor`.
    set_activation ACTIVATIONS;
    /// `cudnnSetPooling2dDescriptor`, `cudnnSetPoolingNdDescriptor`.
    set_pooling POOLINGS;
    /// `cudnnSetSpatialTransformerNdDescriptor`.
    set_transformer TRANSFORMERS;
}
