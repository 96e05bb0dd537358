//! Mixed stacks for display: each frame with its label and its kind.
//!
//! Only this module decides which frames are dispatch. Views fold these into their callers:
//!
//! - Python functions that only pass a call on (`python_code.rs`).
//! - Native frames of PyTorch's own libraries, except the outermost operator, which is shown by its name
//!   (`aten::conv2d`).
//! - Below Python or a node of autograd: native frames of installed libraries, except the outermost, which names the
//!   library's function (`cublasCreate_v2`); and frames of libraries below every call (the C library, CUDA's
//!   runtime).
//!
//! Native frames of the user's own code are kept. A stack with dispatch only keeps one frame.

use std::rc::Rc;

use gpumem_capture::{CodeId, PyFrame};

use super::frame::{Frame, OUT_OF_STEP};
use super::kind::FrameKind;
use super::mixed;
use super::native_code::{Code, code, is_binding, is_framework, operator};
use super::python_code::python_kind;
use crate::attribution::Owner;
use crate::names::Names;
use crate::node_classes::class;
use crate::replay::{NodeId, StackKey};
use crate::symbols::Symbols;

/// A frame for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// The label.
    pub label: Rc<str>,
    /// The label where dispatch is folded, if it is different.
    pub operator: Option<Rc<str>>,
    /// The kind.
    pub kind: FrameKind,
    /// The code object and the line of a Python frame.
    pub line: Option<(CodeId, u32)>,
}

impl Labelled {
    fn new(label: impl Into<Rc<str>>, kind: FrameKind) -> Self {
        Self {
            label: label.into(),
            operator: None,
            kind,
            line: None,
        }
    }

    /// The label where dispatch is folded.
    pub fn folded_label(&self) -> &Rc<str> {
        self.operator.as_ref().unwrap_or(&self.label)
    }

    /// A note instead of frames.
    pub fn note(label: impl Into<Rc<str>>) -> Self {
        Self::new(label, FrameKind::Note)
    }

    /// The owner of bytes, as in tables.
    pub fn of_owner(names: &Names, owner: &Owner) -> Self {
        let kind = match owner.line() {
            Some(line) => match python_kind(names, &line.file, &line.function) {
                FrameKind::Dispatch => FrameKind::Library,
                kind => kind,
            },
            None => FrameKind::Note,
        };
        Self::new(owner.label(names), kind)
    }

    /// A device or a module.
    pub fn group(label: impl Into<Rc<str>>) -> Self {
        Self::new(label, FrameKind::Group)
    }
}

/// The stack of an allocation, the oldest frame first. Functions that are inlined into a native frame follow it.
pub fn labelled(names: &Names, symbols: &mut Symbols, stacks: StackKey) -> Vec<Labelled> {
    let frames = mixed(names, symbols, stacks);
    of_frames(names, symbols, &frames)
}

/// The labels of a frame; of a native one also those of functions inlined into it, the oldest first.
pub fn labels(names: &Names, symbols: &mut Symbols, frame: &Frame) -> Vec<Rc<str>> {
    let one = match frame {
        Frame::Native(frame) => return symbols.labels(names, frame).to_vec(),
        Frame::Python(frame) => python(names, frame),
        Frame::Backward(node) => backward(names, *node),
        Frame::Note(note) => Labelled::note(*note),
    };
    vec![one.label]
}

fn of_frames(names: &Names, symbols: &mut Symbols, frames: &[Frame]) -> Vec<Labelled> {
    let mut out = Vec::with_capacity(frames.len());
    let mut native = NativeRun::default();
    for frame in frames {
        let other = match frame {
            Frame::Native(frame) => {
                let code = code(names.module(frame));
                native.push(code, symbols.labels(names, frame), &mut out);
                continue;
            }
            Frame::Python(frame) => python(names, frame),
            Frame::Backward(node) => backward(names, *node),
            // The note is only useful where native frames are shown.
            Frame::Note(note) if *frame == OUT_OF_STEP => Labelled::new(*note, FrameKind::Dispatch),
            Frame::Note(note) => Labelled::note(*note),
        };
        match other.kind {
            // It passes on the same call, so the run of native frames continues.
            FrameKind::Dispatch => native.is_called = true,
            _ => native.end(!matches!(frame, Frame::Note(_)), &mut out),
        }
        out.push(other);
    }
    native.end(false, &mut out);
    keep_one(&mut out);
    out
}

