//! The Firefox Profiler's processed format, version 55: native allocations, and counters over time.
//!
//! Each block that was live at a point in time is a native allocation with its time, thread and address. This holds
//! for the [`BLOCKS`] largest; the others are one allocation for each stack, so that the bytes sum to the level's
//! figure. A counter has a bounded number of points.
//!
//! fxprof-processed-profile 0.8.1 is not used: it writes thread 0 for each allocation, and neither file nor line of a
//! frame without an address.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

use gpumem_capture::{DeviceOrdinal, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::blocks::LiveBlock;
use super::samples::{Location, Places};
use super::series::Point;
use crate::account::place;
use crate::replay::{Replay, StackKey};
use crate::symbols::Symbols;

/// How many blocks are written individually.
pub const BLOCKS: usize = 20_000;

/// A counter's points, by time.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// Facts about a profile beyond its samples.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The title of the samples.
    pub title: String,
    /// The process.
    pub pid: u32,
    /// When the capture was opened: nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// From then to the end.
    pub duration: Nanos,
}

/// The largest blocks individually and the others merged by stack, by time; and the number of merged blocks.
fn gathered(mut blocks: Vec<LiveBlock>) -> (Vec<LiveBlock>, usize) {
    blocks.sort_unstable_by_key(|block| {
        (
            Reverse(block.bytes),
            block.time,
            block.device,
            block.address,
        )
    });
    let others = blocks.split_off(blocks.len().min(BLOCKS));
    let mut by_stack: BTreeMap<(DeviceOrdinal, StackKey), LiveBlock> = BTreeMap::new();
    for other in &others {
        let together = by_stack.entry((other.device, other.stacks));
        together
            .and_modify(|all| {
                all.bytes = all.bytes.saturating_add(other.bytes);
                all.time = all.time.min(other.time);
            })
            .or_insert(*other);
    }
    blocks.extend(by_stack.into_values());
    blocks.sort_by_key(|block| (block.time, block.device, block.address));
    (blocks, others.len())
}

/// Nanoseconds as milliseconds.
fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Writes a profile. Returns the number of blocks that were merged.
///
/// # Errors
/// The writer's.
pub fn firefox(
    replay: &Replay,
    symbols: &mut Symbols,
    blocks: Vec<LiveBlock>,
    counters: &[Counter],
    about: &About,
    out: &mut dyn Write,
) -> serde_json::Result<usize> {
    let devices: FxHashSet<DeviceOrdinal> = blocks.iter().map(|block| block.device).collect();
    let (blocks, together) = gathered(blocks);
    let natives = blocks.iter().map(|block| block.stacks.native);
    let natives: FxHashSet<_> = natives.collect();
    let mut natives: Vec<_> = natives.into_iter().collect();
    natives.sort_unstable();
    let frames = natives
        .iter()
        .filter_map(|native| replay.names.native_stacks.get(native));
    symbols.find(&replay.names, frames.flat_map(|(frames, _)| frames));
    let mut places = Places::default();
    let stacks: Vec<Vec<u32>> = blocks
        .iter()
        .map(|block| {
            let mut stack = places.stack(&replay.names, symbols, block.stacks);
            if devices.len() > 1 {
                stack.insert(0, places.named(&place(block.device)));
            }
            stack
        })
        .collect();
    let mut tables = Tables::new(&places.locations);
    let stacks: Vec<Option<u32>> = stacks.iter().map(|stack| tables.stack(stack)).collect();
    let end = millis(about.duration);
    let pid = about.pid.to_string();
    let mut taken = FxHashSet::default();
    let addresses: Vec<u64> = blocks
        .iter()
        .map(|block| {
            // Two allocations at one address would be read as one that was freed in between.
            let free = (block.address..).find(|address| taken.insert(*address));
            free.unwrap_or(block.address)
        })
        .collect();
    let column =
        |of: &dyn Fn(&LiveBlock) -> Value| -> Vec<Value> { blocks.iter().map(of).collect() };
    let allocations = json!({
        "length": blocks.len(),
        "time": column(&|block| json!(millis(block.time))),
        "weight": column(&|block| json!(block.bytes)),
        "weightType": "bytes",
        "stack": stacks,
        "memoryAddress": addresses,
        "threadId": column(&|block| json!(block.thread.0)),
    });
    let thread = json!({
        "name": about.title,
        "isMainThread": true,
        "pid": pid,
        "tid": pid,
        "processName": about.title,
        "processType": "default",
        "processStartupTime": 0.0,
        "processShutdownTime": end,
        "registerTime": 0.0,
        "unregisterTime": end,
        "pausedRanges": [],
        "showMarkersInTimeline": false,
        "samples": {
            // They only mark the range of time that has samples.
            "length": 2, "stack": [null, null], "timeDeltas": [0.0, end],
            "weight": null, "weightType": "samples", "threadCPUDelta": [0, 0],
        },
        "nativeAllocations": allocations,
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [],
            "startTime": [],
        },
        "stackTable": tables.stack_table(),
        "frameTable": tables.frame_table(),
        "funcTable": tables.func_table(),
        "resourceTable": { "length": 0, "lib": [], "name": [], "host": [], "type": [] },
        "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
        "stringArray": tables.strings,
    });
    let profile = json!({
        "meta": meta(about),
        "libs": [],
        "threads": [thread],
        "pages": [],
        "profilerOverhead": [],
        "counters": counters.iter().map(|of| counter(of, &pid)).collect::<Vec<_>>(),
    });
    serde_json::to_writer(out, &profile)?;
    Ok(together)
}

