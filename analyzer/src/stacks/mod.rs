//! Merges a Python stack and a native stack of the same time into one stack.
//!
//! The interpreter runs Python functions inside its evaluation function. So each native frame of this function
//! corresponds to one or more Python frames: those up to and including one that was entered from C. If the counts
//! differ, the result is all Python frames, followed by the native frames that are newer than the newest evaluation
//! frame. If no frame is known as an evaluation frame, the newest frame of the interpreter is used instead. Older
//! native frames are then omitted, with a note.
//!
//! An allocation of an autograd node has the stack of the forward that made the node, followed by a frame with the
//! node's name and the frames that are newer than the node's run on its thread.

mod frame;
mod interleave;
mod kind;
mod labelled;
mod native_code;
mod python_code;

use gpumem_capture::StackId;

use crate::backward::{Backward, Origin, chain};
use crate::names::{Names, NativeFrame};
use crate::replay::StackKey;
use crate::symbols::{Symbols, is_interpreter, is_recorder};
use frame::{CUT_OFF, EVICTED, LOST, NO_FORWARD, NO_NATIVE, NO_PYTHON, NO_STACK, NOT_SAMPLED};
use interleave::{Kind, interleave};

pub use frame::Frame;
pub use kind::FrameKind;
pub use labelled::{Labelled, labelled, labels};

/// The function that runs a node in all versions of PyTorch. It is exported, so its name is always available.
const RUNS_A_NODE: &str = "torch::autograd::Engine::evaluate_function";

/// The stack of an allocation, the oldest frame first. It omits the interpreter's own C functions, the recorder's
/// frames, and frames of the C library that are older than all Python, which start the program or the thread.
pub fn mixed(names: &Names, symbols: &mut Symbols, stacks: StackKey) -> Vec<Frame> {
    let mut oldest_first = match names.backwards.get(&stacks.py) {
        None => of_thread(names, symbols, stacks.py, stacks.native),
        Some(ran) => {
            let mut frames = of_thread(names, symbols, ran.own, stacks.native);
            frames.reverse();
            let newer = newer(frames, ran.newer, |frame| {
                runs_a_node(names, symbols, frame)
            });
            let mut frames = forward(names, ran);
            frames.push(Frame::Backward(ran.node));
            frames.extend(newer.into_iter().rev());
            frames
        }
    };
    if oldest_first.is_empty() {
        oldest_first.push(NO_STACK);
    }
    oldest_first
}

/// The frames of a thread that are newer than a node's run; both lists have the newest first. They contain at most
/// `python` Python frames, and end before the function that runs nodes.
fn newer(
    frames: Vec<Frame>,
    python: usize,
    mut runs_a_node: impl FnMut(&NativeFrame) -> bool,
) -> Vec<Frame> {
    let mut left = python;
    let newer = frames.into_iter().take_while(|frame| match frame {
        Frame::Python(_) => {
            let is_newer = left > 0;
            left = left.saturating_sub(1);
            is_newer
        }
        Frame::Native(frame) => !runs_a_node(frame),
        Frame::Backward(_) | Frame::Note(_) => true,
    });
    newer.collect()
}

fn runs_a_node(names: &Names, symbols: &mut Symbols, frame: &NativeFrame) -> bool {
    let in_torch = names
        .module(frame)
        .is_some_and(|module| module.basename().starts_with("libtorch"));
    in_torch
        && symbols
            .labels(names, frame)
            .iter()
            .any(|name| name.starts_with(RUNS_A_NODE))
}

/// The frames that made a node, the oldest first: those of a forward, followed by those of the nodes that led to this
/// one.
fn forward(names: &Names, ran: &Backward) -> Vec<Frame> {
    let (chain, origin) = chain(names, ran);
    let mut frames = match origin {
        Origin::Forward(stack) => python(names, stack, usize::MAX),
        Origin::NoPython => vec![NO_FORWARD],
        Origin::Lost => vec![LOST],
    };
    for made_by in chain[1..].iter().rev() {
        frames.push(Frame::Backward(made_by.node));
        frames.extend(python(names, made_by.own, made_by.newer));
    }
    frames
}

/// The newest `count` frames of a Python stack, the oldest first.
fn python(names: &Names, stack: StackId, count: usize) -> Vec<Frame> {
    if stack == StackId::NONE || count == 0 {
        return Vec::new();
    }
    let Some((frames, cut)) = names.py_stacks.get(&stack) else {
        return vec![NO_PYTHON];
    };
    let newest = &frames[..count.min(frames.len())];
    let cut_off = (*cut && count > frames.len()).then_some(CUT_OFF);
    let newest = newest.iter().rev().map(|frame| Frame::Python(*frame));
    cut_off.into_iter().chain(newest).collect()
}

