//! Frames of a snapshot as Python stacks and native stacks.
//!
//! PyTorch puts both kinds into one list, without marking their kind. A frame of a library becomes a place in a
//! module: its file is the library, its line the address in it. A frame of a C++ source file becomes a place in one
//! module for all of these. The names of both are kept as embedded names. All other frames are Python's. PyTorch does
//! not record the lines of code objects, so each line becomes a separate code object.
//!
//! In mixed lists, a Python frame precedes each of the interpreter's evaluation frames while Python frames remain;
//! the remaining ones follow the last native frame (torch/csrc/profiler/python/combined_traceback.cpp). So the order
//! within each kind is right and the order between the kinds is not. The kinds are therefore separate stacks, as in a
//! recorded capture.

use gpumem_capture::{CodeId, Definition, Function, ModuleId, PyFrame, StackId};
use rustc_hash::FxHashMap;

use super::capture::{CaptureError, Out, cut};
use super::snapshot::Snapshot;
use super::source::Source;
use crate::attribution::PYTORCH_ALLOCATOR;
use crate::pickle::{DictId, ListId};

/// The maximum number of frames of a stack: the newest.
const FRAMES: usize = 4096;
/// Address space of a module: larger than any library.
const MODULE_BYTES: u64 = 1 << 36;
/// How many libraries have separate address space. All others share the one of C++ source files.
const MODULES: usize = 1 << 16;
/// The module for C++ code whose library is unknown.
const SOURCES: &str = "C++";
/// CPython's evaluation function.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";
/// Functions of PyTorch that collect the stack. They and newer frames are not part of it.
const TAKES_STACKS: [&str; 3] = [
    "torch::unwind::",
    "torch::CapturedTraceback::",
    "torch::gather_with_cpp",
];

/// A pair of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stacks {
    pub py: StackId,
    pub native: StackId,
}

/// A frame, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    Python(CodeId),
    Native(u64),
}

/// The role of a native frame.
#[derive(Clone, Copy, Debug, Default)]
struct Role {
    takes_stacks: bool,
    allocates: bool,
    evaluates: bool,
}

/// A place in native code that has a name.
#[derive(Debug)]
struct Place {
    module: ModuleId,
    address: u64,
    function: Function,
}

/// Defines stacks, each once.
pub(super) struct Frames {
    by_list: FxHashMap<ListId, Stacks>,
    python: FxHashMap<Vec<PyFrame>, StackId>,
    native: FxHashMap<Vec<u64>, StackId>,
    by_frame: FxHashMap<DictId, Known>,
    frames: FxHashMap<(Vec<u8>, Vec<u8>, u64), Known>,
    roles: FxHashMap<u64, Role>,
    modules: FxHashMap<String, ModuleId>,
    places: Vec<Place>,
    /// Places in C++ source files.
    sources: u64,
    codes: u32,
    stacks: u32,
}

impl Frames {
    /// Writes the definitions that all stacks need.
    pub fn new(out: &mut Out) -> Result<Self, CaptureError> {
        let mut frames = Self {
            by_list: FxHashMap::default(),
            python: FxHashMap::default(),
            native: FxHashMap::default(),
            by_frame: FxHashMap::default(),
            frames: FxHashMap::default(),
            roles: FxHashMap::default(),
            modules: FxHashMap::default(),
            places: Vec::new(),
            sources: 0,
            codes: 0,
            stacks: 0,
        };
        frames.module(PYTORCH_ALLOCATOR, out)?;
        Ok(frames)
    }

    /// The return address of a call that PyTorch's allocator makes.
    pub fn allocator(&self) -> u64 {
        MODULE_BYTES + 1
    }

    /// The stacks of a list of frames; none without a list.
    pub fn stacks(
        &mut self,
        snapshot: &Snapshot<'_>,
        list: Option<ListId>,
        out: &mut Out,
    ) -> Result<Stacks, CaptureError> {
        let Some(list) = list else {
            return Ok(Stacks::default());
        };
        if let Some(known) = self.by_list.get(&list) {
            return Ok(*known);
        }
        let (mut python, mut native) = (Vec::new(), Vec::new());
        let mut cut_off = false;
        for frame in snapshot.frames(list) {
            if python.len() + native.len() == FRAMES {
                cut_off = true;
                break;
            }
            match self.known(snapshot, frame, out)? {
                Known::Python(code) => python.push(PyFrame {
                    code,
                    offset: 0,
                    entered_from_c: false,
                }),
                Known::Native(address) => native.push(address),
            }
        }
        self.without_taking(&mut native);
        let evaluates =
            |address: &&u64| self.roles.get(*address).is_some_and(|role| role.evaluates);
        // If there are as many evaluation frames as Python frames, each Python frame was entered from C. Otherwise it
        // is unknown which ones were, and the analyzer interleaves only what is certain.
        if native.iter().filter(evaluates).count() == python.len() {
            for frame in &mut python {
                frame.entered_from_c = true;
            }
        }
        let stacks = Stacks {
            py: self.python_stack(python, cut_off, out)?,
            native: self.native_stack(native, cut_off, out)?,
        };
        self.by_list.insert(list, stacks);
        Ok(stacks)
    }

    /// The names of native code, for [`gpumem_capture::embedded::embed`].
    pub fn symbols(self) -> impl Iterator<Item = Definition> {
        self.places.into_iter().map(|place| Definition::Symbol {
            module: place.module,
            address: place.address,
            functions: vec![place.function],
        })
    }

