//! Classifies native frames: the kind of code, and the frames that show the purpose of a call.

use crate::names::Module;

/// The kind of code of a native frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// PyTorch's own libraries.
    Framework,
    /// An installed library, or code generated at run time.
    Installed,
    /// Libraries below every call: the C and C++ libraries, CUDA's runtime and driver, the interpreter's extensions.
    Underneath,
    /// Any other: the program, or a library that was built with it.
    Own,
}

/// Prefixes of the names of libraries below every call.
const UNDERNEATH: [&str; 14] = [
    "libc.so",
    "libc-2.",
    "libpthread",
    "libm.so",
    "libdl.so",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libffi",
    "libgomp",
    "ld-linux",
    "ld-musl",
    "libcuda.so",
    "libcudart",
];
/// Prefixes of the names of NVIDIA's libraries, in any folder.
const INSTALLED: [&str; 12] = [
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcupti",
    "libnccl",
    "libnvrtc",
    "libnvJitLink",
    "libnvshmem",
    "libnvinfer",
];
/// Prefixes of the names of PyTorch's libraries.
const FRAMEWORK: [&str; 3] = ["libtorch", "libc10", "libcaffe2"];
/// Folders for files that a system or a package manager installed.
const INSTALLED_IN: [&str; 8] = [
    "/site-packages/",
    "/dist-packages/",
    "/usr/lib/",
    "/usr/lib64/",
    "/lib/x86_64-linux-gnu/",
    "/lib64/",
    "/usr/local/",
    "/opt/",
];

/// The kind of code of a module; `None` is code in no module.
pub(super) fn code(module: Option<&Module>) -> Code {
    let Some(module) = module else {
        return Code::Installed;
    };
    let (path, name) = (module.path.as_str(), module.basename());
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if begins(&FRAMEWORK) || path.contains("/site-packages/torch/") {
        Code::Framework
    } else if begins(&UNDERNEATH) || path.contains("/lib-dynload/") {
        Code::Underneath
    } else if begins(&INSTALLED) || INSTALLED_IN.iter().any(|folder| path.contains(folder)) {
        Code::Installed
    } else {
        Code::Own
    }
}

/// The operator whose entry a function is: `aten::conv2d` for `at::_ops::conv2d::call`. PyTorch's name of an overload
/// follows the operator's name: `aten::sum_dim_IntList`.
pub(super) fn operator(label: &str) -> Option<String> {
    let (name, called) = label.strip_prefix("at::_ops::")?.split_once("::")?;
    (called.starts_with("call") || called.starts_with("redispatch"))
        .then(|| format!("aten::{name}"))
}

/// Whether a function only passes calls on between Python, an extension and PyTorch.
pub(super) fn is_binding(label: &str) -> bool {
    const BINDINGS: [&str; 7] = [
        "pybind11::",
        "nanobind::",
        "boost::python::",
        "pyo3::",
        "__pyx_",
        "__Pyx_",
        "std::",
    ];
    is_framework(label) || BINDINGS.iter().any(|start| begins(label, start))
}

/// Whether a function is PyTorch's by its name, in any module.
pub(super) fn is_framework(label: &str) -> bool {
    let starts = ["c10::", "at::", "torch::"];
    starts.iter().any(|start| begins(label, start))
}

/// Whether a function's name has this prefix. The names of templates follow their return types.
fn begins(label: &str, start: &str) -> bool {
    let name = label.split('<').next().unwrap_or(label);
    let name = name.rsplit(' ').next().unwrap_or(name);
    label.starts_with(start) || name.starts_with(start)
}

#[cfg(test)]
mod tests {
    use gpumem_capture::ModuleId;

    use super::*;

    fn of(path: &str) -> Code {
        code(Some(&Module {
            id: ModuleId(1),
            bias: 0,
            start: 0,
            end: 1,
            path: path.into(),
            build_id: Vec::new(),
        }))
    }

    #[test]
    fn code_is_told_by_its_file() {
        for (path, expected) in [
            (
                "/env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so",
                Code::Framework,
            ),
            (
                "/env/lib/python3.12/site-packages/torch/_C.cpython-312-x86_64-linux-gnu.so",
                Code::Framework,
            ),
            ("/opt/libtorch/lib/libc10_cuda.so", Code::Framework),
            (
                "/env/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.13",
                Code::Installed,
            ),
            ("/home/me/cuda/libnccl.so.2", Code::Installed),
            (
                "/env/lib/python3.12/site-packages/flash_attn_2_cuda.so",
                Code::Installed,
            ),
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", Code::Underneath),
            ("/lib/x86_64-linux-gnu/libc.so.6", Code::Underneath),
            (
                "/usr/lib/python3.12/lib-dynload/_ctypes.cpython-312.so",
                Code::Underneath,
            ),
            ("/home/me/build/solver", Code::Own),
            ("/home/me/build/libkernels.so", Code::Own),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
        assert_eq!(code(None), Code::Installed);
    }

    #[test]
    fn operators_are_told_by_their_entries() {
        for (label, expected) in [
            ("at::_ops::conv2d::call", Some("aten::conv2d")),
            (
                "at::_ops::sum_dim_IntList::redispatch",
                Some("aten::sum_dim_IntList"),
            ),
            (
                "at::_ops::_to_copy::call (Operators_4.cpp:12)",
                Some("aten::_to_copy"),
            ),
            ("at::_ops::conv2d::call+0x1c", Some("aten::conv2d")),
            ("at::native::conv2d", None),
            ("at::_ops::conv2d::schema", None),
        ] {
            assert_eq!(operator(label).as_deref(), expected, "{label}");
        }
        assert!(is_binding("pybind11::cpp_function::dispatcher"));
        assert!(is_binding("void std::__invoke_impl<void, int>"));
        assert!(is_framework("at::(anonymous namespace)::create_out"));
        assert!(!is_framework("that::create_out"));
        assert!(!is_binding("attention_forward (attention.cpp:12)"));
    }
}
