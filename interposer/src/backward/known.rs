//! How PyTorch lays out what stands between a node that accumulates a gradient and the two blocks: see
//! [`super::gradients`].

use std::sync::OnceLock;

use super::layout::DataPath;
use super::memory::field;

/// What the objects on the way look like in this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The table of virtual functions of `AccumulateGrad`.
    pub(super) node: usize,
    /// That of `TensorImpl`.
    pub(super) tensor: usize,
    /// That of `AutogradMeta`.
    pub(super) autograd: usize,
    pub(super) path: DataPath,
    /// Where an `AutogradMeta` has the gradient.
    pub(super) gradient: usize,
}

/// What is known of the way.
#[derive(Default)]
pub(super) struct Gradients(pub(super) OnceLock<Known>);

impl Known {
    /// Where the storage of a tensor begins; None for what is no tensor with a storage of its own.
    pub(super) fn data(&self, tensor: usize) -> Option<usize> {
        let [storage, data] = self.path;
        // SAFETY: what a node's variable and a leaf's gradient point at lives as long as they do; of the class that is
        // asked for it has a storage, which has data.
        unsafe {
            let is_tensor = field(tensor, 0)? == self.tensor;
            field(field(tensor, storage).filter(|_| is_tensor)?, data)
        }
    }

    /// The gradient of a leaf; None if it has none.
    pub(super) fn gradient(&self, variable: usize) -> Option<usize> {
        // SAFETY: as above; what autograd knows of a tensor is the tensor's own.
        unsafe {
            let is_tensor = field(variable, 0)? == self.tensor;
            let autograd = field(variable, self.path[0] + 8).filter(|_| is_tensor)?;
            let is_autograd = field(autograd, 0)? == self.autograd;
            field(autograd, self.gradient).filter(|_| is_autograd)
        }
    }
}
