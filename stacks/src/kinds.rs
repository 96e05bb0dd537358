//! Which stacks are taken.

/// Which stacks events carry (`GPUMEM_STACKS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// Both.
    #[default]
    Mixed,
    /// Python frames only.
    Python,
    /// Native frames only.
    Native,
    /// None.
    Off,
}

impl Stacks {
    /// Whether Python frames are wanted.
    pub fn python(self) -> bool {
        matches!(self, Self::Mixed | Self::Python)
    }

    /// Whether native frames are wanted.
    pub fn native(self) -> bool {
        matches!(self, Self::Mixed | Self::Native)
    }

    /// The name of the value in `GPUMEM_STACKS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Python => "python",
            Self::Native => "native",
            Self::Off => "off",
        }
    }

    /// The inverse of [`Stacks::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Mixed, Self::Python, Self::Native, Self::Off]
            .into_iter()
            .find(|stacks| stacks.name() == name)
    }
}
