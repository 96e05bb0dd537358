//! The context that a thread uses.

use gpumem_sim_client::ffi::Handle;

/// The context that a thread uses, as the runtime last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The context; 0 for none.
    pub context: Handle,
    /// How many resets there had been.
    pub resets: u64,
}

impl Bound {
    /// A thread that has not used CUDA.
    pub const NOTHING: Self = Self {
        context: 0,
        resets: 0,
    };
}
