//! Mixed stacks as they are shown: each frame with its label and its kind.
//!
//! This is the one place that decides which frames are dispatch, which views fold into their callers:
//!
//! - Python functions that only pass a call on (`python_code.rs`).
//! - Native frames of PyTorch's own libraries. The outermost operator stays, under its name (`aten::conv2d`).
//! - Below Python or a node of autograd's also native frames of installed libraries, but for the outermost, which names the
//!   library's function (`cublasCreate_v2`), and what every call goes through (the C library, CUDA's runtime).
//!
//! Native frames of the user's own code stay. A stack of which nothing would stay keeps one frame.

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

/// A frame as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// What it is called.
    pub label: Rc<str>,
    /// What it is called where dispatch is folded, if it is another name.
    pub operator: Option<Rc<str>>,
    /// What it is.
    pub kind: FrameKind,
    /// The code object and the line that a Python frame was at.
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

    /// What it is called where dispatch is folded.
    pub fn folded_label(&self) -> &Rc<str> {
        self.operator.as_ref().unwrap_or(&self.label)
    }

    /// Something that is said where frames should be.
    pub fn note(label: impl Into<Rc<str>>) -> Self {
        Self::new(label, FrameKind::Note)
    }

    /// Who owns bytes, as tables have it.
    pub fn of_owner(names: &Names, owner: &Owner) -> Self {
        let kind = match owner.line() {
            Some(line) => match python_kind(&line.file, &line.function) {
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

/// The stack that an allocation was made on, the oldest frame first, each native frame with what is inlined into it.
pub fn labelled(names: &Names, symbols: &mut Symbols, stacks: StackKey) -> Vec<Labelled> {
    let frames = mixed(names, symbols, stacks);
    of_frames(names, symbols, &frames)
}

/// What a frame is called; a native one with what is inlined into it, the oldest first.
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
            // Only who sees native frames misses those.
            Frame::Note(note) if *frame == OUT_OF_STEP => Labelled::new(*note, FrameKind::Dispatch),
            Frame::Note(note) => Labelled::note(*note),
        };
        match other.kind {
            // What it passes on is still what was asked for before.
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
        ..Labelled::new(label, python_kind(&code.file, &code.name))
    }
}

fn backward(names: &Names, node: NodeId) -> Labelled {
    let label = format!("backward: {}", class(names.node(node)));
    Labelled::new(label, FrameKind::Backward)
}

/// Native frames that follow each other, from the oldest on.
#[derive(Default)]
struct NativeRun {
    /// Whether Python or a node of autograd's called them.
    is_called: bool,
    /// Whose code the newest frame that stays is; none: none stays yet.
    kept: Option<Code>,
    /// Whether that is an operator.
    in_operator: bool,
    /// The oldest of PyTorch's frames since then, if none of them was an operator.
    unnamed: Option<usize>,
}

impl NativeRun {
    /// Other frames come; whether they say who calls what follows.
    fn end(&mut self, is_call: bool, out: &mut [Labelled]) {
        self.name(out);
        *self = Self {
            is_called: self.is_called || is_call,
            ..Self::default()
        };
    }

    /// Where nothing but native frames says who called, PyTorch is named at least.
    fn name(&mut self, out: &mut [Labelled]) {
        let unnamed = self.unnamed.take().filter(|_| !self.is_called);
        if let Some(frame) = unnamed.and_then(|unnamed| out.get_mut(unnamed)) {
            frame.kind = FrameKind::Native;
        }
    }

    /// Takes a frame with its labels.
    fn push(&mut self, code: Code, labels: &[Rc<str>], out: &mut Vec<Labelled>) {
        for label in labels {
            // A capture that another profiler made may not say where its frames lie.
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

/// A stack of which nothing would stay keeps its newest Python frame, else its oldest.
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
