use gpumem_capture::{CodeId, Definition, Function, ModuleId, PyFrame, StackId};

use super::*;

const TORCH: &str = "/env/lib/python3.12/site-packages/torch";

/// Files of Python functions, by the number of their code.
fn python_file(code: u32) -> (String, &'static str) {
    match code {
        1 => ("/home/me/train.py".into(), "main"),
        2 => (format!("{TORCH}/nn/modules/module.py"), "Module._call_impl"),
        3 => (format!("{TORCH}/nn/modules/linear.py"), "Linear.forward"),
        4 => (format!("{TORCH}/optim/adam.py"), "Adam.step"),
        _ => ("<frozen runpy>".into(), "_run_code"),
    }
}

/// Modules, by the letter of their frames; each has 4096 bytes.
const MODULES: [(char, &str); 7] = [
    ('E', "/usr/bin/python3.12"),
    (
        'T',
        "/env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so",
    ),
    (
        'B',
        "/env/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.13",
    ),
    (
        'X',
        "/env/lib/python3.12/site-packages/flash_attn_2_cuda.so",
    ),
    ('O', "/home/me/build/libmine.so"),
    ('C', "/lib/x86_64-linux-gnu/libc.so.6"),
    ('R', "/usr/lib/libcudart.so.13"),
];

/// The stack of these frames, the oldest first. Python: codes. Native: a module's letter and a function.
fn stack(python: &[u32], native: &[(char, &str)]) -> Vec<Labelled> {
    let mut names = Names::default();
    for code in python {
        let (file, name) = python_file(*code);
        names.define(&Definition::Code {
            id: CodeId(*code),
            first_line: 10 + code,
            file,
            name: name.into(),
            line_table: Vec::new(),
        });
    }
    for (index, (_, path)) in MODULES.iter().enumerate() {
        let start = (index as u64 + 1) << 12;
        names.define(&Definition::Module {
            id: ModuleId(index as u32 + 1),
            bias: start,
            start,
            end: start + 0x1000,
            path: (*path).into(),
            build_id: Vec::new(),
        });
    }
    let mut frames = Vec::new();
    for (at, (letter, function)) in native.iter().enumerate() {
        let module = MODULES.iter().position(|(of, _)| of == letter);
        let module = module.expect("a module") as u64 + 1;
        let offset = at as u64 * 16 + 1;
        let function = Function {
            name: (*function).into(),
            file: String::new(),
            line: 0,
        };
        let place = (ModuleId(module as u32), offset - 1);
        names.symbols.insert(place, vec![function]);
        frames.push((module << 12) + offset);
    }
    frames.reverse();
    names.define(&Definition::NativeStack {
        id: StackId(2),
        truncated: false,
        frames,
    });
    let python = python.iter().rev().map(|code| PyFrame {
        code: CodeId(*code),
        offset: -1,
        entered_from_c: false,
    });
    let python: Vec<PyFrame> = python.collect();
    let mut stacks = StackKey {
        native: StackId(2),
        ..StackKey::default()
    };
    if !python.is_empty() {
        stacks.py = StackId(1);
        names.define(&Definition::PyStack {
            id: StackId(1),
            truncated: false,
            modules: Vec::new(),
            frames: python,
        });
    }
    labelled(&names, &mut Symbols::default(), stacks)
}

/// The frames that are shown by default.
fn shown(python: &[u32], native: &[(char, &str)]) -> String {
    let stack = stack(python, native);
    let shown = stack
        .iter()
        .filter(|frame| frame.kind != FrameKind::Dispatch);
    let labels: Vec<String> = shown
        .map(|frame| frame.folded_label().to_string())
        .collect();
    labels.join("; ")
}

#[test]
fn native_frames_below_python_fold_into_what_was_asked() {
    let linear = [
        ('T', "torch::autograd::THPVariable_linear"),
        ('T', "at::_ops::linear::call"),
        ('C', "pthread_once"),
        ('T', "at::_ops::addmm::call"),
        ('B', "cublasCreate_v2"),
        ('B', "cublas_inner"),
        ('R', "cudaMalloc"),
    ];
    assert_eq!(
        shown(&[5, 1, 2, 3], &linear),
        "main (/home/me/train.py:11); Linear.forward (torch/nn/modules/linear.py:13); aten::linear; cublasCreate_v2"
    );
    assert_eq!(
        shown(&[1], &[('T', "c10::alloc")]),
        "main (/home/me/train.py:11)"
    );
    let extension = [
        ('X', "pybind11::cpp_function::dispatcher"),
        ('X', "mha_fwd"),
        ('X', "run_mha_fwd"),
        ('T', "at::_ops::empty_memory_format::call"),
    ];
    let main = "main (/home/me/train.py:11)";
    assert_eq!(
        shown(&[1], &extension),
        format!("{main}; mha_fwd; aten::empty_memory_format")
    );
    let own = [('O', "mine"), ('O', "helper"), ('R', "cudaMalloc")];
    assert_eq!(shown(&[1], &own), format!("{main}; mine; helper"));
}

#[test]
fn without_python_native_frames_stay() {
    let native = [
        ('C', "__libc_start_main"),
        ('O', "main"),
        ('R', "cudaMalloc"),
    ];
    assert_eq!(shown(&[], &native), "__libc_start_main; main; cudaMalloc");
    let libtorch = [
        ('O', "train"),
        ('T', "at::conv2d"),
        ('T', "at::_ops::conv2d::call"),
        ('T', "c10::impl::wrap_kernel_functor_unboxed_::call"),
    ];
    assert_eq!(shown(&[], &libtorch), "train; aten::conv2d");
    let nameless = [('C', "start_thread"), ('T', "worker"), ('T', "inner")];
    assert_eq!(shown(&[], &nameless), "start_thread; worker");
}

#[test]
fn a_stack_of_nothing_but_dispatch_keeps_a_frame() {
    assert_eq!(
        shown(&[5], &[('T', "c10::alloc")]),
        "_run_code (<frozen runpy>:15)"
    );
}

#[test]
fn all_frames_are_there_with_their_kinds() {
    let kinds: Vec<FrameKind> = stack(
        &[5, 1, 4],
        &[('T', "at::_ops::add::call"), ('R', "cudaMalloc")],
    )
    .iter()
    .map(|frame| frame.kind)
    .collect();
    assert_eq!(
        kinds,
        [
            FrameKind::Dispatch,
            FrameKind::Python,
            FrameKind::Optimizer,
            FrameKind::Native,
            FrameKind::Dispatch
        ]
    );
}
