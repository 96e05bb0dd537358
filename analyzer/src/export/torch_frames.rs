//! Stacks as lists of frames in PyTorch's snapshots, the newest first. Each frame and each stack is written once.

use std::io::{self, Write};

use gpumem_capture::PyFrame;
use rustc_hash::FxHashMap;

use crate::names::{Names, NativeFrame};
use crate::node_classes::class;
use crate::pickle::{PickleWriter, Remembered};
use crate::replay::StackKey;
use crate::stacks::{Frame, mixed};
use crate::symbols::Symbols;
use gpumem_replay::NodeId;

/// The name, file and line of a frame.
struct Called {
    file: String,
    line: u64,
    name: String,
}

/// A frame that was written, by its origin. Inlined functions are counted from the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Python(PyFrame),
    Native(NativeFrame, usize),
    Backward(NodeId),
    Note(&'static str),
}

/// Writes stacks.
pub(super) struct Frames<'a> {
    names: &'a Names,
    symbols: &'a mut Symbols,
    stacks: FxHashMap<StackKey, Remembered>,
    parts: FxHashMap<Part, Remembered>,
}

impl<'a> Frames<'a> {
    pub fn new(names: &'a Names, symbols: &'a mut Symbols) -> Self {
        let frames = names.native_stacks.values();
        symbols.find(names, frames.flat_map(|(frames, _)| frames));
        Self {
            names,
            symbols,
            stacks: FxHashMap::default(),
            parts: FxHashMap::default(),
        }
    }

    /// Writes the list of a stack's frames.
    pub fn write(&mut self, key: StackKey, to: &mut PickleWriter<impl Write>) -> io::Result<()> {
        // The category is not part of the stack.
        let key = StackKey {
            py: key.py,
            native: key.native,
            ..StackKey::default()
        };
        if let Some(known) = self.stacks.get(&key) {
            return to.again(*known);
        }
        let mut list = to.begin_list()?;
        if key != StackKey::default() {
            for frame in mixed(self.names, self.symbols, key).iter().rev() {
                for (part, called) in self.called(frame) {
                    to.item(&mut list)?;
                    self.part(part, &called, to)?;
                }
            }
        }
        to.end_list(list)?;
        self.stacks.insert(key, to.remember()?);
        Ok(())
    }

    fn part(
        &mut self,
        part: Part,
        called: &Called,
        to: &mut PickleWriter<impl Write>,
    ) -> io::Result<()> {
        if let Some(known) = self.parts.get(&part) {
            return to.again(*known);
        }
        to.begin_dict()?;
        to.word("name")?;
        to.text(&called.name)?;
        to.word("filename")?;
        to.text(&called.file)?;
        to.word("line")?;
        to.int(called.line)?;
        to.end_dict()?;
        self.parts.insert(part, to.remember()?);
        Ok(())
    }

    /// The description of a frame; of a native one also of the functions inlined into it, the innermost first.
    fn called(&mut self, frame: &Frame) -> Vec<(Part, Called)> {
        let names = self.names;
        let no_place = |name: String| Called {
            file: "??".into(),
            line: 0,
            name,
        };
        match frame {
            Frame::Python(frame) => {
                let code = names.codes.get(&frame.code);
                let called = match code {
                    Some(code) => Called {
                        file: code.file.clone(),
                        line: u64::from(names.line(frame).unwrap_or(0)),
                        name: code.name.clone(),
                    },
                    None => no_place("(unknown Python function)".into()),
                };
                vec![(Part::Python(*frame), called)]
            }
            Frame::Native(frame) => {
                // As in PyTorch if no source is known: the library, and the address in it.
                let module = names.module(frame);
                let file = module.map_or("??", |module| &module.path);
                let bias = module.map_or(0, |module| module.bias);
                let line = frame.call_address().wrapping_sub(bias);
                let labels = self.symbols.labels(names, frame).iter().rev();
                let call = |(depth, label): (usize, &std::rc::Rc<str>)| {
                    let called = Called {
                        file: file.to_owned(),
                        line,
                        name: label.to_string(),
                    };
                    (Part::Native(*frame, depth), called)
                };
                labels.enumerate().map(call).collect()
            }
            Frame::Backward(node) => {
                let name = format!("backward: {}", class(names.node(*node)));
                vec![(Part::Backward(*node), no_place(name))]
            }
            Frame::Note(note) => vec![(Part::Note(note), no_place((*note).to_owned()))],
        }
    }
}
