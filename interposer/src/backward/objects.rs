//! What is known of PyTorch's objects, for other readers of them.

pub(crate) use super::layout::{DATA_PATHS, DataPath};
pub(crate) use super::memory::{field, word};
pub(crate) use super::node::is_of_class;

/// The offset of the gradient in an `AutogradMeta`; None if it is not there. The pointer to the graph follows it.
pub(crate) fn gradient_at(autograd: usize) -> Option<usize> {
    // A vtable, a string, the gradient. The newer form of strings begins with the address of its characters, which are
    // inside the string if it is short. Parameters have no names here. The older form is one word.
    let newer_form = word(autograd.checked_add(8)?)? == autograd.checked_add(24)?;
    Some(if newer_form { 40 } else { 16 })
}
