//! What a line calls: copy.deepcopy(), torch.autograd.functional.

use gpumem_capture::{CodeId, Definition, PyFrame, Record, Seq, StackId};
use gpumem_replay::{At, Replay};

use super::*;

/// A program whose line calls a function in a file.
fn program(file: &str) -> Replay {
    let mut replay = Replay::new(At::End);
    let mut define = |definition: &Definition| {
        replay.feed(Record::Definition(Seq(0), definition));
    };
    for (id, file) in (1..).zip(["/w/export.py", file]) {
        define(&Definition::Code {
            id: CodeId(id),
            first_line: 17,
            file: file.into(),
            name: "f".into(),
            // The whole function is its first line.
            line_table: vec![0xf8 | 7, 0],
        });
    }
    let frame = |code| PyFrame {
        code: CodeId(code),
        offset: 0,
        entered_from_c: false,
    };
    define(&Definition::PyStack {
        id: StackId(3),
        truncated: false,
        frames: [2, 1].map(frame).into(),
        modules: Vec::new(),
    });
    replay
}

fn texts(replay: &Replay, category: Category) -> (String, String) {
    let mut of = facts();
    of.parts[0].category = category;
    of.request.stacks.py = StackId(3);
    let verdict = judge(&of);
    let advice = words::advice(&replay.names, &of, &verdict);
    (
        words::what(&replay.names, &of, &verdict),
        advice.unwrap_or_default(),
    )
}

#[test]
fn a_deep_copy_is_named() {
    let copy = program("/usr/lib/python3.12/copy.py");
    let (what, advice) = texts(&copy, Category::Parameter);
    assert!(
        what.contains(" calls copy.deepcopy(), whose copy has 14.0 GiB so far"),
        "{what}"
    );
    assert!(advice.starts_with("make the copy on the host"), "{advice}");
    let own = program("/w/copy.py");
    assert!(!texts(&own, Category::Parameter).0.contains("deepcopy"));
}

#[test]
fn the_line_that_calls_for_a_jacobian_is_named() {
    let functional = program("/v/site-packages/torch/autograd/functional.py");
    let (what, advice) = texts(&functional, Category::Other);
    assert!(
        what.contains("computes with torch.autograd.functional through"),
        "{what}"
    );
    assert!(
        advice.starts_with("call torch.autograd.functional at ")
            && advice.contains("fewer rows at a time"),
        "{advice}"
    );
    let other = program("/v/site-packages/torch/autograd/graph.py");
    assert!(!texts(&other, Category::Other).0.contains("functional"));
}
