//! The capture's definitions, which give the numbers in events their meaning.

mod call_times;
mod define;
mod definitions;
mod module_names;
mod nn_modules;
mod paths;
#[cfg(test)]
pub(crate) mod samples;
mod serialize;
mod user_code;

use gpumem_capture::{
    ApiId, CodeId, DeviceOrdinal, Function, ModuleId, ProcessKey, PyFrame, StackId, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

pub use call_times::{CallOutcome, CallTimes};
pub use definitions::{Code, Device, Hook, Interpreter, Module, NativeFrame};
pub use nn_modules::NO_MODULE;
use nn_modules::NnModules;
pub(crate) use user_code::is_outside_torch;
pub use user_code::{OwnPackages, is_planner};

use crate::ids::{NodeId, StackKey};
use crate::node::Backward;

/// All definitions of a capture read so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of API functions.
    pub apis: FxHashMap<ApiId, String>,
    /// Python code objects.
    pub codes: FxHashMap<CodeId, Code>,
    /// Python stacks, newest frame first; whether older frames were cut off.
    pub py_stacks: FxHashMap<StackId, (Vec<PyFrame>, bool)>,
    /// Python stacks that stand for a run of an autograd node.
    pub backwards: FxHashMap<StackId, Backward>,
    /// Native stacks, newest frame first; whether older frames were cut off.
    pub native_stacks: FxHashMap<StackId, (Vec<NativeFrame>, bool)>,
    /// Every module that was ever loaded.
    pub modules: Vec<Module>,
    /// Names of ranges.
    pub ranges: FxHashMap<u32, String>,
    /// Names of threads.
    pub threads: FxHashMap<ThreadId, String>,
    /// Devices by ordinal.
    pub devices: BTreeMap<DeviceOrdinal, Device>,
    /// Facts about the process: see [`gpumem_capture::ProcessKey`].
    pub process: BTreeMap<String, String>,
    /// Hooks that were armed, in order.
    pub hooks: Vec<Hook>,
    /// Messages of the recorder for the reader.
    pub notes: Vec<String>,
    /// The interpreter, if the process had one.
    pub interpreter: Option<Interpreter>,
    /// Functions at addresses of modules, as they were embedded: by the module's number and the link address, the
    /// innermost first. Module 0 stands for code in no module, with absolute addresses.
    pub symbols: FxHashMap<(ModuleId, u64), Vec<Function>>,
    /// PyTorch modules.
    nn: NnModules,
    /// Installed packages that the recorded process named as its user's own code.
    pub(crate) own_packages: OwnPackages,
    /// Definitions of kinds that this analyzer does not know, or cannot read.
    pub unknown: u64,
    /// Modules loaded now, by first address: indices into `modules`.
    loaded: BTreeMap<u64, u32>,
    /// Names of autograd nodes' classes as in the capture, and their numbers.
    nodes: Vec<String>,
    node_ids: FxHashMap<String, NodeId>,
}

impl Names {
    /// A class of autograd nodes, as in the capture: usually a mangled name.
    pub fn node(&self, id: NodeId) -> &str {
        self.nodes.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The names of all classes of autograd nodes, as in the capture.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(String::as_str)
    }

    /// The Python stack of the thread itself; for a run of a node, this is not the stack of its forward.
    pub fn own_stack(&self, stack: StackId) -> StackId {
        self.backwards.get(&stack).map_or(stack, |ran| ran.own)
    }

    /// Whether a Python stack, and what it refers to, is in the capture.
    pub fn has_python(&self, stack: StackId) -> bool {
        match self.backwards.get(&stack) {
            Some(ran) => ran.is_whole(self),
            None => stack.is_named() || self.py_stacks.contains_key(&stack),
        }
    }

    /// Whether a native stack is in the capture.
    pub fn has_native(&self, stack: StackId) -> bool {
        stack.is_named() || self.native_stacks.contains_key(&stack)
    }

    /// Keeps only the stacks and code objects that `needed` refers to, and those with the newest ids.
    pub(crate) fn retain_stacks(&mut self, needed: &[StackKey], newest: u32) {
        let from =
            |ids: &mut dyn Iterator<Item = u32>| ids.max().unwrap_or(0).saturating_sub(newest);
        let mut python = self.py_stacks.keys().chain(self.backwards.keys());
        let first_python = from(&mut python.by_ref().map(|id| id.0));
        let first_native = from(&mut self.native_stacks.keys().map(|id| id.0));
        let recent = self.py_stacks.keys().chain(self.backwards.keys());
        let recent = recent.copied().filter(|id| id.0 >= first_python);
        let mut todo: Vec<StackId> = needed.iter().map(|key| key.py).chain(recent).collect();
        let mut python: FxHashSet<StackId> = FxHashSet::default();
        while let Some(stack) = todo.pop() {
            if python.insert(stack)
                && let Some(ran) = self.backwards.get(&stack)
            {
                todo.extend([ran.forward, ran.own]);
            }
        }
        let native: FxHashSet<StackId> = needed.iter().map(|key| key.native).collect();
        self.py_stacks.retain(|id, _| python.contains(id));
        self.backwards.retain(|id, _| python.contains(id));
        self.nn.retain_stacks(|id| python.contains(&id));
        self.native_stacks
            .retain(|id, _| id.0 >= first_native || native.contains(id));
        let frames = self.py_stacks.values().flat_map(|(frames, _)| frames);
        let codes: FxHashSet<CodeId> = frames.map(|frame| frame.code).collect();
        let first_code = from(&mut self.codes.keys().map(|id| id.0));
        self.codes
            .retain(|id, _| id.0 >= first_code || codes.contains(id));
        self.py_stacks.shrink_to_fit();
        self.native_stacks.shrink_to_fit();
        self.codes.shrink_to_fit();
    }