fn python(names: &Names, frame: &PyFrame) -> Labelled {
    let (Some(code), Some(line)) = (names.codes.get(&frame.code), names.line(frame)) else {
        return Labelled::note("(Python function not in the capture)");
    };
    let label = format!("{} ({}:{line})", code.name, names.short_path(&code.file));
    Labelled {
        line: Some((frame.code, line)),
        ..Labelled::new(label, python_kind(names, &code.file, &code.name))
    }
}

fn backward(names: &Names, node: NodeId) -> Labelled {
    let label = format!("backward: {}", class(names.node(node)));
    Labelled::new(label, FrameKind::Backward)
}

/// Consecutive native frames, the oldest first.
#[derive(Default)]
struct NativeRun {
    /// Whether Python or a node of autograd called them.
    is_called: bool,
    /// The kind of code of the newest kept frame; `None` if no frame is kept yet.
    kept: Option<Code>,
    /// Whether that is an operator.
    in_operator: bool,
    /// The oldest of PyTorch's frames since then, if none of them is an operator.
    unnamed: Option<usize>,
}

impl NativeRun {
    /// Ends the run before another frame. `is_call`: whether that frame calls the next native frames.
    fn end(&mut self, is_call: bool, out: &mut [Labelled]) {
        self.name(out);
        *self = Self {
            is_called: self.is_called || is_call,
            ..Self::default()
        };
    }

    /// Keeps one of PyTorch's frames if neither Python nor a node called the run.
    fn name(&mut self, out: &mut [Labelled]) {
        let unnamed = self.unnamed.take().filter(|_| !self.is_called);
        if let Some(frame) = unnamed.and_then(|unnamed| out.get_mut(unnamed)) {
            frame.kind = FrameKind::Native;
        }
    }

    /// Adds a frame with its labels.
    fn push(&mut self, code: Code, labels: &[Rc<str>], out: &mut Vec<Labelled>) {
        for label in labels {
            // Captures of other profilers may not contain the libraries of frames.
            let code = match code {
                Code::Installed if is_framework(label) => Code::Framework,
                code => code,
            };
            let mut frame = Labelled::new(Rc::clone(label), FrameKind::Dispatch);
            let operator = match code {
                Code::Framework if !self.in_operator => operator(label),
                _ => None,
            };
            let stays = operator.is_some()
                || match code {
                    Code::Framework => false,
                    Code::Own => !(self.is_called && is_binding(label)),
                    Code::Installed => {
                        !self.is_called
                            || (self.kept != Some(Code::Installed) && !is_binding(label))
                    }
                    Code::Underneath => !self.is_called,
                };
            if operator.is_some() {
                self.unnamed = None;
            } else if stays {
                self.name(out);
            } else if code == Code::Framework && !self.in_operator {
                self.unnamed.get_or_insert(out.len());
            }
            if stays {
                frame.kind = FrameKind::Native;
                self.in_operator = operator.is_some();
                self.kept = Some(code);
                frame.operator = operator.map(Rc::from);
            }
            out.push(frame);
        }
    }
}

/// If all frames are dispatch, keeps the newest Python frame, else the oldest frame.
fn keep_one(frames: &mut [Labelled]) {
    if frames.iter().any(|frame| frame.kind != FrameKind::Dispatch) {
        return;
    }
    let python = frames.iter().rposition(|frame| frame.line.is_some());
    if let Some(frame) = frames.get_mut(python.unwrap_or(0)) {
        frame.kind = match frame.line {
            Some(_) => FrameKind::Library,
            None => FrameKind::Native,
        };
    }
}

#[cfg(test)]
mod tests;
