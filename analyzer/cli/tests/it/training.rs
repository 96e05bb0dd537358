//! The capture of a small training.

use std::path::Path;

use gpumem_capture::{Event, EventKind, Level, StackId};

use crate::synthetic::{M, Synthetic};

const TRAIN: &str = "/home/me/run/train.py";
const CONV: &str = "/env/lib/python3.12/site-packages/torch/nn/modules/conv.py";

/// A small training on GPU 0: a model, activations of a forward, a cuBLAS workspace, gradients that autograd allocates
/// on a thread without Python, and a failed allocation at its end.
///
/// Tensors: model 12 MiB (train.py:5), x 40 MiB (train.py:8), forward 2 × 60 MiB (train.py:15), one of
/// them freed; gradients 30 MiB. Peak 202 MiB. Driver: 256 MiB pool, 32 MiB cuBLAS.
pub fn training(folder: &Path) -> Synthetic {
    let mut capture = Synthetic::new(folder);
    let module = |line| ("/home/me/run/train.py", "<module>", line, true);
    let load = capture.python(&[module(5)]);
    let data = capture.python(&[module(8)]);
    let forward = capture.python(&[
        (CONV, "Conv2d.forward", 560, true),
        (TRAIN, "Net.forward", 15, false),
        module(20),
    ]);
    let backward = capture.python(&[module(21)]);
    let matmul = capture.python(&[(TRAIN, "Net.forward", 16, false), module(20)]);

    // Two evaluation frames of the interpreter, the allocator, and the recorder itself.
    let conv = capture.native(&[
        0x60_0100, 0x20_0100, 0x30_0200, 0x10_2100, 0x10_0050, 0x30_0300, 0x10_2200, 0x10_0010,
    ]);
    let plain = capture.native(&[0x60_0100, 0x20_0100, 0x30_0200, 0x10_2200, 0x10_0010]);
    let autograd = capture.native(&[0x60_0100, 0x20_0100, 0x30_0500]);
    let segment = capture.native(&[
        0x60_0100, 0x50_0100, 0x20_0200, 0x30_0200, 0x10_2200, 0x10_0010,
    ]);
    let workspace = capture.native(&[
        0x60_0100, 0x50_0100, 0x40_0100, 0x30_0700, 0x10_2200, 0x10_0010,
    ]);

    capture.event(Event {
        kind: EventKind::CONTEXT,
        ptr: 0xc0,
        bytes: 300 * M,
        level: Level::DRIVER,
        ..Event::default()
    });
    capture.alloc(Level::DRIVER, 0x1000_0000, 256 * M, load, segment);
    for index in 0..4 {
        capture.tensor(0x1000_0000 + index * 3 * M, 3 * M, 256 * M, load, plain);
    }
    capture.alloc(Level::HOST, 0x7000, 8 * M, data, StackId::NONE);
    capture.tensor(0x1100_0000, 40 * M, 256 * M, data, plain);
    capture.tensor(0x1400_0000, 60 * M, 256 * M, forward, conv);
    capture.tensor(0x1800_0000, 60 * M, 256 * M, forward, conv);
    capture.alloc(Level::DRIVER, 0x2000_0000, 32 * M, matmul, workspace);
    capture.thread = 1;
    capture.tensor(0x1c00_0000, 30 * M, 256 * M, StackId::NONE, autograd);
    capture.thread = 0;
    capture.free_tensor(0x1800_0000, 60 * M, 256 * M, backward);
    capture.free_tensor(0x1100_0000, 40 * M, 256 * M, backward);
    capture.event(Event {
        kind: EventKind::OUT_OF_MEMORY,
        bytes: 20 << 30,
        level: Level::TENSOR,
        py_stack: matmul,
        ..Event::default()
    });
    capture
}