fn meta(about: &About) -> Value {
    json!({
        "version": 24,
        "preprocessedProfileVersion": 55,
        "product": "gpumem-analyze",
        "appBuildID": env!("CARGO_PKG_VERSION"),
        "processType": 0,
        "startTime": about.started_unix_ns as f64 / 1e6,
        "interval": 1.0,
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "pausedRanges": [],
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        "categories": [
            { "name": "Python", "color": "yellow", "subcategories": ["Other"] },
            { "name": "Native", "color": "blue", "subcategories": ["Other"] },
            { "name": "Other", "color": "grey", "subcategories": ["Other"] },
        ],
        "markerSchema": [],
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
    })
}

/// A counter as changes between points.
fn counter(counter: &Counter, pid: &str) -> Value {
    let (mut before, mut last) = (0_i64, Nanos(0));
    let (mut counts, mut deltas) = (Vec::new(), Vec::new());
    for point in &counter.points {
        let value = i64::try_from(point.value).unwrap_or(i64::MAX);
        counts.push(value - before);
        deltas.push(millis(Nanos(point.time.0.saturating_sub(last.0))));
        (before, last) = (value, point.time.max(last));
    }
    json!({
        "name": counter.name,
        "category": "Memory",
        "description": format!("{}: live bytes", counter.name),
        "mainThreadIndex": 0,
        "pid": pid,
        "samples": {
            "length": counts.len(),
            "number": vec![1; counts.len()],
            "count": counts,
            "timeDeltas": deltas,
        },
    })
}

/// A frame: its function, line, category and depth of inlining.
type FrameRow = (usize, Option<u32>, usize, usize);

/// The thread's tables, which refer to each other by index.
struct Tables<'a> {
    locations: &'a [Location],
    strings: Vec<String>,
    string_numbers: FxHashMap<String, usize>,
    /// Functions: name and file.
    functions: Vec<(usize, Option<usize>)>,
    function_numbers: FxHashMap<(usize, Option<usize>), usize>,
    frames: Vec<FrameRow>,
    /// The frames of each place.
    of_location: Vec<Vec<usize>>,
    /// Stacks: prefix and frame.
    stacks: Vec<(Option<u32>, usize)>,
    stack_numbers: FxHashMap<(Option<u32>, usize), u32>,
}

impl<'a> Tables<'a> {
    fn new(locations: &'a [Location]) -> Self {
        let mut tables = Self {
            locations,
            strings: Vec::new(),
            string_numbers: FxHashMap::default(),
            functions: Vec::new(),
            function_numbers: FxHashMap::default(),
            frames: Vec::new(),
            of_location: Vec::new(),
            stacks: Vec::new(),
            stack_numbers: FxHashMap::default(),
        };
        for location in tables.locations {
            let category = match (location.address, location.functions.first()) {
                (0, Some(function)) if function.line > 0 => 0,
                (0, _) => 2,
                _ => 1,
            };
            let mut frames = Vec::new();
            for (depth, function) in location.functions.iter().enumerate() {
                let name = tables.string(&function.name);
                let file = (!function.file.is_empty()).then(|| tables.string(&function.file));
                let number = tables.function((name, file));
                let line = (function.line > 0).then_some(function.line);
                frames.push(tables.frames.len());
                tables.frames.push((number, line, category, depth));
            }
            tables.of_location.push(frames);
        }
        tables
    }

    fn string(&mut self, text: &str) -> usize {
        let strings = &mut self.strings;
        let number = self.string_numbers.entry(text.to_owned());
        *number.or_insert_with(|| {
            strings.push(text.to_owned());
            strings.len() - 1
        })
    }

    fn function(&mut self, function: (usize, Option<usize>)) -> usize {
        let functions = &mut self.functions;
        *self.function_numbers.entry(function).or_insert_with(|| {
            functions.push(function);
            functions.len() - 1
        })
    }

    /// The stack of these places, the oldest first.
    fn stack(&mut self, locations: &[u32]) -> Option<u32> {
        let mut prefix = None;
        for location in locations {
            for frame in &self.of_location[*location as usize] {
                let stacks = &mut self.stacks;
                let key = (prefix, *frame);
                prefix = Some(*self.stack_numbers.entry(key).or_insert_with(|| {
                    stacks.push(key);
                    stacks.len() as u32 - 1
                }));
            }
        }
        prefix
    }

    fn stack_table(&self) -> Value {
        let (prefixes, frames): (Vec<Option<u32>>, Vec<usize>) =
            self.stacks.iter().copied().unzip();
        json!({ "length": frames.len(), "prefix": prefixes, "frame": frames })
    }

    fn frame_table(&self) -> Value {
        let count = self.frames.len();
        let column = |of: &dyn Fn(&FrameRow) -> Value| -> Vec<Value> {
            self.frames.iter().map(of).collect()
        };
        json!({
            "length": count,
            "address": vec![-1; count],
            "inlineDepth": column(&|frame| json!(frame.3)),
            "category": column(&|frame| json!(frame.2)),
            "subcategory": vec![0; count],
            "func": column(&|frame| json!(frame.0)),
            "nativeSymbol": vec![Value::Null; count],
            "innerWindowID": vec![0; count],
            "line": column(&|frame| json!(frame.1)),
            "column": vec![Value::Null; count],
        })
    }

    fn func_table(&self) -> Value {
        let count = self.functions.len();
        let (names, files): (Vec<usize>, Vec<Option<usize>>) =
            self.functions.iter().copied().unzip();
        json!({
            "length": count,
            "name": names,
            "isJS": vec![false; count],
            "relevantForJS": vec![false; count],
            "resource": vec![-1; count],
            "fileName": files,
            "lineNumber": vec![Value::Null; count],
            "columnNumber": vec![Value::Null; count],
        })
    }
}
