//! Bytes that each line of a source file held, allocated and freed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, Owners, Select};
use crate::names::Names;
use crate::replay::{At, Replay, StackKey};

/// One line, over all devices that are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineUse {
    /// Line number, from 1.
    pub line: u32,
    /// Function.
    pub function: String,
    /// Live at the moment.
    pub live_bytes: u64,
    /// Blocks of those.
    pub live_blocks: u64,
    /// Allocated over the run, up to the moment if that is an earlier one than the end or the peak.
    pub allocated_bytes: u64,
    /// How many allocations those were.
    pub allocations: u64,
    /// What of that was freed.
    pub freed_bytes: u64,
    /// What of that was not: by so much the line made memory grow.
    pub growth_bytes: u64,
}

/// One source file, its lines in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileUse {
    /// The file's absolute name. For code without a file, such as `<string>`, the interpreter's name.
    pub file: String,
    /// The file relative to the program's folder, if it lies below that.
    pub file_relative: Option<String>,
    /// Live at the moment: the sum of its lines.
    pub live_bytes: u64,
    /// Allocated: the sum of its lines.
    pub allocated_bytes: u64,
    /// Its lines that allocated.
    pub lines: Vec<LineUse>,
}

/// Source files whose lines allocated at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Annotated {
    /// Files, the one with most at the moment first.
    pub files: Vec<FileUse>,
    /// Live bytes that no line owns.
    pub other_live_bytes: u64,
    /// Allocated bytes that no line owns.
    pub other_allocated_bytes: u64,
}

impl Annotated {
    /// The lines of a level at a point in time.
    pub fn at(replay: &Replay, level: Level, moment: At, select: &Select) -> Self {
        let mut owners = Owners::new(replay, level);
        let mut files: BTreeMap<String, BTreeMap<(u32, String), LineUse>> = BTreeMap::new();
        let mut annotated = Self::default();
        let live = ByStack::at(replay, level, moment, select);
        let last = ByStack::at(replay, level, At::End, select);
        let totals = ByStack::allocated(replay, level, select);
        let left: FxHashMap<(DeviceOrdinal, StackKey), u64> = last
            .devices
            .iter()
            .flat_map(|on| {
                on.figures
                    .iter()
                    .map(|(key, of)| ((on.device, *key), of.bytes))
            })
            .collect();
        let mut line_of = |stacks: StackKey| {
            let owner = owners.of(stacks);
            let line = owner.line()?;
            Some((line.file.clone(), (line.line, line.function.clone())))
        };
        for (stacks, figure) in live.devices.iter().flat_map(|on| &on.figures) {
            let Some((file, at)) = line_of(*stacks) else {
                annotated.other_live_bytes += figure.bytes;
                continue;
            };
            let line = files.entry(file).or_default().entry(at).or_default();
            line.live_bytes += figure.bytes;
            line.live_blocks += figure.blocks;
        }
        for on in &totals.devices {
            for (stacks, figure) in &on.figures {
                let Some((file, at)) = line_of(*stacks) else {
                    annotated.other_allocated_bytes += figure.bytes;
                    continue;
                };
                let line = files.entry(file).or_default().entry(at).or_default();
                let left = left.get(&(on.device, *stacks)).copied().unwrap_or_default();
                line.allocated_bytes += figure.bytes;
                line.allocations += figure.blocks;
                line.growth_bytes += left;
                line.freed_bytes += figure.bytes.saturating_sub(left);
            }
        }
        let names = &replay.names;
        annotated.files = files.into_iter().map(|of| file_use(names, of)).collect();
        annotated.files.sort_by(|a, b| {
            let order = |of: &FileUse| Reverse((of.live_bytes, of.allocated_bytes));
            order(a).cmp(&order(b)).then_with(|| a.file.cmp(&b.file))
        });
        annotated
    }
}

fn file_use(names: &Names, (file, lines): (String, BTreeMap<(u32, String), LineUse>)) -> FileUse {
    let lines = lines.into_iter().map(|((line, function), of)| LineUse {
        line,
        function,
        ..of
    });
    let lines: Vec<LineUse> = lines.collect();
    FileUse {
        file_relative: names.relative_path(&file),
        file,
        live_bytes: lines.iter().map(|line| line.live_bytes).sum(),
        allocated_bytes: lines.iter().map(|line| line.allocated_bytes).sum(),
        lines,
    }
}
