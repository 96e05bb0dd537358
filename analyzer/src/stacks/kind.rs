//! Kinds of frames for readers of a stack.

/// The kind of a frame. The web page uses these numbers; they are never reused for another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FrameKind {
    /// Python code of the user.
    Python = 0,
    /// Python of an installed package or the standard library.
    Library = 1,
    /// Native code. An operator of PyTorch represents all native frames below it.
    Native = 2,
    /// A frame between a call and the called function, Python or native: folded into its caller by default.
    Dispatch = 3,
    /// A node of autograd that ran.
    Backward = 4,
    /// Python of an optimizer.
    Optimizer = 5,
    /// A note instead of frames.
    Note = 6,
    /// A device or a module, which is not a call.
    Group = 7,
}

impl FrameKind {
    /// All kinds, in the order of legends.
    pub const ALL: [Self; 8] = [
        Self::Python,
        Self::Library,
        Self::Native,
        Self::Dispatch,
        Self::Backward,
        Self::Optimizer,
        Self::Note,
        Self::Group,
    ];

    /// The number in the web page.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "your Python",
            Self::Library => "installed Python",
            Self::Native => "native",
            Self::Dispatch => "dispatch",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Note => "not known",
            Self::Group => "GPU or module",
        }
    }
}
