//! The columns of a batch: those of Parquet, and in the same order.

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use gpumem_capture::{ApiId, EventKind, Level};
use rustc_hash::FxHashMap;

use super::column::Column;
use super::dictionary::{Dictionary, fixed};
use super::owners::{Owned, Owners};
use crate::account::Phase;
use crate::export::events::{Numbers, Whose};
use crate::export::kinds::{KINDS, UNKNOWN};
use crate::names::Names;
use crate::node_classes::class;
use crate::replay::Category;

/// The levels in the order of their numbers, and behind them one that is not known.
const LEVELS: [Level; Level::COUNT + 1] = [
    Level::TENSOR,
    Level::DRIVER,
    Level::HOST,
    Level::PHYSICAL,
    Level(u8::MAX),
];

/// The function of a stack that was not taken.
const NOT_SAMPLED: &str = "(not sampled)";

/// The columns. 64-bit numbers are signed, as in Parquet.
pub(super) fn fields() -> Vec<Field> {
    let text = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    let (few, many) = (|| text(DataType::Int8), || text(DataType::Int32));
    [
        ("seq", DataType::Int64, false),
        ("time_ns", DataType::Int64, false),
        ("kind", few(), false),
        ("level", few(), true),
        ("device", DataType::UInt8, true),
        ("ptr", DataType::Int64, false),
        ("bytes", DataType::Int64, false),
        ("live_bytes", DataType::Int64, true),
        ("block_seq", DataType::Int64, true),
        ("thread", DataType::UInt32, false),
        ("api", many(), true),
        ("file", many(), true),
        ("line", DataType::UInt32, true),
        ("function", many(), true),
        ("node", many(), true),
        ("library", many(), true),
        ("phase", few(), true),
        ("step", DataType::Int64, true),
        ("range", many(), true),
        ("category", few(), true),
        ("python_stack", DataType::UInt32, true),
        ("native_stack", DataType::UInt32, true),
    ]
    .map(|(name, kind, may_miss)| Field::new(name, kind, may_miss))
    .into()
}

/// What texts stand for, by column.
struct Words {
    kinds: ArrayRef,
    levels: ArrayRef,
    phases: ArrayRef,
    categories: ArrayRef,
    apis: Dictionary,
    api_numbers: FxHashMap<ApiId, i32>,
    files: Dictionary,
    functions: Dictionary,
    nodes: Dictionary,
    libraries: Dictionary,
    ranges: Dictionary,
    range_numbers: FxHashMap<u32, i32>,
    /// The place of each kind in `kinds`.
    kind_numbers: [i8; 256],
}

impl Words {
    fn of(names: &Names) -> Result<Self, ArrowError> {
        let apis = Dictionary::of(names.apis.values().map(String::as_str));
        let api_numbers = names.apis.iter();
        let api_numbers = api_numbers.map(|(id, name)| Ok((*id, apis.number(name)?)));
        let api_numbers = api_numbers.collect::<Result<_, ArrowError>>()?;
        let ranges = Dictionary::of(names.ranges.values().map(String::as_str));
        let range_numbers = names.ranges.iter();
        let range_numbers = range_numbers.map(|(id, name)| Ok((*id, ranges.number(name)?)));
        let range_numbers = range_numbers.collect::<Result<_, ArrowError>>()?;
        let codes = || names.codes.values();
        let functions = codes().map(|code| code.name.as_str());
        let nodes: Vec<String> = names.node_names().chain([""]).map(class).collect();
        let mut kinds: Vec<&str> = KINDS.iter().map(|(_, word)| *word).collect();
        let mut kind_numbers = [kinds.len() as i8; 256];
        for ((EventKind(kind), _), place) in KINDS.iter().zip(0..) {
            kind_numbers[usize::from(*kind)] = place;
        }
        kinds.push(UNKNOWN);
        Ok(Self {
            kinds: fixed(&kinds),
            levels: fixed(&LEVELS.map(Level::name)),
            phases: fixed(&Phase::ALL.map(Phase::word)),
            categories: fixed(&CATEGORIES.map(Category::name)),
            apis,
            api_numbers,
            files: Dictionary::of(codes().map(|code| code.file.as_str())),
            functions: Dictionary::of(functions.chain([NOT_SAMPLED])),
            nodes: Dictionary::of(nodes.iter().map(String::as_str)),
            libraries: Dictionary::of(names.modules.iter().map(|module| module.basename())),
            ranges,
            range_numbers,
            kind_numbers,
        })
    }

    fn numbered(&self, whose: &Whose) -> Result<Owned, ArrowError> {
        let phase = |word| Phase::ALL.iter().position(|of| of.word() == word);
        Ok(Owned {
            file: self.files.number_of(whose.file.as_deref())?,
            line: whose.line,
            function: self.functions.number_of(whose.function.as_deref())?,
            node: self.nodes.number_of(whose.node.as_deref())?,
            library: self.libraries.number_of(whose.library.as_deref())?,
            phase: whose.phase.and_then(phase).map(|place| place as i8),
        })
    }
}

