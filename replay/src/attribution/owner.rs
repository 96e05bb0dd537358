//! The owner of an allocation, and its text in tables.

use crate::names::Names;

/// A line of Python code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file, absolute ([`Names::absolute_path`]).
    pub file: String,
    /// The file relative to the program's folder, if it is below that.
    pub relative: Option<String>,
    /// Line number.
    pub line: u32,
    /// Qualified name of the function.
    pub function: String,
}

/// The owner of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A line of Python code. The class is that of the autograd node that allocated, if the line is from the node's
    /// forward.
    Line(Line, Option<String>),
    /// An autograd node whose forward has no known line.
    Node {
        /// The node's class.
        class: String,
        /// Whether there was such a line but the capture lost it.
        lost: bool,
    },
    /// Code without Python on its thread: the library that allocated.
    Library(String),
    /// Neither stack shows the owner.
    Unknown,
    /// Stacks that were evicted from a bounded capture.
    Evicted,
    /// Stacks that were not recorded because stacks are sampled.
    NotSampled,
    /// A cuBLAS workspace that was set up in a call by this owner.
    Workspace(Box<Owner>),
}

const WORKSPACE: &str = " (cuBLAS workspace)";

impl Owner {
    /// The owner as tables show it: `train.py:88`, `train.py:88 (backward: ConvolutionBackward0)`,
    /// `(no Python: libtorch_cuda.so)`.
    pub fn label(&self, names: &Names) -> String {
        match self {
            Self::Line(line, _) => {
                let place = names.short_path(&line.file);
                format!("{place}:{}{}", line.line, self.note())
            }
            Self::Node { class, lost: true } => format!("(backward: {class}, forward line lost)"),
            Self::Node { class, lost: false } => {
                format!("(backward: {class}, no Python in its forward)")
            }
            Self::Library(library) => format!("(no Python: {library})"),
            Self::Unknown => "(no stack)".into(),
            Self::Evicted => "(other stacks: bounded)".into(),
            Self::NotSampled => "(not sampled)".into(),
            Self::Workspace(of) => format!("{}{WORKSPACE}", of.label(names)),
        }
    }

    /// The owner whose figure is that of all its memory: of a line without the autograd node that allocated for it, and
    /// without cuBLAS. What it leaves out is the [note](Self::note).
    pub fn whole(self) -> Self {
        match self {
            Self::Line(line, _) => Self::Line(line, None),
            Self::Workspace(of) => of.whole(),
            other => other,
        }
    }

    /// The text after the line in the label.
    pub fn note(&self) -> String {
        match self {
            Self::Line(_, Some(class)) => format!(" (backward: {class})"),
            Self::Workspace(of) => format!("{}{WORKSPACE}", of.note()),
            Self::Line(_, None)
            | Self::Node { .. }
            | Self::Library(_)
            | Self::Unknown
            | Self::Evicted
            | Self::NotSampled => String::new(),
        }
    }

    /// The line, if known.
    pub fn line(&self) -> Option<&Line> {
        match self {
            Self::Line(line, _) => Some(line),
            Self::Workspace(of) => of.line(),
            Self::Node { .. }
            | Self::Library(_)
            | Self::Unknown
            | Self::Evicted
            | Self::NotSampled => None,
        }
    }

    /// The class of the autograd node that allocated for the line.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Line(_, class) => class.as_deref(),
            Self::Node { class, .. } => Some(class),
            Self::Workspace(of) => of.node(),
            Self::Library(_) | Self::Unknown | Self::Evicted | Self::NotSampled => None,
        }
    }

    /// Whether it is a cuBLAS workspace.
    pub fn is_workspace(&self) -> bool {
        matches!(self, Self::Workspace(_))
    }

    /// The library, if no Python line is known.
    pub fn library(&self) -> Option<String> {
        match self {
            Self::Library(library) => Some(library.clone()),
            Self::Workspace(of) => of.library(),
            Self::Line(..)
            | Self::Node { .. }
            | Self::Unknown
            | Self::Evicted
            | Self::NotSampled => None,
        }
    }

    /// The function; empty if there is no line.
    pub fn function(&self) -> &str {
        self.line().map_or("", |line| &line.function)
    }
}
