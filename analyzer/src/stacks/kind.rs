//! What a frame is to the person who looks at a stack.

/// What a frame is. The numbers are those that the page for a browser has; they are never given to another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FrameKind {
    /// Python that the user wrote.
    Python = 0,
    /// Python of an installed package or the standard library.
    Library = 1,
    /// Native code; an operator of PyTorch's stands for all native frames that it ran through.
    Native = 2,
    /// A frame on the way from a call to what was called, Python or native: folded into its caller by default.
    Dispatch = 3,
    /// A node of autograd's ran.
    Backward = 4,
    /// Python of an optimizer.
    Optimizer = 5,
    /// Something that is said where frames should be.
    Note = 6,
    /// A device or a module, which stands for no call.
    Group = 7,
}

impl FrameKind {
    /// All, in the order in which they are explained.
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

    /// The page's number for it.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// What it is called.
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
