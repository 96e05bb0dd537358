//! Finds the line of code that owns an allocation.

mod module;
mod owner;
mod split;

use gpumem_capture::{Level, PyFrame, StackId};

pub use crate::names::{OwnPackages, is_planner};
pub use owner::{Line, Owner};
pub use split::Split;

use crate::StackKey;
use crate::backward::{Backward, Origin, chain};
use crate::names::{Code, Names};
use crate::node_classes::class;

/// Finds the owner of an allocation: the newest line of the user's code, else the newest Python line, else the library.
/// An allocation in an autograd node belongs to the line that made the node, unless the user's code ran in the node.
pub fn owner(names: &Names, stacks: StackKey, level: Level) -> Owner {
    let owner = match names.backwards.get(&stacks.py) {
        None if stacks.py == StackId::EVICTED => Owner::Evicted,
        None if stacks.is_not_sampled() => Owner::NotSampled,
        Some(ran) => owner_in_backward(names, ran),
        None => match newest_line(names, stacks.py) {
            Some(line) => Owner::Line(line, None),
            None => library(names, stacks, level).map_or(Owner::Unknown, Owner::Library),
        },
    };
    if stacks.purpose.is_workspace() {
        return Owner::Workspace(Box::new(owner));
    }
    owner
}

fn owner_in_backward(names: &Names, ran: &Backward) -> Owner {
    if let Some(line) = newer_line(names, ran) {
        return Owner::Line(line, None);
    }
    let class = class(names.node(ran.node));
    let (chain, origin) = chain(names, ran);
    let made = chain[1..].iter();
    let in_another = made.map(|made_by| newer_line(names, made_by));
    let line = in_another.flatten().next().or_else(|| match origin {
        Origin::Forward(stack) => newest_line(names, stack),
        Origin::NoPython | Origin::Lost => None,
    });
    match line {
        Some(line) => Owner::Line(line, Some(class)),
        None => Owner::Node {
            class,
            lost: origin != Origin::NoPython,
        },
    }
}

/// The newest line of the user's code that ran in a node.
fn newer_line(names: &Names, ran: &Backward) -> Option<Line> {
    coded(names, ran.newer_frames(names))
        .find(|(_, code)| names.is_user_code(&code.file))
        .and_then(|found| line(names, found))
}

fn frames(names: &Names, stack: StackId) -> impl DoubleEndedIterator<Item = (&PyFrame, &Code)> {
    let frames = names.py_stacks.get(&stack);
    coded(names, frames.map_or(&[][..], |(frames, _)| frames))
}

/// Frames with their code, without frames whose code is not in the capture or belongs to the planner.
fn coded<'a>(
    names: &'a Names,
    frames: &'a [PyFrame],
) -> impl DoubleEndedIterator<Item = (&'a PyFrame, &'a Code)> {
    frames
        .iter()
        .filter_map(|frame| Some((frame, names.codes.get(&frame.code)?)))
        .filter(|(_, code)| !is_planner(&code.file))
}

fn line(names: &Names, (frame, code): (&PyFrame, &Code)) -> Option<Line> {
    let line = names.line(frame)?;
    Some(Line {
        file: names.absolute_path(&code.file),
        relative: names.relative_path(&code.file),
        line,
        function: code.name.clone(),
    })
}

fn newest_line(names: &Names, stack: StackId) -> Option<Line> {
    frames(names, stack)
        .find(|(_, code)| names.is_user_code(&code.file))
        .or_else(|| frames(names, stack).next())
        .and_then(|found| line(names, found))
}

/// The line of the user's code that called the function which owns an allocation; `None`: no such line called it, or it
/// is not known.
pub fn caller(names: &Names, stacks: StackKey) -> Option<Line> {
    let called = |found: &(&PyFrame, &Code)| names.is_user_code(&found.1.file);
    let stack = match names.backwards.get(&stacks.py) {
        None => stacks.py,
        Some(ran) if newer_line(names, ran).is_some() => {
            let mut own = coded(names, ran.newer_frames(names)).filter(called);
            return own.nth(1).and_then(|found| line(names, found));
        }
        Some(ran) => match chain(names, ran).1 {
            Origin::Forward(stack) => stack,
            Origin::NoPython | Origin::Lost => return None,
        },
    };
    let mut own = frames(names, stack).filter(called);
    own.nth(1).and_then(|found| line(names, found))
}

