//! The tables. A comment here is a column's documentation in `docs/dataset.md`.

use crate::table::{Table, TableInfo, table};

/// The version of these tables. It grows when a column is added; columns never change their meaning or kind.
pub const SCHEMA: i64 = 1;

table! {
    /// One capture: a process, its rank, its peaks and its end. A capture without a row here is not yet part of the dataset.
    Rank in "ranks", sorted by (rank, capture) {
        /// The capture: a hash of its random number and of its process's number and start.
        capture: key,
        /// The version of these tables that wrote the row.
        schema: int,
        /// The path or address from which the capture was read.
        file: text,
        /// The machine's name.
        host: [text],
        /// The process.
        pid: int,
        /// Its rank in the job.
        rank: [int],
        /// Ranks of the job.
        world_size: [int],
        /// Its number among the ranks on its machine.
        local_rank: [int],
        /// The number of its machine.
        node_rank: [int],
        /// How often its launcher had restarted the ranks.
        restarts: [int],
        /// The job's names, joined by " · ".
        job: [text],
        /// Its position in the mesh: `dp=1,pp=0`, sorted by name.
        coordinates: [text],
        /// The part of the position that its peers share, which is all except dimensions of data: `pp=0`; empty if all ranks
        /// are peers.
        peers: text,
        /// The program's command line.
        program: [text],
        /// The version of the code: `--version`, or a hash of the program's own files; `unknown` without any.
        version: text,
        /// The GPU on which it holds most, by its number.
        device: [int],
        /// That GPU's UUID.
        uuid: [text],
        /// That GPU's name.
        gpu: [text],
        /// That GPU's memory.
        card_bytes: [int],
        /// When recording began.
        started: time,
        /// The time of the failure, or of the end; for a killed process the last known time.
        ended: time,
        /// `clean`, `killed`, `out_of_memory`, or `running`.
        ending: text,
        /// Bytes that could not be allocated, if it ran out of memory.
        wanted_bytes: [int],
        /// Highest memory of tensors.
        tensor_peak_bytes: int,
        /// Highest memory of PyTorch's allocator.
        reserved_peak_bytes: int,
        /// Highest memory of the process on that GPU.
        process_peak_bytes: int,
        /// Additional memory in NVML's last reading.
        unexplained_bytes: [int],
        /// Steps that ended.
        steps: int,
        /// Events in the capture.
        events: int,
        /// Whether every figure is exact.
        exact: bool,
        /// What is missing from the capture, if it is not exact.
        missing: [text],
        /// Version of PyTorch.
        pytorch: [text],
        /// Version of Python.
        python: [text],
        /// Version of the CUDA driver.
        driver: [text],
        /// Version of the recorder.
        recorder: [text],
        /// PyTorch's allocator.
        allocator: [text],
        /// Its settings.
        allocator_settings: [text],
    }
}

table! {
    /// Labels that `--label KEY=VALUE` gave a capture when it was ingested: a team, a project, a queue.
    Label in "labels", sorted by (key, value, capture) {
        /// The capture.
        capture: key,
        /// The label's name.
        key: text,
        /// Its value.
        value: text,
    }
}

