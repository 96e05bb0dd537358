//! Definitions: records of variable size that give names to the numbers in events.
//!
//! Slot 0 of a definition has the layout of an event, with `kind` = the definition's kind, `bytes` = the payload's
//! length in bytes, and `slots` = 1 + ceil(length / 64). The payload follows in the next slots. All integers are
//! little-endian. `str` is a u32 length and that many bytes of UTF-8; `bytes` has the same form.

use crate::{ApiId, CodeId, DeviceOrdinal, ModuleId, NnModuleId, PlacementId, StackId, ThreadId};

/// The kind of a definition. A reader skips unknown kinds.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefKind(pub u8);

impl DefKind {
    /// u16 id, str name.
    pub const API: Self = Self(128);
    /// u32 id, u32 first line, u32 flags (0), str file name, str qualified name, bytes line table (in CPython's format,
    /// which depends on the Python version in [`DefKind::PYTHON`]).
    pub const CODE: Self = Self(129);
    /// u32 id, u32 flags (bit 0: deeper frames were cut off; bit 1: frames call modules of PyTorch's), u32 count, then for each frame, the
    /// newest first, u32 code id and u32 word: bits 0–30 the instruction's offset in bytes from the
    /// start of the code plus 16 (so that −1 and the like stay positive), bit 31 set where the frame
    /// was entered from C (the next older frame belongs to another C call of the interpreter). With
    /// bit 1 of the flags follow u32 count, then for each frame that calls a module, the newest first, u32 its
    /// place (0: the newest frame's) and u32 the module's id ([`DefKind::NN_MODULE`]).
    pub const PY_STACK: Self = Self(130);
    /// u32 id, u32 flags (bit 0: cut off), u32 count, then for each frame, the newest first, u64
    /// return address (absolute). Symbolise at address − 1.
    pub const NATIVE_STACK: Self = Self(131);
    /// u32 id, u64 bias (load address − link address), u64 first address, u64 end address, str path,
    /// bytes build id (empty: none).
    pub const MODULE: Self = Self(132);
    /// u32 id: the module was unloaded.
    pub const MODULE_END: Self = Self(133);
    /// u32 thread id, str name.
    pub const THREAD: Self = Self(134);
    /// u8 ordinal, u64 total bytes, bytes UUID (16), str name, str PCI bus id.
    pub const DEVICE: Self = Self(135);
    /// str key, str value: a fact about the process. See [`ProcessKey`].
    pub const PROCESS: Self = Self(136);
    /// str function, str method ("symbol", "dlsym", "cuGetProcAddress"), str library that requested it: a hook was
    /// installed.
    pub const HOOK: Self = Self(137);
    /// u32 hex version (0x030c01f0), u64 first and u64 end address of the interpreter's evaluation
    /// function, zeros if unknown.
    pub const PYTHON: Self = Self(138);
    /// str text: a note that the account must include.
    pub const NOTE: Self = Self(139);
    /// The work of an autograd node while it ran: u32 id, from the ids of Python stacks; u32 flags (bit 0: the forward
    /// line that created the node is lost); u32 stack of the forward that created the node (0: none; it may itself be
    /// of this kind, for a node that was created while a node ran); u32 the thread's own Python stack (0: none); u32
    /// how many of its newest frames are newer than the node's run; str name of the node's class from C++ type
    /// information (mangled).
    pub const BACKWARD: Self = Self(140);
    /// u32 id, str text: the name of a range.
    pub const RANGE: Self = Self(141);
    /// The functions at an address of a module, embedded by `gpumem-analyze check --symbolize`: u32 module id, u64 link
    /// address, u32 count, then for each function, the innermost inlined one first, str name (demangled), str file
    /// (empty: unknown), u32 line (0: unknown).
    pub const SYMBOL: Self = Self(142);
    /// A PyTorch module object: u32 id, u64 address of the object, str name of its class. An object of another type at
    /// the same address is another module.
    pub const NN_MODULE: Self = Self(143);
    /// The program's name for a module: u32 id, str qualified name (`blocks.3.attn.qkv`). The newest counts.
    pub const NN_MODULE_NAME: Self = Self(144);
    /// Where a framework's pool takes blocks from: u8 id (1 to 254; a new one replaces an older one of the device), u8
    /// device, u64 stream (its handle), u64 the framework's id of the stream (`u64::MAX`: unknown), u64 and u64 the
    /// framework's id of the pool (0 and 0: the default one).
    pub const PLACEMENT: Self = Self(145);
}

/// A function at an address of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Name, demangled.
    pub name: String,
    /// Source file; empty if it is not known.
    pub file: String,
    /// Line of it; 0 if it is not known.
    pub line: u32,
}

/// Keys of [`DefKind::PROCESS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessKey;

