//! Where a block is allocated, from PyTorch's own functions on its Python stack.

use gpumem_capture::{PyFrame, StackId};

use crate::names::Names;

/// The properties of a Python stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// It is a Python stack, and not that of an autograd node.
    pub(crate) is_python: bool,
    /// It is the stack of an autograd node.
    pub(crate) in_backward: bool,
    /// Within a call of a module; for a node: a call that began within the node.
    pub(crate) in_module: bool,
    /// Within the forward of a custom function (`torch.autograd.Function`).
    pub(crate) in_function: bool,
    /// Where a module makes or converts its parameters and buffers.
    pub(crate) makes_weights: bool,
}

impl Place {
    /// A stack without information.
    pub(crate) const NOWHERE: Self = Self {
        is_python: false,
        in_backward: false,
        in_module: false,
        in_function: false,
        makes_weights: false,
    };

    pub(crate) fn of(names: &Names, stack: StackId) -> Self {
        let mut place = Self::NOWHERE;
        let frames = match names.backwards.get(&stack) {
            Some(ran) => {
                place.in_backward = true;
                ran.newer_frames(names)
            }
            None => {
                let frames = names.py_stacks.get(&stack);
                place.is_python = frames.is_some();
                frames.map_or(&[][..], |(frames, _)| frames)
            }
        };
        for frame in frames {
            place.pass(names, frame);
        }
        place
    }

    fn pass(&mut self, names: &Names, frame: &PyFrame) {
        let Some(code) = names.codes.get(&frame.code) else {
            return;
        };
        let Some((_, file)) = code.file.rsplit_once("torch/") else {
            return;
        };
        // The name is qualified from Python 3.11 on.
        let name = code.name.rsplit('.').next().unwrap_or_default();
        match (file, name) {
            // Up to PyTorch 1.13 the second is the outer one, from 2.0 on the inner one.
            ("nn/modules/module.py", "_wrapped_call_impl" | "_call_impl") => self.in_module = true,
            ("nn/modules/module.py", "_apply") => self.makes_weights = true,
            ("autograd/function.py", "apply") => self.in_function = true,
            (_, "__init__" | "reset_parameters") if file.starts_with("nn/modules/") => {
                self.makes_weights = true;
            }
            _ => {}
        }
    }
}
