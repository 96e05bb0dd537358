//! The kind of a Python function, by its file and name.

use super::kind::FrameKind;
use crate::names::Names;

/// Functions between a call and the called function: suffixes of file names, and the functions in them; an empty list
/// is all functions. They apply only to code that the user did not write.
const DISPATCH: &[(&str, &[&str])] = &[
    (
        "/torch/nn/modules/module.py",
        &[
            "_call_impl",
            "_wrapped_call_impl",
            "_slow_forward",
            "__call__",
            "inner",
        ],
    ),
    ("/torch/utils/_contextlib.py", &[]),
    ("/torch/autograd/grad_mode.py", &["decorate_context"]),
    ("/torch/autograd/__init__.py", &["backward"]),
    ("/torch/autograd/graph.py", &["_engine_run_backward"]),
    ("/torch/autograd/function.py", &["apply", "wrapper"]),
    ("/torch/optim/optimizer.py", &["wrapper", "_use_grad"]),
    ("/torch/optim/lr_scheduler.py", &["wrapper"]),
    (
        "/amp/autocast_mode.py",
        &["decorate_autocast", "decorate_fwd", "decorate_bwd"],
    ),
    (
        "/torch/_dynamo/eval_frame.py",
        &["_fn", "__call__", "inner", "wrapper", "compile_wrapper"],
    ),
    ("/torch/_dynamo/external_utils.py", &[]),
    ("/torch/_compile.py", &[]),
    ("/torch/overrides.py", &[]),
    ("/torch/_ops.py", &[]),
    ("/torch/_library/custom_ops.py", &[]),
    ("/torch/_library/autograd.py", &[]),
    ("/torch/_native/registry.py", &[]),
    ("/torch/utils/_device.py", &["__torch_function__"]),
    ("/torch/_jit_internal.py", &["fn"]),
    (
        "/accelerate/utils/operations.py",
        &["forward", "__call__", "convert_to_fp32"],
    ),
    ("/transformers/utils/generic.py", &["wrapper"]),
    ("/transformers/utils/deprecation.py", &["wrapped_func"]),
    ("/functools.py", &[]),
    ("/contextlib.py", &[]),
    ("/runpy.py", &[]),
    ("<frozen runpy>", &[]),
    ("<frozen importlib._bootstrap>", &[]),
    ("<frozen importlib._bootstrap_external>", &[]),
    (
        "/threading.py",
        &["_bootstrap", "_bootstrap_inner", "_run_once", "run"],
    ),
    ("/concurrent/futures/thread.py", &["_worker", "run"]),
    ("/multiprocessing/process.py", &["_bootstrap", "run"]),
    ("/multiprocessing/spawn.py", &[]),
    ("/multiprocessing/popen_fork.py", &[]),
    ("/multiprocessing/popen_spawn_posix.py", &[]),
];

/// The kind of a Python function; `name` is its qualified name.
pub(super) fn python_kind(names: &Names, file: &str, name: &str) -> FrameKind {
    if names.is_user_code(file) {
        return FrameKind::Python;
    }
    let function = name.rsplit('.').next().unwrap_or(name);
    let is_dispatch = DISPATCH.iter().any(|(end, functions)| {
        file.ends_with(end) && (functions.is_empty() || functions.contains(&function))
    });
    if is_dispatch {
        return FrameKind::Dispatch;
    }
    let mut folders = file.rsplit('/').skip(1);
    match folders.any(|folder| matches!(folder, "optim" | "optimizer" | "optimizers")) {
        true => FrameKind::Optimizer,
        false => FrameKind::Library,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_told_by_its_file_and_name() {
        let names = Names::default();
        let installed = "/env/lib/python3.12/site-packages";
        let module = format!("{installed}/torch/nn/modules/module.py");
        for (file, name, expected) in [
            ("/home/me/train.py", "main", FrameKind::Python),
            ("/home/me/functools.py", "wrapper", FrameKind::Python),
            ("/home/me/optim/lion.py", "Lion.step", FrameKind::Python),
            (&module, "Module._call_impl", FrameKind::Dispatch),
            (&module, "_call_impl", FrameKind::Dispatch),
            (&module, "Module._apply", FrameKind::Library),
            (
                "/usr/lib/python3.12/functools.py",
                "partial",
                FrameKind::Dispatch,
            ),
            ("<frozen runpy>", "_run_code", FrameKind::Dispatch),
            (
                &format!("{installed}/torch/optim/adam.py"),
                "Adam.step",
                FrameKind::Optimizer,
            ),
            (
                &format!("{installed}/torch/optim/optimizer.py"),
                "Optimizer.profile_hook_step.<locals>.wrapper",
                FrameKind::Dispatch,
            ),
            (
                &format!("{installed}/apex/optimizers/fused_adam.py"),
                "FusedAdam.step",
                FrameKind::Optimizer,
            ),
            (
                &format!("{installed}/optimum/gptq.py"),
                "quantize",
                FrameKind::Library,
            ),
        ] {
            assert_eq!(python_kind(&names, file, name), expected, "{file} {name}");
        }
    }
}
