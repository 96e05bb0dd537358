//! The table of offsets: one row for each minor version, and from 3.13 on what the interpreter says
//! itself in `_Py_DebugOffsets`.
//!
//! The rows were taken from CPython's headers (Include/cpython/{pystate,code,frame,unicodeobject}.h,
//! Include/internal/pycore_frame.h) and are tested by tests/test_python_frames.py on each of these
//! interpreters that is installed.

use super::layout::{
    Check, CodeLayout, Entry, FrameLayout, Instruction, InterpreterNumber, Layout, Newest,
    ObjectLayout,
};

/// Words of a `_Py_DebugOffsets` that [`with_debug_offsets`] reads at most.
pub(super) const DEBUG_OFFSETS_WORDS: usize = 81;

/// `_Py_Debug_Cookie`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// No structure that is read here is larger: an offset above is not believed.
const LARGEST_OFFSET: u64 = 4096;
/// But for the interpreter's state, which holds all that an interpreter has.
const LARGEST_INTERPRETER_OFFSET: u64 = 1 << 20;

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
const BEFORE_CODE: usize = 16;

/// 3.8 and 3.9; `f_lasti` counts bytes.
const PY_39: Layout = Layout {
    newest: Newest::Direct { frame: 24 },
    interpreter: None,
    frame: FrameLayout {
        previous: 24,
        code: 32,
        instruction: Instruction::Index { at: 104, unit: 1 },
        entry: Entry::Every,
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
        ..PY_39.frame
    },
    check: Check {
        frame_size: Some(360),
        ..PY_39.check
    },
    ..PY_39
};

const PY_311: Layout = Layout {
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
    },
    code: CODE_312,
    object: OBJECT_FROM_312,
    check: Check {
        code_size: 192,
        text_size: 64,
        frame_size: None,
    },
};

