use gpumem_capture::{CodeId, Definition};

use super::*;
use crate::{Purpose, ThreadPhase};

#[test]
fn cuda_itself_owns_nothing() {
    for cuda in [
        "libcuda.so.1",
        "libcudart.so.13",
        "libcudart-80664282.so.10.2",
        "libgpumem.so",
    ] {
        assert!(is_cuda(cuda), "{cuda}");
    }
    for other in [
        "libcudnn.so.9",
        "libcublas.so.13",
        "libc10_cuda.so",
        "python3.12",
    ] {
        assert!(!is_cuda(other), "{other}");
    }
}

const NET: &str = "/home/me/net.py";
const CONV: &str = "/env/lib/python3.12/site-packages/torch/nn/modules/conv.py";
const ADAM: &str = "/env/lib/python3.12/site-packages/torch/optim/adam.py";
const LBFGS: &str = "/env/lib/python3.12/site-packages/torch/optim/lbfgs.py";
const BASE: &str = "/env/lib/python3.12/site-packages/torch/optim/optimizer.py";

/// Defines a Python stack, the newest frame first.
fn python(names: &mut Names, id: u32, lines: &[(&str, u32)]) {
    let mut frames = Vec::new();
    for (index, (file, first_line)) in lines.iter().enumerate() {
        let code = CodeId(id * 100 + index as u32);
        names.define(&Definition::Code {
            id: code,
            first_line: *first_line,
            file: (*file).into(),
            name: "f".into(),
            line_table: Vec::new(),
        });
        frames.push(PyFrame {
            code,
            offset: 0,
            entered_from_c: true,
        });
    }
    names.define(&Definition::PyStack {
        id: StackId(id),
        truncated: false,
        modules: Vec::new(),
        frames,
    });
}

/// Defines a run of the node `Of<id>`.
fn node(names: &mut Names, id: u32, forward: u32, (own, newer): (u32, u32), lost: bool) {
    let class = format!("Of{id}");
    names.define(&Definition::Backward {
        id: StackId(id),
        lost,
        forward: StackId(forward),
        own: StackId(own),
        newer,
        node: format!("N5torch{}{class}E", class.len()),
    });
}

fn label(names: &Names, stack: u32) -> String {
    let py = StackId(stack);
    let stacks = StackKey {
        py,
        ..StackKey::default()
    };
    owner(names, stacks, Level::TENSOR).label(names)
}

/// Stacks 1 and 2: forwards of the user's lines 88 and 91; 3: a thread that runs a line of the
/// user's code called by a library; 4: only a library.
fn names() -> Names {
    let mut names = Names::default();
    python(&mut names, 1, &[(CONV, 5), (NET, 88)]);
    python(&mut names, 2, &[(NET, 91)]);
    python(&mut names, 3, &[(CONV, 6), (NET, 7), (CONV, 8), (NET, 9)]);
    python(&mut names, 4, &[(CONV, 5)]);
    names
}

#[test]
fn a_node_allocates_for_the_line_of_its_forward() {
    let mut names = names();
    node(&mut names, 11, 1, (0, 0), false);
    node(&mut names, 12, 1, (3, 0), false);
    node(&mut names, 13, 4, (0, 0), false);
    assert_eq!(label(&names, 11), "/home/me/net.py:88 (backward: Of11)");
    assert_eq!(
        label(&names, 12),
        "/home/me/net.py:88 (backward: Of12)",
        "what waits for the engine is older than the node"
    );
    assert_eq!(
        label(&names, 13),
        "torch/nn/modules/conv.py:5 (backward: Of13)"
    );
}

#[test]
fn the_users_own_code_in_a_node_comes_first_and_a_librarys_does_not() {
    let mut names = names();
    for (id, newer, lost) in [(11, 1, false), (12, 2, false), (13, 9, true), (14, 1, true)] {
        node(&mut names, id, 1, (3, newer), lost);
    }
    assert_eq!(label(&names, 11), "/home/me/net.py:88 (backward: Of11)");
    assert_eq!(label(&names, 12), "/home/me/net.py:7");
    assert_eq!(label(&names, 13), "/home/me/net.py:7");
    assert_eq!(label(&names, 14), "(backward: Of14, forward line lost)");
}