/// The frames of one thread, the oldest first.
fn of_thread(names: &Names, symbols: &mut Symbols, python: StackId, native: StackId) -> Vec<Frame> {
    let native_id = native;
    let evicted = [python, native].contains(&StackId::EVICTED);
    let (python, python_cut, python_missing) = match names.py_stacks.get(&python) {
        Some((frames, cut)) => (&frames[..], *cut, false),
        None => (&[][..], false, !python.is_named()),
    };
    let (native, native_cut, native_missing) = match names.native_stacks.get(&native) {
        Some((frames, cut)) => (&frames[..], *cut, false),
        None => (&[][..], false, !native.is_named()),
    };
    let native: Vec<NativeFrame> = native
        .iter()
        .filter(|frame| !is_recorder(names, frame))
        .copied()
        .collect();
    let mut newest_first = if python.is_empty() {
        native.into_iter().map(Frame::Native).collect()
    } else {
        let kinds: Vec<Kind> = native
            .iter()
            .map(|frame| {
                if symbols.is_evaluation(names, frame) {
                    Kind::Evaluation
                } else if is_interpreter(names, frame) || symbols.is_trampoline(names, frame) {
                    Kind::Interpreter
                } else if is_c_library(names, frame) {
                    Kind::CLibrary
                } else {
                    Kind::Other
                }
            })
            .collect();
        interleave(python, python_cut, &native, &kinds, native_cut)
    };
    for (said, frame) in [
        (evicted, EVICTED),
        (native_id == StackId::NOT_SAMPLED, NOT_SAMPLED),
        (native_missing, NO_NATIVE),
        (python_missing, NO_PYTHON),
        (
            if python.is_empty() {
                native_cut
            } else {
                python_cut
            },
            CUT_OFF,
        ),
    ] {
        if said {
            newest_first.push(frame);
        }
    }
    newest_first.reverse();
    newest_first
}

fn is_c_library(names: &Names, frame: &NativeFrame) -> bool {
    names.module(frame).is_some_and(|module| {
        let name = module.basename();
        ["libc.so", "libc-2.", "libpthread"]
            .iter()
            .any(|library| name.starts_with(library))
    })
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{CodeId, Definition, PyFrame};

    use super::*;
    use crate::node_classes::class;

    /// The frames of a stack, the oldest first: Python frames by their code's number, natives by their
    /// addresses, nodes by `*`, notes by their text.
    fn whole(names: &Names, py: u32, native: u32) -> String {
        let stacks = StackKey {
            py: StackId(py),
            native: StackId(native),
            ..StackKey::default()
        };
        let text = |frame: &Frame| match frame {
            Frame::Python(frame) => frame.code.0.to_string(),
            Frame::Native(frame) => format!("{:#x}", frame.address),
            Frame::Backward(node) => format!("*{}", class(names.node(*node))),
            Frame::Note(note) => (*note).to_owned(),
        };
        let frames = mixed(
            names,
            &mut Symbols::new(
                crate::symbols::Places::default(),
                crate::symbols::PerfMap::default(),
            ),
            stacks,
        );
        frames.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    fn names() -> Names {
        let mut names = Names::default();
        let frame = |code| PyFrame {
            code: CodeId(code),
            offset: 0,
            entered_from_c: true,
        };
        for (id, truncated, codes) in [(1, false, &[12, 11][..]), (2, true, &[23, 22, 21])] {
            names.define(&Definition::PyStack {
                id: StackId(id),
                truncated,
                modules: Vec::new(),
                frames: codes.iter().map(|code| frame(*code)).collect(),
            });
        }
        names.define(&Definition::NativeStack {
            id: StackId(5),
            truncated: false,
            frames: vec![0xb, 0xa],
        });
        for (id, forward, own, newer, lost) in [
            (31, 1, 0, 0, false),
            (32, 1, 2, 2, false),
            (33, 32, 0, 0, false),
            (34, 1, 2, 1, true),
            (35, 0, 0, 0, false),
            (36, 98, 99, 1, false),
            (37, 37, 2, 1, false),
            (38, 2, 0, 0, false),
        ] {
            names.define(&Definition::Backward {
                id: StackId(id),
                lost,
                forward: StackId(forward),
                own: StackId(own),
                newer,
                node: format!("3N{id}"),
            });
        }
        names
    }

    #[test]
    fn a_node_stands_between_its_forward_and_what_it_ran() {
        let names = names();
        assert_eq!(whole(&names, 31, 0), "11 12 *N31");
        assert_eq!(whole(&names, 31, 5), "11 12 *N31 0xa 0xb");
        assert_eq!(whole(&names, 32, 0), "11 12 *N32 22 23");
        assert_eq!(whole(&names, 33, 5), "11 12 *N32 22 23 *N33 0xa 0xb");
        assert_eq!(whole(&names, 38, 0), "(older frames cut off) 21 22 23 *N38");
    }

    #[test]
    fn what_is_not_known_of_a_node_is_said() {
        let names = names();
        assert_eq!(whole(&names, 34, 0), "(forward line lost) *N34 23");
        assert_eq!(whole(&names, 35, 0), "(no Python in the forward) *N35");
        let missing = "(Python stack not in the capture)";
        assert_eq!(whole(&names, 36, 0), format!("{missing} *N36 {missing}"));
        let endless = whole(&names, 37, 0);
        assert_eq!(endless.matches("*N37 23").count(), 64, "{endless}");
        assert!(endless.starts_with("(forward line lost) *N37"), "{endless}");
    }

    #[test]
    fn what_is_older_than_a_nodes_run_is_left_out() {
        let python = |code| {
            Frame::Python(PyFrame {
                code: CodeId(code),
                offset: 0,
                entered_from_c: true,
            })
        };
        let native = |address| {
            Frame::Native(NativeFrame {
                address,
                module: None,
            })
        };
        let runs = |frame: &NativeFrame| frame.address == 7;
        let frames = vec![native(1), python(2), native(7), native(3), python(4)];
        assert_eq!(newer(frames.clone(), 1, runs), frames[..2]);
        assert_eq!(newer(frames.clone(), 0, runs), frames[..1]);
        let nameless = |_: &NativeFrame| false;
        assert_eq!(newer(frames.clone(), 1, nameless), frames[..4]);
        assert_eq!(newer(frames.clone(), 5, nameless), frames);
    }
}