impl ProcessKey {
    /// Arguments of the command, each quoted for a shell, joined by spaces.
    pub const COMMAND: &'static str = "command";
    /// The program's path.
    pub const EXECUTABLE: &'static str = "executable";
    /// Working directory when the capture was opened: relative file names start there.
    pub const DIRECTORY: &'static str = "directory";
    /// Host name.
    pub const HOST: &'static str = "host";
    /// Rank of the process among `world_size`, from the launcher's environment.
    pub const RANK: &'static str = "rank";
    /// Number of ranks.
    pub const WORLD_SIZE: &'static str = "world_size";
    /// The rank's number among those on its node, from the launcher's environment.
    pub const LOCAL_RANK: &'static str = "local_rank";
    /// The number of its node among the nodes of the job.
    pub const NODE_RANK: &'static str = "node_rank";
    /// The job's ids in launchers and schedulers: `torchrun:run-7 slurm:4711`, separated by spaces. The same in all
    /// ranks of a job.
    pub const JOB: &'static str = "job";
    /// How often the launcher has restarted the ranks before this process.
    pub const RESTARTS: &'static str = "restarts";
    /// The number of times that the scheduler has requeued the job.
    pub const REQUEUES: &'static str = "requeues";
    /// The rank's position in each dimension of the job's parallelism ([`crate::Coordinates`]). The newest counts.
    pub const COORDINATES: &'static str = "coords";
    /// Version of the CUDA driver API, as returned by `cuDriverGetVersion`.
    pub const DRIVER_VERSION: &'static str = "driver_version";
    /// Version of libgpumem.so.
    pub const RECORDER_VERSION: &'static str = "recorder_version";
    /// Value of GPUMEM_STACKS in force.
    pub const STACKS: &'static str = "stacks";
    /// Value of GPUMEM_CODE: installed packages whose code is the user's own, separated by commas.
    pub const CODE: &'static str = "code";
    /// If stacks are sampled: the mean distance of the sample points in allocated bytes. A tensor of `b` bytes has
    /// stacks with probability `1 - exp(-b / distance)`; otherwise both are [`crate::StackId::NOT_SAMPLED`].
    pub const STACK_SAMPLE: &'static str = "stack_sample";
    /// Limits that make cards look smaller, in bytes: for all (`8589934592`) or for devices by ordinal
    /// (`0=8589934592,1=17179869184`); empty once they are removed. The newest counts.
    pub const LIMIT: &'static str = "limit";
    /// The source of a capture that the recorder did not write: `PyTorch snapshot dump.pickle`.
    pub const IMPORTED: &'static str = "imported";
    /// Prefix of all keys that describe the replay of a capture: see [`ProcessKey::REPLAYED_CAPTURE`] and the next
    /// ones.
    pub const REPLAYED: &'static str = "replayed_";
    /// Of a replay (`gpumem whatif --save`): the recorded capture's path.
    pub const REPLAYED_CAPTURE: &'static str = "replayed_capture";
    /// The device on which PyTorch's allocator was replayed, decimal.
    pub const REPLAYED_DEVICE: &'static str = "replayed_device";
    /// The allocator's settings in the replay; empty: the default.
    pub const REPLAYED_SETTINGS: &'static str = "replayed_settings";
    /// Bytes of the card in the replay, decimal.
    pub const REPLAYED_CARD: &'static str = "replayed_card";
    /// The version of PyTorch in the replay.
    pub const REPLAYED_PYTORCH: &'static str = "replayed_pytorch";
    /// Why the replay may differ from a run, one line each.
    pub const REPLAYED_DOUBTS: &'static str = "replayed_doubts";
    /// Prefix of a hooked function's name: the number of its calls, written at exit (`calls.cuMemAlloc_v2` = `17`).
    pub const CALLS: &'static str = "calls.";
    /// Prefix of the name of a hooked memory function: the durations of successful calls that a program or library made
    /// directly; written at exit. `17 3400000 900000 17:16 19:1`: calls, nanoseconds of all of them and of the longest
    /// one, then for each power of two the number of calls of at least 2^n ns and less than twice that. 9 includes
    /// shorter calls, 32 longer ones.
    pub const CALL_TIMES: &'static str = "call_times.";
    /// The same for calls that failed.
    pub const FAILED_CALL_TIMES: &'static str = "failed_call_times.";
    /// The same for successful calls in which a context was created or first seen or code was loaded, or that freed
    /// nothing (`cudaFree(NULL)`).
    pub const SET_UP_CALL_TIMES: &'static str = "set_up_call_times.";
    /// The seq of the last event by which the program left a phase, written at exit. Not written if an allocation
    /// failed after it.
    pub const TRAINED_UNTIL: &'static str = "trained_until";
    /// The data that was recorded about PyTorch's caching allocator, separated by spaces: `requested` (slack),
    /// `stream`, `pool`, `record_stream`, `released`, `calls` and `settings` ([`crate::AllocatorCall`]). The newest
    /// counts; absent: none.
    pub const ALLOCATOR_SEES: &'static str = "allocator_sees";
    /// PyTorch's allocator by name: `native`, `cudaMallocAsync`, `pluggable`.
    pub const ALLOCATOR_BACKEND: &'static str = "allocator_backend";
    /// The allocator's settings at the start, from PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF.
    pub const ALLOCATOR_CONF: &'static str = "allocator_conf";
    /// Unknown properties of the allocator that affect its behaviour under other settings: lines of text.
    pub const ALLOCATOR_UNKNOWN: &'static str = "allocator_unknown";
    /// By ordinal, the bytes that the allocator had and could have had when it ran out of memory, where cards are
    /// unknown: `0=8589934592,1=17179869184`.
    pub const ALLOCATOR_ROOM: &'static str = "allocator_room";
    /// PyTorch's version: `2.15.0+cu132`.
    pub const PYTORCH: &'static str = "pytorch";
    /// Prefix of the seq of an OUT_OF_MEMORY event: the text that was printed about it.
    pub const POSTMORTEM: &'static str = "postmortem.";

