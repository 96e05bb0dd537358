//! The tables. A comment here is a column's documentation in `docs/dataset.md`.

use crate::table::{Table, TableInfo, table};

/// The version of these tables. It grows when a column is added; columns never change their meaning or kind.
pub const SCHEMA: i64 = 1;

table! {
    /// One capture: a process, its rank, its peaks and how it ended. What has no row here is no part of the dataset yet.
    Rank in "ranks", sorted by (rank, capture) {
        /// The capture: a hash of its number, which is random, and of its process's number and start.
        capture: key,
        /// The version of these tables that wrote the row.
        schema: int,
        /// Where the capture was read from.
        file: text,
        /// The machine's name.
        host: [text],
        /// The process.
        pid: int,
        /// Its rank in the job.
        rank: [int],
        /// Ranks of the job.
        world_size: [int],
        /// Its number among those on its machine.
        local_rank: [int],
        /// The number of its machine.
        node_rank: [int],
        /// How often its launcher had restarted the ranks.
        restarts: [int],
        /// The job's names, joined by " · ".
        job: [text],
        /// Where it stands in the mesh: `dp=1,pp=0`, sorted by name.
        coordinates: [text],
        /// What its peers share of that, all but dimensions of data: `pp=0`; empty where all ranks are peers.
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
        /// The failure, or the end; of a process that was killed the last time that is known.
        ended: time,
        /// `clean`, `killed`, `out_of_memory`, or `running`.
        ending: text,
        /// What could not be allocated, if it ran out of memory.
        wanted_bytes: [int],
        /// The greatest memory of tensors.
        tensor_peak_bytes: int,
        /// The greatest memory of PyTorch's allocator.
        reserved_peak_bytes: int,
        /// The greatest memory of the process on that GPU.
        process_peak_bytes: int,
        /// What NVML saw beyond that, at its last reading.
        unexplained_bytes: [int],
        /// Steps that ended.
        steps: int,
        /// Events in the capture.
        events: int,
        /// Whether every figure is exact.
        exact: bool,
        /// What the capture lacks, where it is not exact.
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
    /// What `--label KEY=VALUE` said of a capture when it was ingested: a team, a project, a queue.
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
    /// Who held memory at a moment. Rows of one capture, device, moment and level sum to what the level held.
    Held in "held", sorted by (line_key, module, category, level, moment, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `peak` (of PyTorch's tensors for `tensor`, of all that the driver allocated for `pool` and `driver`), `end`, or
        /// `failure` (the one that `gpumem-analyze oom` shows: the last that was raised, else the last).
        moment: text,
        /// `tensor`, `pool` (what PyTorch's allocator took from the driver), `driver` (what others allocated from it), or
        /// `overhead` (contexts, kernels and whole pages: what the card gave beyond what the driver allocated).
        level: text,
        /// What a tensor is for: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary`,
        /// `other`. Null at other levels.
        category: [text],
        /// The line: see the table lines. Of more than 2,000 holders of a moment and level those with fewest bytes are put
        /// together, by category, as `(others)`.
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
    /// Lines of code, and what stands for one where no line is known. A key may have several rows, one for each number that
    /// the line had.
    Line in "lines", sorted by (line_key, line) {
        /// A hash of file, function and the line's text, of the autograd node and the library, and of whether it is a
        /// workspace of cuBLAS. Of a line whose text is not known its number counts in place of the text.
        line_key: key,
        /// What reports print: `train.py:212 (backward: MulBackward0)`.
        label: text,
        /// The file, as seen from the program's directory or from the folder of installed packages.
        file: [text],
        /// The line's number.
        line: [int],
        /// The function.
        function: [text],
        /// The line itself. Null if its file was not there when the capture was ingested, or was changed since the program
        /// started.
        text: [text],
        /// The class of the autograd node that allocated.
        node: [text],
        /// The library that allocated, where no line of Python did.
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
        /// The function; of native code without a known name the library; `backward: …` for a node of autograd; or what
        /// is missing, in parentheses.
        function: text,
        /// The file, as in the table lines.
        file: [text],
        /// The line's number.
        line: [int],
        /// The library, of a native frame.
        library: [text],
    }
}

table! {
    /// Where all memory of the GPU was, as `gpumem-analyze ledger` shows it, when the process held most and at the end. Rows
    /// of one capture, device and moment sum to what NVML saw.
    LedgerEntry in "ledger", sorted by (entry, owner, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `peak`, or `end`.
        moment: text,
        /// What it is: the `kind` of the row in the ledger's JSON, as `tensors`, `cached`, `library`, `context`, `module`.
        entry: text,
        /// The library, where the row is of one.
        owner: [text],
        /// Bytes; only what is left over between figures can be negative.
        bytes: int,
    }
}

table! {
    /// The course of memory: the greatest figure in each stretch of time. Stretches are of equal length for a GPU of a capture, a
    /// power of two in microseconds, and begin at multiples of it, so that those of ranks lie on each other. There are at most 64
    /// of a level.
    SeriesPoint in "series", sorted by (level, time, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// `tensor`, `reserved` (PyTorch's allocator), or `process`.
        level: text,
        /// When the stretch begins.
        time: time,
        /// How long it is, in microseconds.
        width_us: int,
        /// The greatest memory in it.
        bytes: int,
    }
}

table! {
    /// The greatest memory of tensors in each step of the training.
    Step in "steps", sorted by (first_step, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// The step, counted from 1; of long runs the first of several.
        first_step: int,
        /// How many steps the row is of.
        steps: int,
        /// The greatest memory in them.
        bytes: int,
    }
}

table! {
    /// Allocations that failed for want of memory: of many the first ones and the newest, as `gpumem-analyze oom` has them.
    Failure in "failures", sorted by (time, capture) {
        /// The capture.
        capture: key,
        /// The GPU, by its number.
        device: int,
        /// When.
        time: time,
        /// Why: the `kind` of the cause in the JSON of `gpumem-analyze oom`. Null of all but the failure that it shows and 15
        /// others, and of failures before the first record of a bounded capture.
        cause: [text],
        /// Whether a framework raised an exception. Else a function of CUDA failed.
        raised: bool,
        /// What could not be allocated.
        wanted_bytes: int,
        /// What was free on the GPU. Null where `cause` is, or if it is not known.
        free_bytes: [int],
        /// What tensors held. Null of failures before the first record of a bounded capture.
        tensor_bytes: [int],
        /// What PyTorch's allocator held, likewise.
        reserved_bytes: [int],
        /// The line that asked: see the table lines.
        line_key: [key],
        /// The step in which it was, counted from 1.
        step: [int],
    }
}

table! {
    /// Each event, where `--events` asked for them.
    Event in "events", sorted by (capture, seq) {
        /// The capture.
        capture: key,
        /// The event's number.
        seq: int,
        /// When.
        time: time,
        /// What happened: `alloc`, `free`, …, as in `gpumem-analyze export csv`.
        kind: text,
        /// `tensor`, `driver`, `host` or `physical`.
        level: [text],
        /// The GPU, by its number.
        device: [int],
        /// The address; of one beyond 2^63 the signed number with the same bits.
        ptr: int,
        /// Bytes.
        bytes: int,
        /// What the level held after it.
        live_bytes: [int],
        /// The event that allocated the block, of one that frees it.
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
    /// Who held memory.
    pub held: Vec<Held>,
    /// The lines of all other rows.
    pub lines: Vec<Line>,
    /// The stacks of all other rows.
    pub frames: Vec<Frame>,
    /// Where all memory was.
    pub ledger: Vec<LedgerEntry>,
    /// Its course.
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
