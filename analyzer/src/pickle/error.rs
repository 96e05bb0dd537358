//! Why a pickle could not be read.

/// Why a pickle could not be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// It does not begin as a pickle of protocol 2 or later.
    #[error("not a pickle of protocol 2 to 5: {0}")]
    Foreign(&'static str),
    /// It would call a function or create an object of a class.
    #[error(
        "byte {offset}: opcode {opcode} would run code that the file names, which is not allowed: pickle only dicts, lists, numbers and strings, as torch.cuda.memory._dump_snapshot() does"
    )]
    Runs {
        /// The position of the opcode.
        offset: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// An opcode that no snapshot contains.
    #[error(
        "byte {offset}: opcode {code:#04x} does not occur in PyTorch's snapshots: write the snapshot again with torch.cuda.memory._dump_snapshot()"
    )]
    Unknown {
        /// Its position.
        offset: usize,
        /// Its code.
        code: u8,
    },
    /// The file ends within the pickle.
    #[error(
        "byte {offset}: the file ends within the pickle: copy it again from the machine that wrote it"
    )]
    CutOff {
        /// The position of the incomplete part.
        offset: usize,
    },
    /// It is inconsistent.
    #[error("byte {offset}: {what}: the file is damaged")]
    Malformed {
        /// Where.
        offset: usize,
        /// How it is inconsistent.
        what: &'static str,
    },
}