    /// Prefix of the seq of an OUT_OF_MEMORY event: who kept the largest blocks then.
    pub const HOLDERS: &'static str = "holders.";

    /// Prefix of the ordinal of a device: who kept its largest blocks near the newest peak.
    pub const PEAK_HOLDERS: &'static str = "peak_holders.";

    /// Whether the key's value has several lines.
    pub(crate) fn is_of_lines(key: &str) -> bool {
        matches!(key, Self::REPLAYED_DOUBTS | Self::ALLOCATOR_UNKNOWN)
            || key.starts_with(Self::POSTMORTEM)
            || key.starts_with(Self::HOLDERS)
            || key.starts_with(Self::PEAK_HOLDERS)
    }
}

/// One frame of a Python stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PyFrame {
    /// The code object.
    pub code: CodeId,
    /// Offset of the instruction from the start of the code, in bytes; may be negative for a frame
    /// that has only just been entered.
    pub offset: i32,
    /// Whether C code entered the interpreter to run this frame.
    pub entered_from_c: bool,
}

impl PyFrame {
    /// The frame's second word in [`DefKind::PY_STACK`].
    #[inline]
    pub fn word(self) -> u32 {
        let offset = self.offset.saturating_add(16).max(0) as u32;
        offset | (u32::from(self.entered_from_c) << 31)
    }

    /// The inverse of [`PyFrame::word`].
    pub fn from_words(code: u32, word: u32) -> Self {
        Self {
            code: CodeId(code),
            offset: (word & 0x7fff_ffff) as i32 - 16,
            entered_from_c: word >> 31 != 0,
        }
    }
}

/// A frame of a Python stack that calls a PyTorch module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PyModule {
    /// Place of the frame in its stack; 0 is the newest.
    pub frame: u32,
    /// The module.
    pub module: NnModuleId,
}

/// A decoded definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields are those of `DefKind`'s table
pub enum Definition {
    Api {
        id: ApiId,
        name: String,
    },
    Code {
        id: CodeId,
        first_line: u32,
        file: String,
        name: String,
        line_table: Vec<u8>,
    },
    PyStack {
        id: StackId,
        truncated: bool,
        frames: Vec<PyFrame>,
        modules: Vec<PyModule>,
    },
    NativeStack {
        id: StackId,
        truncated: bool,
        frames: Vec<u64>,
    },
    Module {
        id: ModuleId,
        bias: u64,
        start: u64,
        end: u64,
        path: String,
        build_id: Vec<u8>,
    },
    ModuleEnd {
        id: ModuleId,
    },
    Thread {
        id: ThreadId,
        name: String,
    },
    Device {
        ordinal: DeviceOrdinal,
        total_bytes: u64,
        uuid: [u8; 16],
        name: String,
        pci: String,
    },
    Process {
        key: String,
        value: String,
    },
    Hook {
        function: String,
        way: String,
        library: String,
    },
    Python {
        version: u32,
        eval_start: u64,
        eval_end: u64,
    },
    Note {
        text: String,
    },
    Backward {
        id: StackId,
        lost: bool,
        forward: StackId,
        own: StackId,
        newer: u32,
        node: String,
    },
    Range {
        id: u32,
        name: String,
    },
    Symbol {
        module: ModuleId,
        address: u64,
        functions: Vec<Function>,
    },
    NnModule {
        id: NnModuleId,
        object: u64,
        class: String,
    },
    NnModuleName {
        id: NnModuleId,
        name: String,
    },
    Placement {
        id: PlacementId,
        device: DeviceOrdinal,
        stream: u64,
        stream_id: Option<u64>,
        pool: (u64, u64),
    },
    /// A kind that this reader does not know.
    Unknown {
        kind: DefKind,
        payload: Vec<u8>,
    },
}