    /// Calls of each hooked function, as the recorder wrote them at exit.
    pub fn calls(&self) -> impl Iterator<Item = (&str, u64)> {
        self.process.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix(ProcessKey::CALLS)?, value.parse().ok()?))
        })
    }

    /// Calls of one hooked function.
    pub fn calls_of(&self, function: &str) -> Option<u64> {
        let key = format!("{}{function}", ProcessKey::CALLS);
        self.process.get(&key)?.parse().ok()
    }

    /// The module that currently contains an address: an index into [`Names::modules`].
    pub fn module_at(&self, address: u64) -> Option<u32> {
        self.loaded
            .range(..=address)
            .next_back()
            .map(|(_, index)| *index)
            .filter(|index| address < self.modules[*index as usize].end)
    }

    /// The module that a frame lies in.
    pub fn module(&self, frame: &NativeFrame) -> Option<&Module> {
        self.modules.get(frame.module? as usize)
    }

    /// A fact about the process.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.process.get(key).map(String::as_str)
    }

    /// The command as typed: the program without its folders.
    pub fn command(&self) -> Option<&str> {
        self.fact(gpumem_capture::ProcessKey::COMMAND)
            .map(short_command)
    }

    /// The current line of a Python frame; the code's first line if its table has none.
    pub fn line(&self, frame: &PyFrame) -> Option<u32> {
        let code = self.codes.get(&frame.code)?;
        let version = self
            .interpreter
            .map_or(0, |interpreter| interpreter.version);
        let line = crate::python::line(version, code.first_line, &code.line_table, frame.offset);
        Some(line.unwrap_or(code.first_line))
    }

    /// The directory in which the recorded process was started. Relative names refer to it.
    pub fn directory(&self) -> Option<&str> {
        self.fact(gpumem_capture::ProcessKey::DIRECTORY)
    }

    /// A short file name for people: relative to the recorded working directory if it is below that, or to the folder
    /// of installed packages if it is in one.
    pub fn short_path<'a>(&self, file: &'a str) -> &'a str {
        let below = |directory: &str| file.strip_prefix(directory)?.strip_prefix('/');
        let installed = ["/site-packages/", "/dist-packages/"]
            .iter()
            .filter_map(|folder| Some(&file[file.rfind(folder)? + folder.len()..]))
            .next();
        installed
            .or_else(|| below(self.directory()?))
            .unwrap_or(file)
    }
}

/// A command line without the folders of its program. A quoted program is left as it is.
pub fn short_command(command: &str) -> &str {
    let program = command.find(' ').unwrap_or(command.len());
    let slash = command[..program].rfind('/');
    let plain = !command.starts_with('\'');
    slash
        .filter(|_| plain)
        .map_or(command, |slash| &command[slash + 1..])
}

#[cfg(test)]
mod tests {
    use gpumem_capture::Definition;

    use super::*;

    fn module(id: u32, start: u64, path: &str) -> Definition {
        Definition::Module {
            id: ModuleId(id),
            bias: start,
            start,
            end: start + 0x1000,
            path: path.into(),
            build_id: vec![],
        }
    }

    fn stack(id: u32, address: u64) -> Definition {
        Definition::NativeStack {
            id: StackId(id),
            truncated: false,
            frames: vec![address],
        }
    }

    #[test]
    fn a_stack_points_into_the_module_that_was_loaded_when_it_was_taken() {
        let mut names = Names::default();
        for definition in [
            module(1, 0x1000, "/lib/one.so"),
            stack(1, 0x1800),
            Definition::ModuleEnd { id: ModuleId(1) },
            stack(2, 0x1800),
            module(2, 0x1000, "/lib/two.so"),
            stack(3, 0x1800),
            stack(4, 0x2000),
            stack(5, 0x2001),
        ] {
            names.define(&definition);
        }
        let owner = |id| {
            let frame = names.native_stacks[&StackId(id)].0[0];
            names.module(&frame).map(Module::basename)
        };
        assert_eq!(owner(1), Some("one.so"));
        assert_eq!(owner(2), None);
        assert_eq!(owner(3), Some("two.so"));
        assert_eq!(
            owner(4),
            Some("two.so"),
            "a call at the module's very end returns past it"
        );
        assert_eq!(owner(5), None);
    }

    #[test]
    fn paths_are_shortened_at_whole_parts_only() {
        let mut names = Names::default();
        names
            .process
            .insert("directory".into(), "/home/me/run".into());
        assert_eq!(names.short_path("/home/me/run/train.py"), "train.py");
        let installed = "/home/me/run/env/lib/python3.12/site-packages/torch/nn/functional.py";
        assert_eq!(names.short_path(installed), "torch/nn/functional.py");
        assert_eq!(
            names.short_path("/home/me/running/train.py"),
            "/home/me/running/train.py"
        );
    }
}