/// The line of the script that runs: the newest frame in the script. The script is the file of the user's code whose
/// body (`<module>`) runs, the newest if there are several. In a thread without such a frame, it is the file of the
/// oldest frame of the user's code. An autograd node counts for the current line of its thread.
pub fn script_line(names: &Names, stack: StackId) -> Option<Line> {
    let stack = names.own_stack(stack);
    let own = || frames(names, stack).filter(|(_, code)| names.is_user_code(&code.file));
    let script = own()
        .find(|(_, code)| code.name == "<module>")
        .or_else(|| own().next_back())
        .or_else(|| frames(names, stack).next_back())
        .map(|(_, code)| &code.file)?;
    let newest = frames(names, stack).find(|(_, code)| code.file == *script)?;
    line(names, newest)
}

/// Whether a stack within an optimizer's step is in the closure that some optimizers (LBFGS) run to compute the loss
/// again. In the closure, the newest frame of the user's code is called by a frame of an optimizer's file. A
/// user-defined optimizer is called by the base class's file.
pub fn is_in_closure(names: &Names, stack: StackId) -> bool {
    let mut older = frames(names, names.own_stack(stack))
        .skip_while(|(_, code)| !names.is_user_code(&code.file));
    older
        .find_map(|(_, code)| code.file.rsplit_once("/torch/optim/"))
        .is_some_and(|(_, file)| file != "optimizer.py")
}

/// Whether a stack is in the function of an optimizer that computes with all parameters at once (`foreach`): what it
/// allocates is temporary, except for SGD, which makes its state there.
pub fn is_in_foreach(names: &Names, stack: StackId) -> bool {
    frames(names, names.own_stack(stack)).any(|(_, code)| {
        let is_multi = code.name.starts_with("_multi_tensor_") && code.name != "_multi_tensor_sgd";
        is_multi && code.file.contains("/torch/optim/")
    })
}

/// Whether a stack is in a part of the model that `torch.utils.checkpoint` runs.
pub fn is_in_checkpoint(names: &Names, stack: StackId) -> bool {
    frames(names, names.own_stack(stack))
        .any(|(_, code)| code.file.ends_with("/torch/utils/checkpoint.py"))
}

/// The program's line that calls into a file of PyTorch or Python, such as `/copy.py`, if a stack goes through that.
pub fn caller_of(names: &Names, stack: StackId, file: &str) -> Option<Line> {
    let is_in = |code: &Code| code.file.ends_with(file) && !names.is_user_code(&code.file);
    let made_by = names.backwards.get(&stack).map(|ran| chain(names, ran).1);
    let stack = match made_by {
        Some(Origin::Forward(forward)) => forward,
        _ => stack,
    };
    let mut callers = frames(names, stack).skip_while(|(_, code)| !is_in(code));
    line(
        names,
        callers.find(|(_, code)| names.is_user_code(&code.file))?,
    )
}

/// The library of PyTorch's caching allocator, which takes memory from the driver for all tensors.
pub const PYTORCH_ALLOCATOR: &str = "libc10_cuda.so";

/// The library that owns an allocation: the caller. If the caller is unknown or one of CUDA's libraries, the newest
/// native frame outside CUDA's libraries and ours; for tensors also outside PyTorch's allocator, which is on the stack
/// of every tensor. The program itself is shown by its file name.
pub fn library(names: &Names, stacks: StackKey, level: Level) -> Option<String> {
    let caller = stacks
        .caller
        .module()
        .and_then(|index| names.modules.get(index as usize))
        .map(|module| module.basename())
        .filter(|name| !is_cuda(name));
    if let Some(caller) = caller {
        return Some(caller.to_owned());
    }
    let (frames, _) = names.native_stacks.get(&stacks.native)?;
    frames
        .iter()
        .filter_map(|frame| names.module(frame))
        .map(|module| module.basename())
        .find(|name| !is_cuda(name) && (level != Level::TENSOR || !name.starts_with("libc10")))
        .map(str::to_owned)
}

/// Whether a library is CUDA's runtime or driver, which all calls go through, or ours.
fn is_cuda(library: &str) -> bool {
    library.starts_with("libcuda") || library.starts_with("libgpumem")
}

#[cfg(test)]
mod tests;
