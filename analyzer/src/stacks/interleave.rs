//! Merges the Python frames and native frames of one thread.

use gpumem_capture::PyFrame;

use super::frame::{Frame, OUT_OF_STEP};
use crate::names::NativeFrame;

/// How a native frame relates to Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The interpreter's evaluation function.
    Evaluation,
    /// Another function of the interpreter, or code that it generated to run a Python function.
    Interpreter,
    /// The C library.
    CLibrary,
    /// Any other code.
    Other,
}

/// Merges the frames of a thread. Both lists and the result have the newest frame first.
pub(super) fn interleave(
    python: &[PyFrame],
    python_cut: bool,
    native: &[NativeFrame],
    kinds: &[Kind],
    native_cut: bool,
) -> Vec<Frame> {
    let mut groups: Vec<&[PyFrame]> = python
        .split_inclusive(|frame| frame.entered_from_c)
        .collect();
    let evaluations = kinds
        .iter()
        .filter(|kind| **kind == Kind::Evaluation)
        .count();
    let fits = evaluations == groups.len()
        || (native_cut && evaluations < groups.len())
        || (python_cut && evaluations > groups.len());
    let others = |frames: &[NativeFrame], kinds: &[Kind]| -> Vec<Frame> {
        let kept = frames
            .iter()
            .zip(kinds)
            .filter(|(_, kind)| matches!(kind, Kind::Other | Kind::CLibrary));
        kept.map(|(frame, _)| Frame::Native(*frame)).collect()
    };
    if !fits {
        let newest_of = |wanted| kinds.iter().position(|kind| *kind == wanted);
        let newest = newest_of(Kind::Evaluation)
            .or_else(|| newest_of(Kind::Interpreter))
            .unwrap_or(native.len());
        let mut out = others(&native[..newest], &kinds[..newest]);
        out.extend(python.iter().map(|frame| Frame::Python(*frame)));
        if newest < native.len() {
            out.push(OUT_OF_STEP);
        }
        return out;
    }
    let mut out = Vec::with_capacity(native.len() + python.len());
    groups.reverse();
    let mut evaluations_left = evaluations;
    for (frame, kind) in native.iter().zip(kinds) {
        match kind {
            Kind::Evaluation => {
                evaluations_left -= 1;
                let group = groups.pop().unwrap_or_default();
                out.extend(group.iter().map(|frame| Frame::Python(*frame)));
            }
            Kind::Interpreter => {}
            Kind::CLibrary if evaluations_left == 0 && evaluations > 0 => {}
            Kind::CLibrary | Kind::Other => out.push(Frame::Native(*frame)),
        }
    }
    while let Some(group) = groups.pop() {
        out.extend(group.iter().map(|frame| Frame::Python(*frame)));
    }
    out
}

#[cfg(test)]
mod tests {
    use gpumem_capture::CodeId;

    use super::*;

    /// Python frames from the newest: `c` was entered from C, `p` from Python. Native frames: `E` evaluation, `i`
    /// interpreter, `l` C library, other letters are other code. The result has the same form.
    fn mix(python: &str, python_cut: bool, native: &str, native_cut: bool) -> String {
        let frames: Vec<PyFrame> = python
            .chars()
            .enumerate()
            .map(|(index, c)| PyFrame {
                code: CodeId(index as u32 + 1),
                offset: 0,
                entered_from_c: c == 'c',
            })
            .collect();
        let kinds: Vec<Kind> = native
            .chars()
            .map(|c| match c {
                'E' => Kind::Evaluation,
                'i' => Kind::Interpreter,
                'l' => Kind::CLibrary,
                _ => Kind::Other,
            })
            .collect();
        let natives: Vec<NativeFrame> = native
            .chars()
            .map(|c| NativeFrame {
                address: c as u64,
                module: None,
            })
            .collect();
        interleave(&frames, python_cut, &natives, &kinds, native_cut)
            .into_iter()
            .map(|frame| match frame {
                Frame::Python(frame) => char::from_digit(frame.code.0, 10).expect("a digit"),
                Frame::Native(frame) => char::from(frame.address as u8),
                Frame::Backward(_) | Frame::Note(_) => '?',
            })
            .collect()
    }

    #[test]
    fn each_evaluation_frame_stands_for_the_python_frames_of_one_entry() {
        assert_eq!(mix("ppcpc", false, "abEixEim", false), "ab123x45m");
        assert_eq!(mix("ccc", false, "aEEbE", false), "a12b3");
        assert_eq!(
            mix("pp", false, "aEm", false),
            "a12m",
            "the oldest frame needs no mark"
        );
    }

    #[test]
    fn how_a_thread_was_started_is_left_out_and_what_embeds_python_is_not() {
        assert_eq!(mix("pc", false, "alEill", false), "al12");
        assert_eq!(mix("cc", false, "aElEmll", false), "a1l2m");
        assert_eq!(mix("pc", false, "all", false), "all12");
    }

    #[test]
    fn what_was_cut_off_is_older_than_all_that_fits() {
        assert_eq!(mix("cpcc", false, "aEbE", true), "a1b234");
        assert_eq!(mix("cc", true, "aEbEcEd", false), "a1b2cd");
    }

    #[test]
    fn where_counts_do_not_fit_python_is_older_than_the_newest_native_frames() {
        assert_eq!(mix("ccc", false, "aiEbEm", false), "a123?");
        assert_eq!(mix("c", false, "aEbEm", false), "a1?");
        assert_eq!(mix("pc", false, "abm", false), "abm12");
        assert_eq!(mix("pc", false, "abixim", false), "ab12?");
    }

    #[test]
    fn without_a_native_stack_python_stands_alone() {
        assert_eq!(mix("pcpc", false, "", false), "1234");
    }
}