const PY_313: Layout = Layout {
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

const PY_314: Layout = Layout {
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
pub(super) const OLDEST: (u32, u32) = (3, 8);
/// See [`OLDEST`].
pub(super) const NEWEST: (u32, u32) = (3, 14);

/// The row of a minor version; None for one that this table does not know.
pub(super) fn row(minor: (u32, u32)) -> Option<Layout> {
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

/// Word numbers in `_Py_DebugOffsets`, which is laid out anew in each minor version.
struct Words {
    /// Of `interpreter_state`: id.
    interpreter_number: usize,
    /// Of `thread_state`: interp, current_frame.
    interpreter: usize,
    newest_frame: usize,
    /// Of `interpreter_frame`: previous, executable, instr_ptr, owner.
    frame: [usize; 4],
    /// Of `code_object`: filename, name, qualname, linetable, firstlineno, co_code_adaptive.
    code: [usize; 6],
    kind: usize,
    /// Of `bytes_object`: ob_size, ob_sval.
    bytes: [usize; 2],
    /// Of `unicode_object`: state, length, asciiobject_size.
    text: [usize; 3],
}

const WORDS_313: Words = Words {
    interpreter_number: 7,
    interpreter: 22,
    newest_frame: 23,
    frame: [29, 30, 31, 33],
    code: [35, 36, 37, 38, 39, 43],
    kind: 45,
    bytes: [65, 66],
    text: [68, 69, 70],
};

const WORDS_314: Words = Words {
    interpreter_number: 7,
    interpreter: 25,
    newest_frame: 26,
    frame: [32, 33, 34, 36],
    code: [40, 41, 42, 43, 44, 48],
    kind: 51,
    bytes: [75, 76],
    text: [78, 79, 80],
};

/// Why what the interpreter says of itself at the start of `_PyRuntime` is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// No cookie, the words of another version, or words that cannot be.
    Unknown,
    /// A free-threaded build.
    FreeThreaded,
}

/// Whether interpreters of this minor version have `_Py_DebugOffsets`.
pub(super) fn have_debug_offsets(minor: (u32, u32)) -> bool {
    minor >= (3, 13)
}

/// Puts what the interpreter says into its version's row.
pub(super) fn with_debug_offsets(
    words: &[u64; DEBUG_OFFSETS_WORDS],
    minor: (u32, u32),
) -> Result<Layout, Unusable> {
    let [cookie, version, free_threaded, ..] = *words;
    let said = (version >> 24) as u32 & 0xff;
    if cookie != COOKIE || (said, (version >> 16) as u32 & 0xff) != minor {
        return Err(Unusable::Unknown);
    }
    if free_threaded != 0 {
        return Err(Unusable::FreeThreaded);
    }
    let numbers = match minor {
        (3, 13) => WORDS_313,
        (3, 14) => WORDS_314,
        _ => return Err(Unusable::Unknown),
    };
    row(minor)
        .and_then(|layout| read(words, &numbers, layout))
        .ok_or(Unusable::Unknown)
}

fn read(words: &[u64; DEBUG_OFFSETS_WORDS], numbers: &Words, row: Layout) -> Option<Layout> {
    let below = |limit: u64, number: usize| {
        let offset = *words.get(number)?;
        (offset < limit).then_some(offset as usize)
    };
    let offset = |number: usize| below(LARGEST_OFFSET, number);
    let [previous, executable, instruction, owner] = numbers.frame;
    let [
        file,
        name,
        qualified_name,
        line_table,
        first_line,
        code_start,
    ] = numbers.code;
    let [bytes_len, bytes_data] = numbers.bytes;
    let [text_state, text_len, ascii_size] = numbers.text;
    let first_line = offset(first_line)?;
    let code_start = offset(code_start)?;
    let ascii_data = offset(ascii_size)?;
    Some(Layout {
        newest: Newest::Direct {
            frame: offset(numbers.newest_frame)?,
        },
        interpreter: Some(InterpreterNumber {
            interpreter: offset(numbers.interpreter)?,
            number: below(LARGEST_INTERPRETER_OFFSET, numbers.interpreter_number)?,
        }),
        frame: FrameLayout {
            previous: offset(previous)?,
            code: offset(executable)?,
            instruction: Instruction::Pointer {
                at: offset(instruction)?,
                code_start,
            },
            entry: Entry::Shim {
                owner: offset(owner)?,
            },
        },
        code: CodeLayout {
            file: offset(file)?,
            name: offset(name)?,
            qualified_name: Some(offset(qualified_name)?),
            first_line,
            line_table: offset(line_table)?,
            // Not among the words; it follows six ints after co_firstlineno in 3.12 to 3.14.
            version: Some(first_line + 24),
            first_traceable: Some(code_start.checked_sub(BEFORE_CODE)?),
        },
        object: ObjectLayout {
            kind: offset(numbers.kind)?,
            bytes_len: offset(bytes_len)?,
            bytes_data: offset(bytes_data)?,
            text_len: offset(text_len)?,
            text_state: offset(text_state)?,
            ascii_data,
            // PyCompactUnicodeObject adds the cached UTF-8's length and pointer.
            compact_data: ascii_data + 16,
            ..row.object
        },
        check: row.check,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as a real interpreter of this version has them.
    fn words(version: u64, numbers: &Words, layout: &Layout) -> [u64; DEBUG_OFFSETS_WORDS] {
        let mut words = [0; DEBUG_OFFSETS_WORDS];
        words[..2].copy_from_slice(&[COOKIE, version]);
        let Newest::Direct { frame } = layout.newest else {
            panic!()
        };
        let Instruction::Pointer { at, code_start } = layout.frame.instruction else {
            panic!()
        };
        let Entry::Shim { owner } = layout.frame.entry else {
            panic!()
        };
        let code = &layout.code;
        let object = &layout.object;
        let interpreter = layout.interpreter.unwrap();
        for (numbers, offsets) in [
            (&[numbers.newest_frame][..], &[frame][..]),
            (
                &[numbers.interpreter, numbers.interpreter_number],
                &[interpreter.interpreter, interpreter.number],
            ),
            (
                &numbers.frame,
                &[layout.frame.previous, layout.frame.code, at, owner],
            ),
            (
                &numbers.code,
                &[
                    code.file,
                    code.name,
                    code.qualified_name.unwrap(),
                    code.line_table,
                    code.first_line,
                    code_start,
                ],
            ),
            (&[numbers.kind], &[object.kind]),
            (&numbers.bytes, &[object.bytes_len, object.bytes_data]),
            (
                &numbers.text,
                &[object.text_state, object.text_len, object.ascii_data],
            ),
        ] {
            for (&number, &offset) in numbers.iter().zip(offsets) {
                words[number] = offset as u64;
            }
        }
        words
    }

    #[test]
    fn every_supported_version_has_a_row() {
        for minor in OLDEST.1..=NEWEST.1 {
            assert!(row((3, minor)).is_some(), "3.{minor}");
        }
        for minor in [(2, 7), (3, 7), (3, 15), (4, 8)] {
            assert!(row(minor).is_none(), "{minor:?}");
        }
    }

    #[test]
    fn debug_offsets_of_releases_equal_the_rows() {
        for (minor, numbers, layout) in [(13, &WORDS_313, PY_313), (14, &WORDS_314, PY_314)] {
            let words = words(0x0300_00f0 | minor << 16, numbers, &layout);
            let found = with_debug_offsets(&words, (3, minor as u32));
            assert_eq!(found, Ok(layout), "3.{minor}");
        }
    }

    #[test]
    fn debug_offsets_win_over_the_row() {
        let mut words = words(0x030d_00f0, &WORDS_313, &PY_313);
        words[WORDS_313.newest_frame] = 80;
        let Ok(layout) = with_debug_offsets(&words, (3, 13)) else {
            panic!()
        };
        assert_eq!(layout.newest, Newest::Direct { frame: 80 });
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let good = words(0x030d_00f0, &WORDS_313, &PY_313);
        let with = |at: usize, value: u64| {
            let mut words = good;
            words[at] = value;
            with_debug_offsets(&words, (3, 13))
        };
        assert_eq!(with(0, 1), Err(Unusable::Unknown));
        assert_eq!(with(1, 0x030e_00f0), Err(Unusable::Unknown));
        assert_eq!(with(2, 1), Err(Unusable::FreeThreaded));
        assert_eq!(with(WORDS_313.code[0], 1 << 40), Err(Unusable::Unknown));
        let number = WORDS_313.interpreter_number;
        assert_eq!(with(number, 1 << 40), Err(Unusable::Unknown));
    }
}