/// The categories in the order of their numbers.
const CATEGORIES: [Category; 9] = {
    let of = Category::ALL;
    let none = Category::None;
    [none, of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7]]
};

/// The rows of a batch so far.
pub(super) struct Columns {
    schema: SchemaRef,
    words: Words,
    seq: Column<Int64Type>,
    time_ns: Column<Int64Type>,
    kind: Column<Int8Type>,
    level: Column<Int8Type>,
    device: Column<UInt8Type>,
    ptr: Column<Int64Type>,
    bytes: Column<Int64Type>,
    live_bytes: Column<Int64Type>,
    block_seq: Column<Int64Type>,
    thread: Column<UInt32Type>,
    api: Column<Int32Type>,
    file: Column<Int32Type>,
    line: Column<UInt32Type>,
    function: Column<Int32Type>,
    node: Column<Int32Type>,
    library: Column<Int32Type>,
    phase: Column<Int8Type>,
    step: Column<Int64Type>,
    range: Column<Int32Type>,
    category: Column<Int8Type>,
    python_stack: Column<UInt32Type>,
    native_stack: Column<UInt32Type>,
}

impl Columns {
    pub(super) fn new(schema: SchemaRef, names: &Names) -> Result<Self, ArrowError> {
        Ok(Self {
            schema,
            words: Words::of(names)?,
            seq: Column::default(),
            time_ns: Column::default(),
            kind: Column::default(),
            level: Column::default(),
            device: Column::default(),
            ptr: Column::default(),
            bytes: Column::default(),
            live_bytes: Column::default(),
            block_seq: Column::default(),
            thread: Column::default(),
            api: Column::default(),
            file: Column::default(),
            line: Column::default(),
            function: Column::default(),
            node: Column::default(),
            library: Column::default(),
            phase: Column::default(),
            step: Column::default(),
            range: Column::default(),
            category: Column::default(),
            python_stack: Column::default(),
            native_stack: Column::default(),
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.seq.rows()
    }

    /// Takes in a row.
    pub(super) fn push(
        &mut self,
        row: &Numbers,
        owners: &mut Owners<'_>,
    ) -> Result<(), ArrowError> {
        let words = &self.words;
        let owned = match row.stacks {
            None => Owned::default(),
            Some((key, stacks)) => {
                owners.of(key, stacks, row.of_level, |whose| words.numbered(whose))?
            }
        };
        // Numbers above 2^63 - 1 keep their bits.
        let signed = |number: u64| number as i64;
        self.seq.push(signed(row.seq));
        self.time_ns.push(signed(row.time_ns));
        self.kind.push(words.kind_numbers[usize::from(row.kind.0)]);
        let unknown = Level::COUNT as u8;
        self.level
            .push_option(row.level.map(|level| level.0.min(unknown) as i8));
        self.device.push_option(row.device);
        self.ptr.push(signed(row.ptr));
        self.bytes.push(signed(row.bytes));
        self.live_bytes.push_option(row.live_bytes.map(signed));
        self.block_seq.push_option(row.block_seq.map(signed));
        self.thread.push(row.thread);
        self.api
            .push_option(words.api_numbers.get(&row.api).copied());
        self.file.push_option(owned.file);
        self.line.push_option(owned.line);
        self.function.push_option(owned.function);
        self.node.push_option(owned.node);
        self.library.push_option(owned.library);
        self.phase.push_option(owned.phase);
        self.step.push_option(row.step.map(signed));
        let range = |range| words.range_numbers.get(&range).copied();
        self.range.push_option(row.range.and_then(range));
        self.category
            .push_option(row.category.map(|category| category as i8));
        self.python_stack
            .push_option(row.stacks.map(|(_, stacks)| stacks.py.0));
        self.native_stack
            .push_option(row.stacks.map(|(_, stacks)| stacks.native.0));
        Ok(())
    }

    /// The rows; there are none then.
    pub(super) fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let words = &self.words;
        let columns = vec![
            self.seq.array(),
            self.time_ns.array(),
            self.kind.texts(&words.kinds)?,
            self.level.texts(&words.levels)?,
            self.device.array(),
            self.ptr.array(),
            self.bytes.array(),
            self.live_bytes.array(),
            self.block_seq.array(),
            self.thread.array(),
            self.api.texts(&words.apis.words)?,
            self.file.texts(&words.files.words)?,
            self.line.array(),
            self.function.texts(&words.functions.words)?,
            self.node.texts(&words.nodes.words)?,
            self.library.texts(&words.libraries.words)?,
            self.phase.texts(&words.phases)?,
            self.step.array(),
            self.range.texts(&words.ranges.words)?,
            self.category.texts(&words.categories)?,
            self.python_stack.array(),
            self.native_stack.array(),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}
