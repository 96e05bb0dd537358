//! What each line of the script changed, in the manner of gpu_mem_track.
//!
//! A section is the time during which the script is at one line: the newest frame in the script's own
//! file, of the main thread. What other threads do meanwhile (autograd's among them) belongs to it.
//! Blocks that come and go within a section are not among its blocks, but its peak tells of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpumem_capture::{
    DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq, StackId, ThreadId,
};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::attribution::{Line, script_line};
use crate::replay::{Effect, Replay};

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Group {
    /// Size of each.
    pub bytes: u64,
    /// How many.
    pub blocks: u64,
}

/// What one line changed on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// File; `None` while the main thread runs no Python.
    pub file: Option<Arc<str>>,
    /// Line number.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<Arc<str>>,
    /// Net change.
    pub change_bytes: i64,
    /// Live after it.
    pub total_bytes: u64,
    /// Most that was live from before it to after it.
    pub peak_bytes: u64,
    /// The section's first event.
    pub seq: u64,
    /// Its time, ns since the capture was opened.
    pub time_ns: u64,
    /// Blocks that are live after it and were not before, largest size first.
    pub added: Vec<Group>,
    /// Blocks that were live before it and are not after, largest size first.
    pub removed: Vec<Group>,
}

#[derive(Default)]
struct Section {
    first: Option<(Seq, Nanos)>,
    added: FxHashMap<u64, u64>,
    removed: BTreeMap<u64, u64>,
    total: u64,
    peak: u64,
}

impl Change {
    /// How far memory rose during it above what was live before and after: what came and went.
    pub fn rise(&self) -> u64 {
        self.peak_bytes
            .saturating_sub(self.before().max(self.total_bytes))
    }

    fn before(&self) -> u64 {
        self.total_bytes
            .saturating_add_signed(self.change_bytes.saturating_neg())
    }

    /// How much moved: the net change or the rise, whichever is more.
    pub fn extent(&self) -> u64 {
        self.change_bytes.unsigned_abs().max(self.rise())
    }
}

/// Follows a capture and gives each change to a sink.
pub struct Changes<F> {
    level: Level,
    sink: F,
    /// The script's line: index into `lines`.
    at: Option<u32>,
    /// The thread whose lines are followed: the first with a Python stack, or the main thread.
    thread: Option<ThreadId>,
    main: ThreadId,
    sections: BTreeMap<DeviceOrdinal, Section>,
    /// The lines that the script was at.
    lines: Vec<At>,
    line_numbers: FxHashMap<Line, u32>,
    /// What each Python stack of an event means.
    stacks: FxHashMap<StackId, Stack>,
    /// The one that came last.
    last: (StackId, Stack),
}

/// A line of the script.
struct At {
    file: Arc<str>,
    line: u32,
    function: Arc<str>,
}

/// What a Python stack says of the script.
#[derive(Clone, Copy)]
enum Stack {
    /// Its thread ran no Python.
    None,
    /// The line that it is at, if it is in the script: index into [`Changes::lines`].
    At(Option<u32>),
}

impl<F: FnMut(Change)> Changes<F> {
    /// Follows a level of a process (its main thread has the process's id).
    pub fn new(level: Level, pid: u32, sink: F) -> Self {
        Self {
            level,
            sink,
            at: None,
            thread: None,
            main: ThreadId(pid),
            sections: BTreeMap::new(),
            lines: Vec::new(),
            line_numbers: FxHashMap::default(),
            stacks: FxHashMap::default(),
            last: (StackId::NONE, Stack::None),
        }
    }

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let Record::Event(seq, event) = record else {
            return;
        };
        if event.level != self.level || effect == Effect::None {
            return;
        }
        self.follow(replay, event);
        let section = self.sections.entry(event.device).or_default();
        section.first.get_or_insert((seq, event.time));
        section.total = replay.counters(event.device, self.level).live;
        section.peak = section.peak.max(section.total);
        section.change(event, effect);
    }

    /// Notices that the script is at another line.
    fn follow(&mut self, replay: &Replay, event: &Event) {
        let main = event.thread == self.main;
        let Stack::At(line) = self.stack(replay, event.py_stack) else {
            // An allocation with no Python on the main thread is the program's other part. Frees carry no
            // stack: they belong to the line that is at work.
            if main && event.kind == EventKind::ALLOC && self.at.is_some() {
                self.finish();
                self.at = None;
            }
            return;
        };
        if self.thread.is_none() || main {
            self.thread = Some(event.thread);
        }
        if self.thread != Some(event.thread) {
            return;
        }
        if line.is_some() && line != self.at {
            self.finish();
            self.at = line;
        }
    }

    fn stack(&mut self, replay: &Replay, stack: StackId) -> Stack {
        if self.last.0 == stack {
            return self.last.1;
        }
        let (lines, numbers) = (&mut self.lines, &mut self.line_numbers);
        let says = *self.stacks.entry(stack).or_insert_with(|| {
            let own = replay.names.own_stack(stack);
            if own == StackId::NONE {
                return Stack::None;
            }
            let line = script_line(&replay.names, own);
            Stack::At(line.map(|line| number(line, lines, numbers)))
        });
        self.last = (stack, says);
        says
    }

    /// Ends the last section.
    pub fn finish(&mut self) {
        for (device, section) in &mut self.sections {
            let Some((seq, time)) = section.first.take() else {
                continue;
            };
            let (device, added) = (*device, grouped(&mut section.added));
            let removed = groups(std::mem::take(&mut section.removed));
            let (total, peak) = (section.total, std::mem::take(&mut section.peak));
            let sum = |groups: &[Group]| {
                groups
                    .iter()
                    .map(|group| group.bytes.wrapping_mul(group.blocks))
                    .sum::<u64>()
            };
            let at = self.at.and_then(|at| self.lines.get(at as usize));
            let mut change = Change {
                device: (device != DeviceOrdinal::NONE).then_some(device.0),
                file: at.map(|at| Arc::clone(&at.file)),
                line: at.map(|at| at.line),
                function: at.map(|at| Arc::clone(&at.function)),
                change_bytes: sum(&added).wrapping_sub(sum(&removed)) as i64,
                total_bytes: total,
                peak_bytes: peak,
                seq: seq.0,
                time_ns: time.0,
                added,
                removed,
            };
            change.peak_bytes = change.peak_bytes.max(change.before());
            if !change.added.is_empty() || !change.removed.is_empty() || change.rise() > 0 {
                (self.sink)(change);
            }
        }
    }
}

