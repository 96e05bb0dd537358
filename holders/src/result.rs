//! What a walk finds.

use std::time::Duration;

use crate::limits::Cut;

/// What kind of object keeps blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An object with a name.
    Object,
    /// The parameters and buffers of a module.
    Parameters,
    /// The gradients of tensors, or of a module's parameters.
    Gradients,
    /// A graph for a backward that hangs on a tensor with a name.
    Graph,
    /// A frame that has ended, which an exception keeps.
    Traceback,
    /// Native code, or what a running call works with.
    Native,
    /// A cycle that nothing refers to: a collection frees it.
    Cycle,
}

impl Kind {
    /// All kinds, by their word in a capture.
    pub const WORDS: [(Self, &'static str); 7] = [
        (Self::Object, "object"),
        (Self::Parameters, "parameters"),
        (Self::Gradients, "gradients"),
        (Self::Graph, "graph"),
        (Self::Traceback, "traceback"),
        (Self::Native, "native"),
        (Self::Cycle, "cycle"),
    ];

    /// Its word in a capture.
    pub fn word(self) -> &'static str {
        let mut all = Self::WORDS.iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("", |(_, word)| word)
    }
}

/// Who keeps blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its kind.
    pub kind: Kind,
    /// As Python would write it: `metric.preds[0…213]`.
    pub text: String,
    /// Where that is: `local of main (train.py:31)`, `global of __main__`.
    pub place: String,
    /// Whether that is in the program's own code, not in an installed package.
    pub is_own: bool,
    /// The bytes of the blocks.
    pub bytes: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes that become free if the container is emptied, or the one reference is deleted: by the frame that has
    /// the variable, once the calls that it waits for have returned; where that is no variable of a frame, at once. What
    /// also has references from native code does not become free; what only a reference cycle keeps does, when it is
    /// collected. None if it is not known: of other kinds than objects and tracebacks, of holders after the first ones,
    /// and after a walk that was cut.
    pub frees: Option<u64>,
    /// The bytes of the blocks that the tensors are, if the tensors are views of larger ones to which no other object refers.
    pub covers: Option<u64>,
    /// The bytes of the blocks whose elements are float64.
    pub double: u64,
    /// Whether the place is that of functions that do not read again the variable with which the text begins, and no other
    /// reference to the tensors, or to that variable's object, is known: the functions could have deleted it before.
    pub unused: bool,
    /// Another container that has most of the tensors, and where it is: `second, global of __main__`. Only where `frees` is
    /// less than half of the bytes. Of graphs, one whose tensors have parts of most of them.
    pub also: Option<String>,
}

/// The result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// The holders, those with the most bytes first.
    pub holders: Vec<Holder>,
    /// The bytes of all blocks that have a holder, also one that is not in `holders`.
    pub bytes: u64,
    /// By block: the number of its holder in `holders`.
    pub blocks: Vec<(u64, u32)>,
    /// The collector's objects, and the references among them.
    pub objects: usize,
    /// See `objects`.
    pub references: usize,
    /// How long it took.
    pub time: Duration,
    /// Which bound ended it too early.
    pub cut: Option<Cut>,
}
