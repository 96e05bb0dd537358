//! The lines and stacks that rows refer to, each stored once.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpumem_capture::StackId;
use gpumem_dataset::{Frame, Key, Line};
use rustc_hash::FxHashMap;

use super::options::Options;
use super::words::Words;
use crate::attribution::{self, Owner};
use crate::names::Names;
use crate::render::Source;
use crate::replay::StackKey;
use crate::session::Session;
use crate::symbols::Symbols;

/// The lines and stacks that rows refer to.
pub(super) struct Book<'a> {
    pub words: Words<'a>,
    pub source: Source,
    has_text: bool,
    by_owner: FxHashMap<Owner, Key>,
    lines: BTreeMap<(Key, Option<i64>), Line>,
    pub(super) symbols: Symbols,
    pub(super) stacks: FxHashMap<(StackId, StackId), Key>,
    pub(super) frames: BTreeMap<Key, Vec<Frame>>,
}

impl<'a> Book<'a> {
    pub fn new(session: &Session, options: &'a Options) -> Self {
        Self {
            words: Words::new(options),
            source: Source::below_root(&session.replay.names, &session.header),
            // The text of a line contains the names that hashes replace.
            has_text: options.source_text && !options.hash_paths,
            by_owner: FxHashMap::default(),
            lines: BTreeMap::new(),
            symbols: Symbols::embedded(),
            stacks: FxHashMap::default(),
            frames: BTreeMap::new(),
        }
    }

    /// The key of an owner's line.
    pub fn line(&mut self, names: &Names, owner: &Owner) -> Key {
        if let Some(known) = self.by_owner.get(owner) {
            return *known;
        }
        let at = owner.line();
        let file = at.map(|at| names.short_path(&at.file));
        let function = at.map(|at| at.function.as_str());
        let text = at.map(|at| self.source.whole_line(&at.file, at.line).to_owned());
        let text = text.filter(|text| !text.is_empty());
        let what = match (&text, at) {
            (Some(text), _) => text.clone(),
            (None, Some(at)) => format!("#{}", at.line),
            (None, None) => owner.label(names),
        };
        let library = owner.library();
        let key = self
            .words
            .keyed("line")
            .with(file.unwrap_or_default())
            .with(function.unwrap_or_default())
            .with(&what)
            .with(owner.node().unwrap_or_default())
            .with(library.as_deref().unwrap_or_default())
            .with(if owner.is_workspace() {
                "workspace"
            } else {
                ""
            })
            .key();
        let shown = self.masked(names, owner);
        let words = &mut self.words;
        let line = Line {
            line_key: key,
            label: words.plain(&shown.label(names)),
            file: file.map(|file| words.name(file)),
            line: at.map(|at| at.line.into()),
            function: function.map(|function| words.name(function)),
            text: text
                .filter(|_| self.has_text)
                .map(|text| words.plain(&text)),
            node: owner.node().map(|node| words.node(node)),
            library: library.map(|library| words.library(&library)),
        };
        self.put(line);
        self.by_owner.insert(owner.clone(), key);
        key
    }

    /// The key of a placeholder without a line, by its label.
    pub fn no_line(&mut self, label: &str) -> Key {
        let key = self.words.keyed("line").with("").with("").with(label);
        let key = key.with("").with("").with("").key();
        let label = self.words.plain(label);
        self.put(Line {
            line_key: key,
            label,
            file: None,
            line: None,
            function: None,
            text: None,
            node: None,
            library: None,
        });
        key
    }

    fn put(&mut self, line: Line) {
        self.lines.entry((line.line_key, line.line)).or_insert(line);
    }

    /// The owner with hashes instead of names, if the options request hashes.
    fn masked(&mut self, names: &Names, owner: &Owner) -> Owner {
        if !self.words.are_hashed() {
            return owner.clone();
        }
        let words = &mut self.words;
        let text = |text: Arc<str>| text.to_string();
        match owner {
            Owner::Line(line, node) => {
                let masked = attribution::Line {
                    file: text(words.name(names.short_path(&line.file))),
                    relative: None,
                    line: line.line,
                    function: text(words.name(&line.function)),
                };
                Owner::Line(masked, node.as_ref().map(|node| text(words.node(node))))
            }
            Owner::Node { class, lost } => Owner::Node {
                class: text(words.node(class)),
                lost: *lost,
            },
            Owner::Library(library) => Owner::Library(text(words.library(library))),
            Owner::Workspace(of) => Owner::Workspace(Box::new(self.masked(names, of))),
            Owner::Unknown | Owner::Evicted | Owner::NotSampled => owner.clone(),
        }
    }

    /// The stack as reports show it: without native frames if it has Python frames.
    pub fn stack(&mut self, names: &Names, stacks: StackKey) -> Key {
        let has_python =
            names.py_stacks.contains_key(&stacks.py) || names.backwards.contains_key(&stacks.py);
        let native = match has_python {
            true => StackId::NONE,
            false => stacks.native,
        };
        if let Some(known) = self.stacks.get(&(stacks.py, native)) {
            return *known;
        }
        let (key, frames) = self.frames_of(names, StackKey { native, ..stacks });
        self.stacks.insert((stacks.py, native), key);
        self.frames.entry(key).or_insert(frames);
        key
    }

    /// All lines and frames.
    pub fn finish(self) -> (Vec<Line>, Vec<Frame>) {
        let frames = self.frames.into_values().flatten();
        (self.lines.into_values().collect(), frames.collect())
    }
}
