//! The layout of the objects between a node that accumulates a gradient and the two blocks: see [`super::gradients`].

use std::sync::OnceLock;

use super::layout::DataPath;
use super::memory::field;

/// The classes and offsets of these objects in this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The vtable of `AccumulateGrad`.
    pub(super) node: usize,
    /// The vtable of `TensorImpl`.
    pub(super) tensor: usize,
    /// The vtable of `AutogradMeta`.
    pub(super) autograd: usize,
    pub(super) path: DataPath,
    /// The offset of the gradient in an `AutogradMeta`.
    pub(super) gradient: usize,
}

/// The known layout.
#[derive(Default)]
pub(super) struct Gradients(pub(super) OnceLock<Known>);

impl Known {
    /// The address of a tensor's storage; None for an object that is not a tensor with a storage.
    pub(super) fn data(&self, tensor: usize) -> Option<usize> {
        let [storage, data] = self.path;
        // SAFETY: a node's variable and a leaf's gradient live as long as the pointers to them; an object of the
        // checked class has a storage, which has data.
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