table! {
    /// Holders of memory at a moment. Rows of one capture, device, moment and level add up to the level's total.
    Held in "held", sorted by (line_key, module, category, level, moment, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `peak` (of PyTorch's tensors for `tensor`, of all allocations of the driver for `pool` and `driver`), `end`, or
        /// `failure` (the failure in `gpumem-analyze oom`: the last that was raised, else the last).
        moment: text,
        /// `tensor`, `pool` (memory that PyTorch's allocator took from the driver), `driver` (memory that others allocated
        /// from it), or `overhead` (contexts, kernels and whole pages: memory that the card gave beyond the driver's
        /// allocations; at the peak, of the GPU's own peak).
        level: text,
        /// What a tensor is for: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary`,
        /// `other`. Null at other levels.
        category: [text],
        /// The line: see the table lines. If a moment and level has more than 2,000 holders, those with the fewest bytes are
        /// combined, by category, as `(others)`.
        line_key: key,
        /// PyTorch's module in which a tensor was allocated. Null at other levels.
        module: [text],
        /// The stack that holds most of it: see the table frames.
        stack_key: [key],
        /// Bytes.
        bytes: int,
        /// Blocks.
        blocks: int,
    }
}

table! {
    /// Lines of code, and labels for memory without a known line. A key may have several rows, one for each number that the
    /// line had.
    Line in "lines", sorted by (line_key, line) {
        /// A hash of file, function and the line's text, of the autograd node and the library, and of whether it is a
        /// workspace of cuBLAS. If the text of the line is not known, its number replaces the text.
        line_key: key,
        /// The label in reports: `train.py:212 (backward: MulBackward0)`.
        label: text,
        /// The file, as seen from the program's directory or from the folder of installed packages.
        file: [text],
        /// The line's number.
        line: [int],
        /// The function.
        function: [text],
        /// The text of the line. Null if its file did not exist when the capture was ingested, or was changed after the
        /// program started.
        text: [text],
        /// The class of the autograd node that allocated.
        node: [text],
        /// The library that allocated, if no line of Python did.
        library: [text],
    }
}

table! {
    /// Stacks, a row for each frame. Native frames are left out of stacks with Python, as in reports.
    Frame in "frames", sorted by (stack_key, depth) {
        /// A hash of the frames.
        stack_key: key,
        /// 0 is the outermost frame.
        depth: int,
        /// The function; for native code without a known name the library; `backward: …` for a node of autograd; or what is
        /// missing, in parentheses.
        function: text,
        /// The file, as in the table lines.
        file: [text],
        /// The line's number.
        line: [int],
        /// The library of a native frame.
        library: [text],
    }
}

table! {
    /// All memory of the GPU by owner, as in `gpumem-analyze ledger`, at the process's peak and at the end. Rows of one
    /// capture, device and moment add up to NVML's figure.
    LedgerEntry in "ledger", sorted by (entry, owner, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `peak`, or `end`.
        moment: text,
        /// The `kind` of the row in the ledger's JSON: `tensors`, `cached`, `library`, `context`, `module`.
        entry: text,
        /// The library, if the row belongs to a library.
        owner: [text],
        /// Bytes; only the remainder between figures can be negative.
        bytes: int,
    }
}

table! {
    /// Memory over time: the highest figure in each interval. All intervals of one GPU of a capture have the same length, a
    /// power of two in microseconds. They begin at multiples of it, so that the intervals of ranks coincide. There are at most
    /// 64 for a level.
    SeriesPoint in "series", sorted by (level, time, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `tensor`, `reserved` (PyTorch's allocator), or `process`.
        level: text,
        /// Start of the interval.
        time: time,
        /// Its length, in microseconds.
        width_us: int,
        /// Highest memory in it.
        bytes: int,
    }
}

table! {
    /// Highest memory of tensors in each step of the training.
    Step in "steps", sorted by (first_step, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// The step, counted from 1; in long runs the first of several.
        first_step: int,
        /// Number of steps in the row.
        steps: int,
        /// Highest memory in them.
        bytes: int,
    }
}

table! {
    /// Allocations that failed because memory ran out: if there are many, the first and the newest ones, as in `gpumem-analyze
    /// oom`.
    Failure in "failures", sorted by (time, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// Time of the event.
        time: time,
        /// The cause: its `kind` in the JSON of `gpumem-analyze oom`. Null except for the failure that it shows and 15 others,
        /// and for failures before the first record of a bounded capture.
        cause: [text],
        /// Whether a framework raised an exception. Else a function of CUDA failed.
        raised: bool,
        /// Bytes that could not be allocated.
        wanted_bytes: int,
        /// Free bytes on the GPU. Null if `cause` is null, or if it is not known.
        free_bytes: [int],
        /// Bytes of live tensors. Null for failures before the first record of a bounded capture.
        tensor_bytes: [int],
        /// Bytes reserved by PyTorch's allocator; null in the same cases.
        reserved_bytes: [int],
        /// The requesting line: see the table lines.
        line_key: [key],
        /// Its step, counted from 1.
        step: [int],
    }
}

table! {
    /// Each event, if the capture was ingested with `--events`.
    Event in "events", sorted by (capture, seq) {
        /// The capture.
        capture: key,
        /// The event's number.
        seq: int,
        /// Time of the event.
        time: time,
        /// What happened: `alloc`, `free`, …, as in `gpumem-analyze export csv`.
        kind: text,
        /// `tensor`, `driver`, `host` or `physical`.
        level: [text],
        /// The GPU, by its number.
        device: [int],
        /// The address; beyond 2^63, the signed number with the same bits.
        ptr: int,
        /// Bytes.
        bytes: int,
        /// Bytes of the level after the event.
        live_bytes: [int],
        /// For an event that frees a block, the event that allocated it.
        block_seq: [int],
        /// The line: see the table lines.
        line_key: [key],
        /// The step, counted from 1.
        step: [int],
        /// What the tensor is for.
        category: [text],
    }
}

/// All rows of one capture.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CaptureRows {
    /// The run that it belongs to.
    pub run: String,
    /// The one row of ranks.
    pub rank: Rank,
    /// Its labels.
    pub labels: Vec<Label>,
    /// The owners of memory.
    pub held: Vec<Held>,
    /// The lines of all other rows.
    pub lines: Vec<Line>,
    /// The stacks of all other rows.
    pub frames: Vec<Frame>,
    /// The ledger.
    pub ledger: Vec<LedgerEntry>,
    /// Memory over time.
    pub series: Vec<SeriesPoint>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Allocations that failed.
    pub failures: Vec<Failure>,
}

/// All tables.
pub const TABLES: [TableInfo; 10] = [
    Rank::INFO,
    Label::INFO,
    Held::INFO,
    Line::INFO,
    Frame::INFO,
    LedgerEntry::INFO,
    SeriesPoint::INFO,
    Step::INFO,
    Failure::INFO,
    Event::INFO,
];
