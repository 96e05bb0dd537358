//! The offsets that an interpreter publishes, from 3.13 on: `_Py_DebugOffsets`, at the start of `_PyRuntime`.

use super::layout::{
    CodeLayout, Entry, FrameLayout, Instruction, InterpreterNumber, Layout, Newest, ObjectLayout,
};
use super::rows::{self, BEFORE_CODE};

/// The maximum number of words of a `_Py_DebugOffsets` that [`with_debug_offsets`] reads.
pub(crate) const DEBUG_OFFSETS_WORDS: usize = 81;

/// `_Py_Debug_Cookie`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// The structures that are read here are smaller than this; larger offsets are rejected.
const LARGEST_OFFSET: u64 = 4096;
/// The limit for the interpreter's state, which holds all data of an interpreter.
const LARGEST_INTERPRETER_OFFSET: u64 = 1 << 20;

/// Word numbers in `_Py_DebugOffsets`, whose layout changes with each minor version.
struct Words {
    /// Of `runtime_state`: finalizing.
    finalizing: usize,
    /// Of `interpreter_state`: id.
    interpreter_number: usize,
    /// Of `thread_state`: interp, current_frame.
    interpreter: usize,
    newest_frame: usize,
    /// Of `interpreter_frame`: previous, executable, instr_ptr, localsplus, owner.
    frame: [usize; 5],
    /// Of `code_object`: filename, name, qualname, linetable, firstlineno, co_code_adaptive.
    code: [usize; 6],
    kind: usize,
    /// Of `bytes_object`: ob_size, ob_sval.
    bytes: [usize; 2],
    /// Of `unicode_object`: state, length, asciiobject_size.
    text: [usize; 3],
}

const WORDS_313: Words = Words {
    finalizing: 4,
    interpreter_number: 7,
    interpreter: 22,
    newest_frame: 23,
    frame: [29, 30, 31, 32, 33],
    code: [35, 36, 37, 38, 39, 43],
    kind: 45,
    bytes: [65, 66],
    text: [68, 69, 70],
};

const WORDS_314: Words = Words {
    finalizing: 4,
    interpreter_number: 7,
    interpreter: 25,
    newest_frame: 26,
    frame: [32, 33, 34, 35, 36],
    code: [40, 41, 42, 43, 44, 48],
    kind: 51,
    bytes: [75, 76],
    text: [78, 79, 80],
};

/// Why the offsets at the start of `_PyRuntime` cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// No cookie, the words of another version, or impossible words.
    Unknown,
    /// A free-threaded build.
    FreeThreaded,
}

/// Whether interpreters of this minor version have `_Py_DebugOffsets`.
pub(crate) fn have_debug_offsets(minor: (u32, u32)) -> bool {
    minor >= (3, 13)
}

/// Replaces the offsets in its version's row by those of the interpreter.
pub(crate) fn with_debug_offsets(
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
    rows::row(minor)
        .and_then(|layout| read(words, &numbers, layout))
        .ok_or(Unusable::Unknown)
}

fn read(words: &[u64; DEBUG_OFFSETS_WORDS], numbers: &Words, row: Layout) -> Option<Layout> {
    let below = |limit: u64, number: usize| {
        let offset = *words.get(number)?;
        (offset < limit).then_some(offset as usize)
    };
    let offset = |number: usize| below(LARGEST_OFFSET, number);
    let [previous, executable, instruction, locals, owner] = numbers.frame;
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
        finalizing: offset(numbers.finalizing)?,
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
            first_local: offset(locals)?,
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
    use crate::rows::{PY_313, PY_314};

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
            (&[numbers.finalizing], &[layout.finalizing]),
            (
                &[numbers.interpreter, numbers.interpreter_number],
                &[interpreter.interpreter, interpreter.number],
            ),
            (
                &numbers.frame,
                &[
                    layout.frame.previous,
                    layout.frame.code,
                    at,
                    layout.frame.first_local,
                    owner,
                ],
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
