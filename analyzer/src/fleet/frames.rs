//! The frames of a stack.

use gpumem_dataset::{Frame, Key};

use super::book::Book;
use crate::names::Names;
use crate::node_classes::class;
use crate::replay::StackKey;
use crate::stacks::{self, mixed};

/// A frame before hashing.
struct Plain {
    function: Function,
    file: Option<String>,
    line: Option<u32>,
    library: Option<String>,
}

/// A function, or what is shown instead of its name.
enum Function {
    Name(String),
    /// A node of autograd, by its class.
    Node(String),
    /// A library whose function is not known.
    Library,
    /// A note instead of a frame.
    Note(String),
}

impl Function {
    fn text<'a>(&'a self, library: &'a str) -> &'a str {
        match self {
            Self::Name(text) | Self::Node(text) | Self::Note(text) => text,
            Self::Library => library,
        }
    }
}

impl Book<'_> {
    /// The key and the frames of a stack, the outermost first.
    pub(super) fn frames_of(&mut self, names: &Names, stacks: StackKey) -> (Key, Vec<Frame>) {
        let mut plain = Vec::new();
        for frame in mixed(names, &mut self.symbols, stacks) {
            self.push(names, &frame, &mut plain);
        }
        let mut key = self.words.keyed("stack");
        for Plain {
            function,
            file,
            line,
            library,
        } in &plain
        {
            let library = library.as_deref().unwrap_or_default();
            key = key
                .with(function.text(library))
                .with(file.as_deref().unwrap_or_default())
                .with(&line.unwrap_or(0).to_string())
                .with(library);
        }
        let stack_key = key.key();
        let mut frames = Vec::with_capacity(plain.len());
        for (depth, frame) in plain.into_iter().enumerate() {
            let words = &mut self.words;
            let library = frame.library.as_deref().unwrap_or_default();
            frames.push(Frame {
                stack_key,
                depth: depth as i64,
                function: match &frame.function {
                    Function::Name(name) => words.name(name),
                    Function::Node(class) => {
                        let class = words.node(class);
                        words.plain(&format!("backward: {class}"))
                    }
                    Function::Library => words.library(library),
                    Function::Note(note) => words.plain(note),
                },
                file: frame.file.map(|file| words.name(&file)),
                line: frame.line.map(Into::into),
                library: frame.library.as_deref().map(|of| words.library(of)),
            });
        }
        (stack_key, frames)
    }

    fn push(&mut self, names: &Names, frame: &stacks::Frame, plain: &mut Vec<Plain>) {
        let without_place = |function| Plain {
            function,
            file: None,
            line: None,
            library: None,
        };
        match frame {
            stacks::Frame::Note(note) => {
                plain.push(without_place(Function::Note((*note).to_owned())));
            }
            stacks::Frame::Backward(node) => {
                plain.push(without_place(Function::Node(class(names.node(*node)))));
            }
            stacks::Frame::Python(frame) => {
                plain.push(match (names.codes.get(&frame.code), names.line(frame)) {
                    (Some(code), Some(line)) => Plain {
                        function: Function::Name(code.name.clone()),
                        file: Some(names.short_path(&code.file).to_owned()),
                        line: Some(line),
                        library: None,
                    },
                    _ => {
                        let note = "(Python function not in the capture)";
                        without_place(Function::Note(note.into()))
                    }
                });
            }
            stacks::Frame::Native(frame) => {
                let module = names
                    .module(frame)
                    .map(|module| module.basename().to_owned());
                let nameless = module.as_ref().map(|module| format!("{module}+0x"));
                for source in self.symbols.sources(names, frame) {
                    let is_nameless = nameless
                        .as_ref()
                        .is_some_and(|of| source.name.starts_with(of));
                    plain.push(Plain {
                        function: match is_nameless {
                            true => Function::Library,
                            false => Function::Name(source.name.to_string()),
                        },
                        file: Some(source.file.to_string()).filter(|file| !file.is_empty()),
                        line: Some(source.line).filter(|line| *line > 0),
                        library: module.clone(),
                    });
                }
            }
        }
    }
}