impl Section {
    fn change(&mut self, event: &Event, effect: Effect) {
        match effect {
            Effect::Live(block) if event.kind == EventKind::CANCEL => {
                // Undoes a free of this section, or of one before.
                match self.removed.get_mut(&block.bytes) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => drop(self.added.insert(event.ptr, block.bytes)),
                }
            }
            Effect::Live(block) => drop(self.added.insert(event.ptr, block.bytes)),
            Effect::Gone(block) => {
                if self.added.remove(&event.ptr).is_none() {
                    *self.removed.entry(block.bytes).or_default() += 1;
                }
            }
            Effect::None => {}
        }
    }
}

/// The number of a line, a new one if it has none yet.
fn number(line: Line, lines: &mut Vec<At>, numbers: &mut FxHashMap<Line, u32>) -> u32 {
    *numbers.entry(line).or_insert_with_key(|line| {
        lines.push(At {
            file: line.file.as_str().into(),
            line: line.line,
            function: line.function.as_str().into(),
        });
        lines.len() as u32 - 1
    })
}

/// A table that is no larger is used again.
const SMALL_TABLE: usize = 1024;

/// Blocks by size, largest first; they are taken out.
fn grouped(blocks: &mut FxHashMap<u64, u64>) -> Vec<Group> {
    let mut sizes: Vec<u64> = blocks.drain().map(|(_, bytes)| bytes).collect();
    if blocks.capacity() > SMALL_TABLE {
        *blocks = FxHashMap::default();
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let alike = sizes.chunk_by(|a, b| a == b);
    let group = |alike: &[u64]| {
        let blocks = alike.len() as u64;
        alike.first().map(|bytes| Group {
            bytes: *bytes,
            blocks,
        })
    };
    alike.filter_map(group).collect()
}

fn groups(counts: BTreeMap<u64, u64>) -> Vec<Group> {
    let counts = counts.into_iter().rev().filter(|(_, blocks)| *blocks > 0);
    counts
        .map(|(bytes, blocks)| Group { bytes, blocks })
        .collect()
}

/// What changes that are alike have in common: file, line, device and bytes.
type Alike = (Option<Arc<str>>, Option<u32>, Option<u8>, i64);

fn alike(change: &Change) -> Alike {
    (
        change.file.clone(),
        change.line,
        change.device,
        change.change_bytes,
    )
}

fn groups_of(change: &Change) -> usize {
    change.added.len() + change.removed.len()
}

/// The greatest changes, each with how often it happened alike: bounded, however long the capture.
#[derive(Default)]
pub struct Greatest {
    changes: Vec<(Change, u64)>,
    index: FxHashMap<Alike, usize>,
    /// Groups of all of them, about.
    groups: usize,
    /// Changes seen in all.
    pub seen: u64,
}

/// How many different changes are kept while reading.
const KEPT: usize = 2048;
/// How many groups they may have in all (16 bytes each), unless so few changes have more.
const GROUPS: usize = 1 << 20;
const LEAST_KEPT: usize = 64;

impl Greatest {
    /// Takes in a change.
    pub fn add(&mut self, change: Change) {
        self.seen += 1;
        let key = alike(&change);
        let groups = groups_of(&change);
        if let Some(index) = self.index.get(&key) {
            let (kept, times) = &mut self.changes[*index];
            *times += 1;
            if change.rise() > kept.rise() {
                self.groups += groups;
                *kept = change;
            }
            return;
        }
        self.index.insert(key, self.changes.len());
        self.changes.push((change, 1));
        self.groups += groups;
        let many = self.groups > GROUPS && self.changes.len() > 2 * LEAST_KEPT;
        if many || self.changes.len() >= 2 * KEPT {
            self.shrink(KEPT);
        }
    }

    fn shrink(&mut self, keep: usize) {
        self.changes
            .sort_by_key(|(change, _)| (std::cmp::Reverse(change.extent()), change.seq));
        self.changes.truncate(keep);
        self.groups = 0;
        let groups = &mut self.groups;
        let few = self
            .changes
            .iter()
            .enumerate()
            .take_while(|(at, (change, _))| {
                *groups += groups_of(change);
                *at < LEAST_KEPT || *groups <= GROUPS / 2
            });
        let few = few.count();
        self.changes.truncate(few);
        let keys = self
            .changes
            .iter()
            .enumerate()
            .map(|(index, (change, _))| (alike(change), index));
        self.index = keys.collect();
    }

    /// The `limit` greatest in the order of time, with how often each happened.
    pub fn take(mut self, limit: usize) -> Vec<(Change, u64)> {
        self.shrink(limit);
        self.changes.sort_by_key(|(change, _)| change.seq);
        self.changes
    }
}
