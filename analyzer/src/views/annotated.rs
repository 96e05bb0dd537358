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

/// Memory of one line of a source file, over all selected devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineUse {
    /// Line number, from 1.
    pub line: u32,
    /// The function that contains the line.
    pub function: String,
    /// Live bytes of the line at the point in time.
    pub live_bytes: u64,
    /// Number of live blocks of the line at the point in time.
    pub live_blocks: u64,
    /// Bytes that the line allocated from the start of the run to the point in time, or to the end of the run if that
    /// is the peak.
    pub allocated_bytes: u64,
    /// Number of allocations that `allocated_bytes` is the sum of.
    pub allocations: u64,
    /// Bytes of these allocations that were freed within the same interval.
    pub freed_bytes: u64,
    /// Bytes of these allocations that were still live at the end of the interval.
    pub growth_bytes: u64,
}

/// Memory of one source file, over all selected devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileUse {
    /// The file's absolute name. For code without a file, such as `<string>`, the interpreter's name.
    pub file: String,
    /// The file relative to the program's folder; `None` if it is not below that folder.
    pub file_relative: Option<String>,
    /// Live bytes at the point in time: the sum over `lines`.
    pub live_bytes: u64,
    /// Allocated bytes: the sum over `lines`.
    pub allocated_bytes: u64,
    /// The lines of the file that own memory, in the order of their numbers.
    pub lines: Vec<LineUse>,
}

/// Source files whose lines own memory at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Annotated {
    /// The files, the one with the most live bytes first.
    pub files: Vec<FileUse>,
    /// Live bytes at the point in time that no Python line owns.
    pub other_live_bytes: u64,
    /// Bytes that were allocated over the same interval as `allocated_bytes` and that no Python line owns.
    pub other_allocated_bytes: u64,
}

impl Annotated {
    /// Computes the figures of a level at a point in time.
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
