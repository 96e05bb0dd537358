//! Where CPython keeps the data that a walk needs: byte offsets into its structures, for one minor version.
//!
//! 64-bit builds with the GIL. The numbers themselves are in `rows.rs`.

/// Offsets of one minor version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The word in `_PyRuntime` that is not 0 while the interpreter is finalizing, and after that.
    pub(crate) finalizing: usize,
    /// The way from a thread state to its newest frame.
    pub(crate) newest: Newest,
    /// The path from a thread state to its interpreter's number, in versions where each interpreter numbers its code
    /// objects separately: from 3.12.
    pub(crate) interpreter: Option<InterpreterNumber>,
    pub(crate) frame: FrameLayout,
    pub(crate) code: CodeLayout,
    pub(crate) object: ObjectLayout,
    /// The values that the interpreter must report for these offsets to apply.
    pub(crate) check: Check,
}

/// The way from a `PyThreadState` to the newest frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// A pointer in the thread state.
    Direct { frame: usize },
    /// A pointer in the `_PyCFrame` that the thread state points to.
    CFrame { cframe: usize, frame: usize },
}

/// `PyInterpreterState::id`: 0 in the main interpreter, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterpreterNumber {
    /// The pointer to the interpreter in the thread state.
    pub(crate) interpreter: usize,
    /// The number in the interpreter.
    pub(crate) number: usize,
}

/// `PyFrameObject` (to 3.10), `_PyInterpreterFrame` (from 3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    pub(crate) previous: usize,
    /// The code object; tagged in its two lowest bits from 3.14.
    pub(crate) code: usize,
    pub(crate) instruction: Instruction,
    pub(crate) entry: Entry,
    /// The first local variable, a function's first argument (`f_localsplus[0]`, `localsplus[0]`); tagged in its two
    /// lowest bits from 3.14.
    pub(crate) first_local: usize,
}

/// How a frame stores its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// An int at `at`, `unit` bytes each, from the start of the code.
    Index { at: usize, unit: i32 },
    /// A pointer at `at` into the code object, whose code starts at `code_start`.
    Pointer { at: usize, code_start: usize },
}

/// How to identify the frames that C code entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// All: each Python call runs the evaluation function recursively.
    Every,
    /// Those with a byte at `at` that is not 0. The byte at `owner` identifies the frame's owner.
    Flag { at: usize, owner: usize },
    /// Those whose next older frame is a shim, that is, has an `owner` byte of [`SHIM_OWNER`] or more.
    Shim { owner: usize },
}

/// `FRAME_OWNED_BY_CSTACK` of 3.12 and 3.13, `FRAME_OWNED_BY_INTERPRETER` of 3.14: a frame of the
/// evaluation function itself, with no Python code.
pub(crate) const SHIM_OWNER: u8 = 3;

/// `FRAME_OWNED_BY_GENERATOR`, from 3.11.
pub(crate) const GENERATOR_OWNER: u8 = 1;

/// The address in a reference, without its tag bits (3.14's `_PyStackRef`).
pub(crate) const TAG_MASK: usize = !3;

/// `PyCodeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeLayout {
    pub(crate) file: usize,
    pub(crate) name: usize,
    /// From 3.11.
    pub(crate) qualified_name: Option<usize>,
    pub(crate) first_line: usize,
    pub(crate) line_table: usize,
    /// From 3.12: a number that no other code object of the same interpreter has had, or 0 once the numbers have run
    /// out.
    pub(crate) version: Option<usize>,
    /// From 3.11: the number of instructions before the first one of the function itself. The interpreter does not
    /// show frames at these instructions: a call of a class runs its `__init__` from one.
    pub(crate) first_traceable: Option<usize>,
}

/// `PyObject`, `PyBytesObject` and the string objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectLayout {
    pub(crate) kind: usize,
    pub(crate) bytes_len: usize,
    pub(crate) bytes_data: usize,
    pub(crate) text_len: usize,
    pub(crate) text_hash: usize,
    pub(crate) text_state: usize,
    /// Where the characters of a compact ASCII string begin.
    pub(crate) ascii_data: usize,
    /// Where those of other compact strings begin, and where non-compact strings keep the pointer to theirs.
    pub(crate) compact_data: usize,
}

/// `tp_basicsize` of a few types: other values mean other structures, such as those of a build with
/// `--with-trace-refs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) code_size: usize,
    pub(crate) text_size: usize,
    /// For frame objects, in versions where the walk reads those.
    pub(crate) frame_size: Option<usize>,
}

/// Offsets in `PyTypeObject`, the same in all versions without `--with-trace-refs`.
pub(crate) mod type_object {
    /// `tp_name`, a string that ends with a zero.
    pub(crate) const NAME: usize = 24;
    pub(crate) const BASIC_SIZE: usize = 32;
    pub(crate) const FLAGS: usize = 168;
    /// `Py_TPFLAGS_BYTES_SUBCLASS`.
    pub(crate) const IS_BYTES: u64 = 1 << 27;
    /// `Py_TPFLAGS_UNICODE_SUBCLASS`.
    pub(crate) const IS_TEXT: u64 = 1 << 28;
}