#[test]
fn the_planners_own_frames_are_no_lines() {
    const MODE: &str = "/home/me/gpumem/python/gpumem/_plan/inside/mode.py";
    let mut names = names();
    python(&mut names, 5, &[(MODE, 1), (MODE, 2), (CONV, 5), (NET, 88)]);
    python(&mut names, 6, &[(MODE, 1), (MODE, 2)]);
    node(&mut names, 11, 5, (6, 2), false);
    assert_eq!(label(&names, 5), "/home/me/net.py:88");
    assert_eq!(label(&names, 6), "(no stack)");
    assert_eq!(label(&names, 11), "/home/me/net.py:88 (backward: Of11)");
}

#[test]
fn what_is_lost_or_never_was_is_no_line() {
    let mut names = names();
    node(&mut names, 11, 1, (3, 0), true);
    node(&mut names, 12, 0, (3, 0), false);
    node(&mut names, 13, 99, (0, 0), false);
    for (id, label_of, lost) in [
        (11, "(backward: Of11, forward line lost)", true),
        (12, "(backward: Of12, no Python in its forward)", false),
        (13, "(backward: Of13, forward line lost)", true),
    ] {
        let py = StackId(id);
        let stacks = StackKey {
            py,
            ..StackKey::default()
        };
        let owner = owner(&names, stacks, Level::TENSOR);
        assert_eq!(owner.label(&names), label_of);
        let class = format!("Of{id}");
        assert_eq!(owner, Owner::Node { class, lost });
        assert_eq!((owner.line(), owner.library()), (None, None));
    }
    assert!(names.has_python(StackId(12)) && !names.has_python(StackId(13)));
}

#[test]
fn a_node_that_a_node_made_goes_back_to_the_same_forward() {
    let mut names = names();
    node(&mut names, 11, 1, (0, 0), false);
    node(&mut names, 12, 11, (0, 0), false);
    node(&mut names, 13, 12, (4, 1), false);
    // This one was made by the user's code within another node.
    node(&mut names, 21, 1, (3, 2), true);
    node(&mut names, 22, 21, (0, 0), false);
    node(&mut names, 31, 2, (0, 0), true);
    node(&mut names, 32, 31, (0, 0), false);
    assert_eq!(label(&names, 13), "/home/me/net.py:88 (backward: Of13)");
    assert_eq!(label(&names, 22), "/home/me/net.py:7 (backward: Of22)");
    assert_eq!(label(&names, 32), "(backward: Of32, forward line lost)");
}

#[test]
fn chains_that_never_end_are_lost() {
    let mut names = names();
    node(&mut names, 11, 11, (11, 3), false);
    node(&mut names, 12, 13, (0, 0), false);
    node(&mut names, 13, 12, (0, 0), false);
    for id in 1000..100_000 {
        node(&mut names, id, id + 1, (0, 0), false);
    }
    for id in [11, 12, 1000] {
        assert_eq!(
            label(&names, id),
            format!("(backward: Of{id}, forward line lost)")
        );
    }
    assert!(script_line(&names, StackId(11)).is_none());
}

#[test]
fn a_workspace_is_its_callers() {
    let mut names = names();
    node(&mut names, 11, 1, (0, 0), false);
    let of = |py, native| {
        let stacks = StackKey {
            py: StackId(py),
            native: StackId(native),
            purpose: Purpose::new(ThreadPhase::Outside, true),
            ..StackKey::default()
        };
        owner(&names, stacks, Level::TENSOR)
    };
    let (forward, backward, nobody) = (of(2, 0), of(11, 0), of(0, 0));
    let labels = [&forward, &backward, &nobody].map(|owner| owner.label(&names));
    assert_eq!(
        labels,
        [
            "/home/me/net.py:91 (cuBLAS workspace)",
            "/home/me/net.py:88 (backward: Of11) (cuBLAS workspace)",
            "(no stack) (cuBLAS workspace)",
        ]
    );
    assert_eq!(backward.line().map(|line| line.line), Some(88));
    assert_eq!(backward.node(), Some("Of11"));
    assert_ne!(forward, of(1, 0));
}

#[test]
fn a_closure_is_distinguished_from_the_optimizer_that_runs_it() {
    let mut names = Names::default();
    python(&mut names, 1, &[(ADAM, 1), (BASE, 2), (NET, 3)]);
    python(
        &mut names,
        2,
        &[(CONV, 1), (NET, 2), (LBFGS, 3), (BASE, 4), (NET, 5)],
    );
    python(&mut names, 3, &[(ADAM, 1), (NET, 2), (BASE, 3), (NET, 4)]);
    assert!(!is_in_closure(&names, StackId(1)));
    assert!(is_in_closure(&names, StackId(2)));
    assert!(
        !is_in_closure(&names, StackId(3)),
        "the user's own optimizer"
    );
    assert!(!is_in_closure(&names, StackId::NONE));
}
