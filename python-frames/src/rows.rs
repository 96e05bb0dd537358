//! The table of offsets: one row for each minor version.
//!
//! The rows were taken from CPython's headers (Include/cpython/{pystate,code,frame,unicodeobject}.h,
//! Include/internal/pycore_{frame,runtime}.h) and are tested by tests/test_python_frames.py on each of these
//! interpreters that is installed.

use super::layout::{
    Check, CodeLayout, Entry, FrameLayout, Instruction, InterpreterNumber, Layout, Newest,
    ObjectLayout,
};

/// Strings and bytes before 3.12 and since: the wide-character cache went away.
const OBJECT_TO_311: ObjectLayout = ObjectLayout {
    kind: 8,
    bytes_len: 16,
    bytes_data: 32,
    text_len: 16,
    text_hash: 24,
    text_state: 32,
    ascii_data: 48,
    compact_data: 72,
};
const OBJECT_FROM_312: ObjectLayout = ObjectLayout {
    ascii_data: 40,
    compact_data: 56,
    ..OBJECT_TO_311
};

const CODE_TO_310: CodeLayout = CodeLayout {
    file: 104,
    name: 112,
    qualified_name: None,
    first_line: 40,
    line_table: 120,
    version: None,
    first_traceable: None,
};
const CODE_311: CodeLayout = CodeLayout {
    file: 112,
    name: 120,
    qualified_name: Some(128),
    first_line: 72,
    line_table: 136,
    version: None,
    first_traceable: Some(184 - BEFORE_CODE),
};
const CODE_312: CodeLayout = CodeLayout {
    first_line: 68,
    version: Some(92),
    first_traceable: Some(192 - BEFORE_CODE),
    ..CODE_311
};

/// `_co_firsttraceable` and `co_extra` come last before the code, 8 bytes each with their padding.
pub(crate) const BEFORE_CODE: usize = 16;

/// 3.8 and 3.9; `f_lasti` counts bytes.
const PY_39: Layout = Layout {
    finalizing: 16,
    newest: Newest::Direct { frame: 24 },
    interpreter: None,
    frame: FrameLayout {
        previous: 24,
        code: 32,
        instruction: Instruction::Index { at: 104, unit: 1 },
        entry: Entry::Every,
        first_local: 360,
    },
    code: CODE_TO_310,
    object: OBJECT_TO_311,
    check: Check {
        code_size: 176,
        text_size: 80,
        frame_size: Some(368),
    },
};

/// `f_lasti` counts instructions of two bytes.
const PY_310: Layout = Layout {
    frame: FrameLayout {
        instruction: Instruction::Index { at: 96, unit: 2 },
        first_local: 352,
        ..PY_39.frame
    },
    check: Check {
        frame_size: Some(360),
        ..PY_39.check
    },
    ..PY_39
};

const PY_311: Layout = Layout {
    finalizing: 24,
    newest: Newest::CFrame {
        cframe: 56,
        frame: 8,
    },
    interpreter: None,
    frame: FrameLayout {
        previous: 48,
        code: 32,
        instruction: Instruction::Pointer {
            at: 56,
            code_start: 184,
        },
        entry: Entry::Flag { at: 68, owner: 69 },
        first_local: 72,
    },
    code: CODE_311,
    object: OBJECT_TO_311,
    check: Check {
        code_size: 184,
        text_size: 80,
        frame_size: None,
    },
};

const PY_312: Layout = Layout {
    finalizing: 24,
    newest: Newest::CFrame {
        cframe: 56,
        frame: 0,
    },
    interpreter: Some(InterpreterNumber {
        interpreter: 16,
        number: 8,
    }),
    frame: FrameLayout {
        previous: 8,
        code: 0,
        instruction: Instruction::Pointer {
            at: 56,
            code_start: 192,
        },
        entry: Entry::Shim { owner: 70 },
        first_local: 72,
    },
    code: CODE_312,
    object: OBJECT_FROM_312,
    check: Check {
        code_size: 192,
        text_size: 64,
        frame_size: None,
    },
};

pub(crate) const PY_313: Layout = Layout {
    finalizing: 608,
    newest: Newest::Direct { frame: 72 },
    interpreter: Some(InterpreterNumber {
        interpreter: 16,
        number: 7272,
    }),
    frame: FrameLayout {
        instruction: Instruction::Pointer {
            at: 56,
            code_start: 200,
        },
        ..PY_312.frame
    },
    code: CodeLayout {
        first_traceable: Some(200 - BEFORE_CODE),
        ..CODE_312
    },
    check: Check {
        code_size: 200,
        ..PY_312.check
    },
    ..PY_312
};

pub(crate) const PY_314: Layout = Layout {
    finalizing: 784,
    interpreter: Some(InterpreterNumber {
        interpreter: 16,
        number: 7280,
    }),
    frame: FrameLayout {
        instruction: Instruction::Pointer {
            at: 56,
            code_start: 208,
        },
        entry: Entry::Shim { owner: 74 },
        first_local: 80,
        ..PY_313.frame
    },
    code: CodeLayout {
        first_traceable: Some(208 - BEFORE_CODE),
        ..CODE_312
    },
    check: Check {
        code_size: 208,
        ..PY_313.check
    },
    ..PY_313
};

/// The oldest and newest minor version of the table.
pub(crate) const OLDEST: (u32, u32) = (3, 8);
/// See [`OLDEST`].
pub(crate) const NEWEST: (u32, u32) = (3, 14);

/// The row of a minor version; None if the table does not have it.
pub(crate) fn row(minor: (u32, u32)) -> Option<Layout> {
    Some(match minor {
        (3, 8 | 9) => PY_39,
        (3, 10) => PY_310,
        (3, 11) => PY_311,
        (3, 12) => PY_312,
        (3, 13) => PY_313,
        (3, 14) => PY_314,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_supported_version_has_a_row() {
        for minor in OLDEST.1..=NEWEST.1 {
            assert!(row((3, minor)).is_some(), "3.{minor}");
        }
        for minor in [(2, 7), (3, 7), (3, 15), (4, 8)] {
            assert!(row(minor).is_none(), "{minor:?}");
        }
    }
}
