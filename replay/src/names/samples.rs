//! Names for tests.

use gpumem_capture::{CodeId, Definition, NnModuleId, PyFrame, PyModule, StackId};

use super::Names;

/// Defines stacks of 4 frames in which the frames at the given positions call the given modules.
pub(crate) fn calling(stacks: &[(u32, &[(u32, u32)])]) -> Names {
    let mut names = Names::default();
    for (id, class) in [(1, "Net"), (2, "Block"), (3, "Block"), (4, "Linear")] {
        names.define(&Definition::NnModule {
            id: NnModuleId(id),
            object: 0,
            class: class.into(),
        });
    }
    let frame = PyFrame {
        code: CodeId(1),
        offset: 0,
        entered_from_c: false,
    };
    for (id, calls) in stacks {
        let calls = calls.iter().map(|&(frame, module)| PyModule {
            frame,
            module: NnModuleId(module),
        });
        names.define(&Definition::PyStack {
            id: StackId(*id),
            truncated: false,
            frames: vec![frame; 4],
            modules: calls.collect(),
        });
    }
    names
}
