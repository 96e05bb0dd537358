//! What each line of the script changed, in the manner of gpu_mem_track.
//!
//! A section is the time during which the script is at one line: the newest frame in the script's own
//! file, of the main thread. What other threads do meanwhile (autograd's among them) belongs to it.
//! Blocks that come and go within a section are not among its blocks, but its peak tells of them.

use std::sync::Arc;

use gpumem_capture::{
    DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq, StackId, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::follow::Follow;
use crate::attribution::{Line, script_line};
use crate::replay::{Block, Effect, Replay};

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

/// The section that a device is in. A block is one of the section's own if no event before the first one
/// made it: so blocks need not be kept, only how many there are of each size.
#[derive(Default)]
struct Section {
    first: Option<(Seq, Nanos)>,
    sizes: Sizes,
    /// Older blocks that became live again, for their frees were cancelled.
    back: FxHashSet<u64>,
    total: u64,
    peak: u64,
    /// Bytes of wanted blocks that are live, where not all are wanted.
    wanted: u64,
}

/// Blocks by their size. Most sections have blocks of few sizes, which are found by looking at each.
#[derive(Default)]
struct Sizes {
    few: Vec<(u64, Moved)>,
    others: FxHashMap<u64, Moved>,
}

/// How many sizes are looked at one by one.
const FEW: usize = 12;

impl Sizes {
    fn of(&mut self, bytes: u64) -> &mut Moved {
        let known = self.few.iter().position(|(of, _)| *of == bytes);
        let at = match known {
            None if self.few.len() == FEW => return self.others.entry(bytes).or_default(),
            None => {
                self.few.push((bytes, Moved::default()));
                self.few.len() - 1
            }
            Some(at) => at,
        };
        &mut self.few[at].1
    }

    /// Gives each size and takes it out.
    fn take(&mut self, mut each: impl FnMut(u64, Moved)) {
        for (bytes, moved) in self.few.drain(..) {
            each(bytes, moved);
        }
        if self.others.is_empty() {
            return;
        }
        for (bytes, moved) in std::mem::take(&mut self.others) {
            each(bytes, moved);
        }
    }
}

/// Blocks of one size.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// The section's own, and older ones that came back, that are live.
    added: u64,
    /// Older ones that are not.
    removed: u64,
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
pub struct Changes<'a, F> {
    level: Level,
    sink: F,
    /// Which blocks are wanted, if not all are.
    only: Option<Follow<'a>>,
    /// The script's line: index into `lines`.
    at: Option<u32>,
    /// The thread whose lines are followed: the first with a Python stack, or the main thread.
    thread: Option<ThreadId>,
    main: ThreadId,
    /// In the order of the devices, which are few.
    sections: Vec<(DeviceOrdinal, Section)>,
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

impl<'a, F: FnMut(Change)> Changes<'a, F> {
    /// Follows a level of a process (its main thread has the process's id).
    pub fn new(level: Level, pid: u32, sink: F) -> Self {
        Self {
            level,
            sink,
            only: None,
            at: None,
            thread: None,
            main: ThreadId(pid),
            sections: Vec::new(),
            lines: Vec::new(),
            line_numbers: FxHashMap::default(),
            stacks: FxHashMap::default(),
            last: (StackId::NONE, Stack::None),
        }
    }

    /// Of these blocks alone: totals and peaks are then theirs.
    pub fn only(mut self, wanted: Follow<'a>) -> Self {
        self.only = Some(wanted);
        self
    }

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let (seq, event) = match record {
            Record::Event(seq, event) => (seq, event),
            Record::State(..) => return self.restore(replay),
            Record::Definition(..) => return,
        };
        let (Effect::Live(block) | Effect::Gone(block)) = effect else {
            return;
        };
        if event.level != self.level {
            return;
        }
        self.follow(replay, event);
        let only = self.only.as_mut();
        if only.is_some_and(|only| !only.takes(replay, event.device, block)) {
            return;
        }
        let at = self.section(event.device);
        let Some((_, section)) = self.sections.get_mut(at) else {
            return;
        };
        let (first, _) = *section.first.get_or_insert((seq, event.time));
        section.total = match (&self.only, effect) {
            (None, _) => replay.counters(event.device, self.level).live,
            (_, Effect::Live(_)) => section.wanted.saturating_add(block.bytes),
            _ => section.wanted.saturating_sub(block.bytes),
        };
        section.wanted = section.total;
        section.peak = section.peak.max(section.total);
        section.change(event, effect, first);
    }

    /// The state of a bounded capture came in the place of the first records.
    fn restore(&mut self, replay: &Replay) {
        for ((device, level), row) in &replay.rows {
            let Some(only) = self.only.as_mut().filter(|_| *level == self.level) else {
                continue;
            };
            let wanted = |(_, block): &(u64, Block)| only.takes(replay, *device, *block);
            let bytes = row
                .live_blocks()
                .filter(wanted)
                .map(|(_, block)| block.bytes);
            let bytes = bytes.sum();
            let at = self.section(*device);
            if let Some((_, section)) = self.sections.get_mut(at) {
                section.wanted = bytes;
            }
        }
    }

    fn section(&mut self, device: DeviceOrdinal) -> usize {
        let known = self.sections.iter().position(|(of, _)| *of == device);
        known.unwrap_or_else(|| {
            let at = self.sections.partition_point(|(of, _)| *of < device);
            self.sections.insert(at, (device, Section::default()));
            at
        })
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
        if stack == StackId::NONE {
            return Stack::None;
        }
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
            let device = *device;
            let (added, removed) = section.groups();
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
    fn change(&mut self, event: &Event, effect: Effect, first: Seq) {
        match effect {
            Effect::Live(block) => {
                let moved = self.sizes.of(block.bytes);
                let is_older = event.kind == EventKind::CANCEL && block.seq < first;
                if is_older && Seq(event.aux) >= first && !self.back.contains(&event.ptr) {
                    // It was freed in this section, which it was not.
                    moved.removed = moved.removed.saturating_sub(1);
                    return;
                }
                if is_older {
                    self.back.insert(event.ptr);
                }
                moved.added += 1;
            }
            Effect::Gone(block) => {
                let own =
                    block.seq >= first || (!self.back.is_empty() && self.back.contains(&event.ptr));
                let moved = self.sizes.of(block.bytes);
                if own {
                    moved.added = moved.added.saturating_sub(1);
                } else {
                    moved.removed += 1;
                }
            }
            Effect::None => {}
        }
    }

    /// What was added and what was removed, the largest sizes first; they are taken out.
    fn groups(&mut self) -> (Vec<Group>, Vec<Group>) {
        self.back.clear();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        self.sizes.take(|bytes, moved| {
            for (blocks, groups) in [(moved.added, &mut added), (moved.removed, &mut removed)] {
                if blocks > 0 {
                    groups.push(Group { bytes, blocks });
                }
            }
        });
        added.sort_unstable_by(|a, b| b.cmp(a));
        removed.sort_unstable_by(|a, b| b.cmp(a));
        (added, removed)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpumem_capture::{CodeId, Definition, PyFrame};

    use super::*;
    use crate::replay::Moment;

    /// Two lines of a script, whose stacks are 1 and 2.
    fn lines(replay: &mut Replay) {
        for line in [1, 2] {
            let code = Definition::Code {
                id: CodeId(line),
                first_line: line,
                file: "/home/me/train.py".into(),
                name: "<module>".into(),
                line_table: Vec::new(),
            };
            let frame = PyFrame {
                code: CodeId(line),
                offset: 0,
                entered_from_c: true,
            };
            let stack = Definition::PyStack {
                id: StackId(line),
                truncated: false,
                frames: vec![frame],
            };
            replay.feed(Record::Definition(Seq(0), &code));
            replay.feed(Record::Definition(Seq(0), &stack));
        }
    }

    /// Groups of what is in `one` and not in the other.
    fn only_in(one: &BTreeMap<u64, (u64, u64)>, other: &BTreeMap<u64, (u64, u64)>) -> Vec<Group> {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for (ptr, block) in one {
            if other.get(ptr) != Some(block) {
                *sizes.entry(block.0).or_default() += 1;
            }
        }
        let groups = sizes.into_iter().rev();
        groups
            .map(|(bytes, blocks)| Group { bytes, blocks })
            .collect()
    }

    /// A random program with failed frees, of both sections, against copies of what was live.
    #[test]
    fn groups_equal_those_of_copies_taken_before_and_after() {
        let mut seed = 0x9e37_79b9_u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        let mut replay = Replay::new(Moment::End);
        lines(&mut replay);
        let mut told = Vec::new();
        let mut expected = Vec::new();
        // Blocks by address: bytes, and the event that made them.
        let mut live: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut freed: Vec<(u64, u64, (u64, u64))> = Vec::new();
        let mut before = live.clone();
        let (mut line, mut next, mut event_seen) = (1, 0x1000, false);
        let mut changes = Changes::new(Level::DRIVER, 7, |change: Change| {
            told.push((change.added, change.removed));
        });
        for seq in 1..6000 {
            let mut event = Event {
                kind: EventKind::ALLOC,
                level: Level::DRIVER,
                thread: ThreadId(7),
                py_stack: StackId(line),
                ..Event::default()
            };
            match random(10) {
                0..5 => {
                    next += 0x1000;
                    event.ptr = next;
                    event.bytes = u64::from(random(20)) * 512 + 512;
                    live.insert(event.ptr, (event.bytes, seq));
                }
                5..8 if !live.is_empty() => {
                    let at = random(live.len() as u32) as usize;
                    let (ptr, block) = live.iter().nth(at).map(|(p, b)| (*p, *b)).unwrap();
                    live.remove(&ptr);
                    freed.push((seq, ptr, block));
                    (event.kind, event.ptr, event.bytes) = (EventKind::FREE, ptr, block.0);
                }
                8 if !freed.is_empty() => {
                    // Some frees are cancelled at once, some much later.
                    let newest = freed.len().min(6) as u32;
                    let at = freed.len() - 1 - random(newest) as usize;
                    let (free, ptr, block) = freed.remove(at);
                    live.insert(ptr, block);
                    (event.kind, event.ptr, event.bytes) = (EventKind::CANCEL, ptr, block.0);
                    event.aux = free;
                }
                9 if event_seen && random(3) == 0 => {
                    event_seen = false;
                    // The next event is at the other line.
                    line = 3 - line;
                    expected.push((only_in(&live, &before), only_in(&before, &live)));
                    before.clone_from(&live);
                    continue;
                }
                _ => continue,
            }
            event_seen = true;
            let record = Record::Event(Seq(seq), &event);
            let effect = replay.feed(record);
            changes.observe(&replay, record, effect);
        }
        expected.push((only_in(&live, &before), only_in(&before, &live)));
        changes.finish();
        drop(changes);
        expected.retain(|(added, removed)| !added.is_empty() || !removed.is_empty());
        told.retain(|(added, removed)| !added.is_empty() || !removed.is_empty());
        assert!(told.len() > 50);
        assert_eq!(told, expected);
    }
}
