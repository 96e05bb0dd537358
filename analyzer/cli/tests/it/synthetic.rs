//! Captures of programs that never ran, written with the real writer.

use std::path::{Path, PathBuf};

use gpumem_capture::*;

/// MiB.
pub const M: u64 = 1 << 20;

/// A capture under construction. Its event times are artificial: one millisecond per event, from 3.2 s on, so that the
/// real time of the test's end is earlier.
pub struct Synthetic {
    writer: &'static Writer,
    path: PathBuf,
    now: u64,
    /// Python stacks by their lines, native stacks by their addresses.
    next: u32,
    /// The thread of the next events: 0 is the main thread.
    pub thread: u32,
}

/// A Python line: file, function, line, whether entered from C.
pub type PyLine = (&'static str, &'static str, u32, bool);

impl Synthetic {
    /// A capture in `folder`, with one GPU, an API and the modules of a torch process.
    pub fn new(folder: &Path) -> Self {
        Self::with_options(folder, &Options::default())
    }

    pub fn with_options(folder: &Path, options: &Options) -> Self {
        let path = folder.join("report.bin");
        let writer = Writer::create(&path, options).expect("a new file");
        let mut capture = Self {
            writer,
            path,
            now: 3_200_000_000,
            next: 1,
            thread: 0,
        };
        capture.fact(ProcessKey::COMMAND, "python train.py --epochs 2");
        capture.fact(ProcessKey::DIRECTORY, "/home/me/run");
        capture.fact(ProcessKey::RANK, "0");
        capture.fact(ProcessKey::WORLD_SIZE, "1");
        capture.device(0);
        for function in ["cuMemAlloc_v2", "cuMemFree_v2"] {
            let (function, way, library) =
                (function.into(), "dlsym".into(), "libcudart.so.13".into());
            capture.define(&Definition::Hook {
                function,
                way,
                library,
            });
        }
        capture.define(&Definition::Api {
            id: ApiId(1),
            name: "pytorch".into(),
        });
        capture.define(&Definition::Python {
            version: 0x030c_01f0,
            eval_start: 0x10_2000,
            eval_end: 0x10_3000,
        });
        let modules = [
            (1, 0x10_0000, "/usr/bin/python3.12"),
            (2, 0x20_0000, "/env/torch/lib/libc10_cuda.so"),
            (3, 0x30_0000, "/env/torch/lib/libtorch_cuda.so"),
            (4, 0x40_0000, "/env/lib/libcublas.so.13"),
            (5, 0x50_0000, "/env/lib/libcudart.so.13"),
            (6, 0x60_0000, "/opt/gpumem/libgpumem.so"),
        ];
        for (id, start, path) in modules {
            capture.define(&Definition::Module {
                id: ModuleId(id),
                bias: start,
                start,
                end: start + 0x1_0000,
                path: path.into(),
                build_id: vec![id as u8; 20],
            });
        }
        capture
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn define(&mut self, definition: &Definition) {
        self.writer
            .definition(definition.kind(), &[&definition.payload()])
            .expect("room in the ring");
    }

    pub fn fact(&mut self, key: &str, value: &str) {
        self.define(&Definition::Process {
            key: key.into(),
            value: value.into(),
        });
    }

    pub fn device(&mut self, ordinal: u8) {
        self.define(&Definition::Device {
            ordinal: DeviceOrdinal(ordinal),
            total_bytes: 16 << 30,
            uuid: [ordinal + 1; 16],
            name: "Simulated GPU".into(),
            pci: format!("0000:{ordinal:02}:00.0"),
        });
    }

    /// A Python stack, the newest line first.
    pub fn python(&mut self, lines: &[PyLine]) -> StackId {
        self.python_in(lines, &[])
    }

    /// The same, with the PyTorch modules that its frames, from the newest on, call.
    pub fn python_in(&mut self, lines: &[PyLine], modules: &[(u32, u32)]) -> StackId {
        let mut frames = Vec::new();
        for (file, name, line, entered_from_c) in lines {
            let code = CodeId(self.next);
            self.next += 1;
            self.define(&Definition::Code {
                id: code,
                first_line: *line,
                file: (*file).into(),
                name: (*name).into(),
                line_table: Vec::new(),
            });
            frames.push(PyFrame {
                code,
                offset: 0,
                entered_from_c: *entered_from_c,
            });
        }
        let id = StackId(self.next);
        self.next += 1;
        self.define(&Definition::PyStack {
            id,
            truncated: false,
            modules: modules
                .iter()
                .map(|&(frame, module)| PyModule {
                    frame,
                    module: NnModuleId(module),
                })
                .collect(),
            frames,
        });
        id
    }

    /// A native stack, the newest return address first.
    pub fn native(&mut self, frames: &[u64]) -> StackId {
        let id = StackId(self.next);
        self.next += 1;
        self.define(&Definition::NativeStack {
            id,
            truncated: false,
            frames: frames.to_vec(),
        });
        id
    }

    /// A run of an autograd node: the stack of its forward, the thread's own stack and how many of its frames are newer
    /// than the node, whether the forward is lost, and the class.
    pub fn backward(
        &mut self,
        forward: StackId,
        (own, newer): (StackId, u32),
        lost: bool,
        class: &str,
    ) -> StackId {
        let id = StackId(self.next);
        self.next += 1;
        self.define(&Definition::Backward {
            id,
            lost,
            forward,
            own,
            newer,
            node: format!("N5torch8autograd9generated{}{class}E", class.len()),
        });
        id
    }

    /// A mark: of a step, a phase, a range.
    pub fn mark(&mut self, kind: EventKind, aux: u64) -> Seq {
        self.event(Event {
            kind,
            aux,
            device: DeviceOrdinal::NONE,
            ..Event::default()
        })
    }

    /// Begins a range.
    pub fn push_range(&mut self, id: u32, name: &str) {
        self.define(&Definition::Range {
            id,
            name: name.into(),
        });
        self.mark(EventKind::RANGE_BEGIN, u64::from(id));
    }

    /// Advances the time by `ns`.
    pub fn idle(&mut self, ns: u64) {
        self.now += ns;
    }

    /// Records an event; returns its number.
    pub fn event(&mut self, mut event: Event) -> Seq {
        self.now += 1_000_000;
        event.time = Nanos(self.now);
        event.api = ApiId(1);
        event.thread = ThreadId(std::process::id() + self.thread);
        self.writer.event(&event).expect("room in the ring")
    }

    pub fn alloc(
        &mut self,
        level: Level,
        ptr: u64,
        bytes: u64,
        py: StackId,
        native: StackId,
    ) -> Seq {
        let (py_stack, native_stack) = (py, native);
        self.event(Event {
            kind: EventKind::ALLOC,
            level,
            ptr,
            bytes,
            py_stack,
            native_stack,
            ..Event::default()
        })
    }

    /// A tensor while the pool holds `reserved`.
    pub fn tensor(
        &mut self,
        ptr: u64,
        bytes: u64,
        reserved: u64,
        py: StackId,
        native: StackId,
    ) -> Seq {
        let (py_stack, native_stack, aux, level) = (py, native, reserved, Level::TENSOR);
        let kind = EventKind::ALLOC;
        self.event(Event {
            kind,
            level,
            ptr,
            bytes,
            aux,
            py_stack,
            native_stack,
            ..Event::default()
        })
    }

    /// A tensor, if the ring has space; returns whether it had.
    pub fn try_tensor(&mut self, ptr: u64, bytes: u64, py_stack: StackId) -> bool {
        self.now += 1_000_000;
        let (kind, time) = (EventKind::ALLOC, Nanos(self.now));
        self.writer
            .event(&Event {
                kind,
                time,
                ptr,
                bytes,
                py_stack,
                ..Event::default()
            })
            .is_ok()
    }

    pub fn free_tensor(&mut self, ptr: u64, bytes: u64, reserved: u64, py: StackId) -> Seq {
        let (py_stack, aux, level) = (py, reserved, Level::TENSOR);
        self.event(Event {
            kind: EventKind::FREE,
            level,
            ptr,
            bytes,
            aux,
            py_stack,
            ..Event::default()
        })
    }

    /// Device memory from CUDA, of the kind in `flags`, requested by the code at `caller`.
    pub fn asked(&mut self, ptr: u64, bytes: u64, flags: EventFlags, caller: u64, py: StackId) {
        self.event(Event {
            kind: EventKind::ALLOC,
            level: Level::DRIVER,
            ptr,
            bytes,
            aux: caller,
            flags,
            py_stack: py,
            ..Event::default()
        });
    }

    /// The physical memory for it: pages, or a VMM handle.
    pub fn given(&mut self, ptr: u64, bytes: u64, flags: EventFlags) {
        self.event(Event {
            kind: EventKind::ALLOC,
            level: Level::PHYSICAL,
            ptr,
            bytes,
            flags,
            ..Event::default()
        });
    }

    /// A free at any level.
    pub fn freed(&mut self, level: Level, ptr: u64, bytes: u64, flags: EventFlags) -> Seq {
        self.event(Event {
            kind: EventKind::FREE,
            level,
            ptr,
            bytes,
            flags,
            ..Event::default()
        })
    }

    /// A reservation's new size.
    pub fn resize(
        &mut self,
        ptr: u64,
        (before, bytes): (u64, u64),
        flags: EventFlags,
        py: StackId,
    ) {
        self.event(Event {
            kind: EventKind::RESIZE,
            level: Level::PHYSICAL,
            ptr,
            bytes,
            aux: before,
            flags,
            py_stack: py,
            ..Event::default()
        });
    }

    /// A reading of NVML: this process, all others, and the physical level at that time.
    pub fn sample(&mut self, process: u64, others: u64, physical: u64, flags: EventFlags) -> Seq {
        self.event(Event {
            kind: EventKind::SAMPLE,
            ptr: physical,
            bytes: process,
            aux: others,
            flags,
            ..Event::default()
        })
    }

    /// The card's figures: used, and reserved by the driver.
    pub fn card(&mut self, used: u64, reserved: u64) {
        self.event(Event {
            kind: EventKind::CARD,
            ptr: 16 << 30,
            bytes: used,
            aux: reserved,
            ..Event::default()
        });
    }

    /// Ends the process cleanly.
    pub fn finish(self) -> PathBuf {
        self.writer.finish();
        self.path
    }

    /// The same at the last event's time, for records made by another process.
    pub fn finish_then(self) -> PathBuf {
        self.writer.finish_at(Nanos(self.now));
        self.path
    }
}