    /// Whether any native code has a name.
    pub fn has_symbols(&self) -> bool {
        !self.places.is_empty()
    }

    /// Removes the frames with which PyTorch collected the stack, above its allocator.
    fn without_taking(&self, native: &mut Vec<u64>) {
        let role = |address: &u64| self.roles.get(address).copied().unwrap_or_default();
        let Some(last) = native
            .iter()
            .rposition(|address| role(address).takes_stacks)
        else {
            return;
        };
        let allocator = native.iter().position(|address| role(address).allocates);
        native.drain(..allocator.unwrap_or(0).max(last + 1));
    }

    fn python_stack(
        &mut self,
        frames: Vec<PyFrame>,
        truncated: bool,
        out: &mut Out,
    ) -> Result<StackId, CaptureError> {
        if frames.is_empty() {
            return Ok(StackId::NONE);
        }
        if let Some(known) = self.python.get(&frames) {
            return Ok(*known);
        }
        let id = self.next_stack();
        out.define(&Definition::PyStack {
            id,
            truncated,
            modules: Vec::new(),
            frames: frames.clone(),
        })?;
        self.python.insert(frames, id);
        Ok(id)
    }

    fn native_stack(
        &mut self,
        frames: Vec<u64>,
        truncated: bool,
        out: &mut Out,
    ) -> Result<StackId, CaptureError> {
        if frames.is_empty() {
            return Ok(StackId::NONE);
        }
        if let Some(known) = self.native.get(&frames) {
            return Ok(*known);
        }
        let id = self.next_stack();
        out.define(&Definition::NativeStack {
            id,
            truncated,
            frames: frames.clone(),
        })?;
        self.native.insert(frames, id);
        Ok(id)
    }

    fn next_stack(&mut self) -> StackId {
        self.stacks += 1;
        StackId(self.stacks)
    }

    fn known(
        &mut self,
        snapshot: &Snapshot<'_>,
        id: DictId,
        out: &mut Out,
    ) -> Result<Known, CaptureError> {
        if let Some(known) = self.by_frame.get(&id) {
            return Ok(*known);
        }
        let frame = snapshot.frame(id);
        let text = |text| snapshot.bytes(text);
        let (file, name) = (
            frame.file.map_or(&b""[..], text),
            frame.name.map_or(&b""[..], text),
        );
        let key = (file.to_vec(), name.to_vec(), frame.line);
        if let Some(known) = self.frames.get(&key).copied() {
            self.by_frame.insert(id, known);
            return Ok(known);
        }
        let (file, name) = (String::from_utf8_lossy(file), String::from_utf8_lossy(name));
        let known = match Source::of(&file, &name) {
            Source::Python => {
                self.codes += 1;
                let code = CodeId(self.codes);
                out.define(&Definition::Code {
                    id: code,
                    first_line: u32::try_from(frame.line).unwrap_or(0),
                    file: cut(&file),
                    name: cut(&name),
                    line_table: Vec::new(),
                })?;
                Known::Python(code)
            }
            Source::Library if frame.line < MODULE_BYTES && self.modules.len() < MODULES => {
                let module = self.module(&file, out)?;
                self.native_frame(
                    module,
                    frame.line,
                    Function {
                        name: cut(&name),
                        ..Function::default()
                    },
                )
            }
            Source::Library | Source::Cpp => {
                let module = self.module(SOURCES, out)?;
                self.sources += 1;
                let known = !["", "??"].contains(&&*file);
                self.native_frame(
                    module,
                    self.sources,
                    Function {
                        name: cut(&name),
                        file: if known { cut(&file) } else { String::new() },
                        line: u32::try_from(frame.line).unwrap_or(0),
                    },
                )
            }
        };
        if let Known::Native(address) = known {
            let library = file.rsplit('/').next().unwrap_or_default();
            self.roles.insert(
                address,
                Role {
                    takes_stacks: TAKES_STACKS.iter().any(|taker| name.starts_with(taker)),
                    allocates: library.starts_with("libc10_cuda"),
                    evaluates: library.contains("python") && name.starts_with(EVALUATION),
                },
            );
        }
        self.frames.insert(key, known);
        self.by_frame.insert(id, known);
        Ok(known)
    }

    /// The return address of a place, whose name is kept.
    fn native_frame(&mut self, module: ModuleId, address: u64, function: Function) -> Known {
        if !["", "??"].contains(&function.name.as_str()) {
            self.places.push(Place {
                module,
                address,
                function,
            });
        }
        // Frames are looked up at the byte before their return address.
        Known::Native(u64::from(module.0) * MODULE_BYTES + address + 1)
    }

    fn module(&mut self, path: &str, out: &mut Out) -> Result<ModuleId, CaptureError> {
        if let Some(known) = self.modules.get(path) {
            return Ok(*known);
        }
        let id = ModuleId(self.modules.len() as u32 + 1);
        let start = u64::from(id.0) * MODULE_BYTES;
        out.define(&Definition::Module {
            id,
            bias: start,
            start,
            end: start + MODULE_BYTES,
            path: cut(path),
            build_id: Vec::new(),
        })?;
        self.modules.insert(path.to_owned(), id);
        Ok(id)
    }
}
