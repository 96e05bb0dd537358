//! What each line of the script changed, similar to gpu_mem_track.
//!
//! A section is the time during which the script is at one line: the newest frame in the script's own file, on the
//! main thread. Allocations of other threads meanwhile, for example of autograd's, belong to it. Blocks that are both
//! allocated and freed within a section are not among its blocks, but count for its peak.

mod script;
mod section;

use std::sync::Arc;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Record, ThreadId};
use schemars::JsonSchema;
use serde::Serialize;

use super::block_events::BlockEvents;
use super::json::ordinal;
use crate::replay::{Block, Effect, Replay};
use script::{Script, Stack};
use section::Section;

pub use section::Group;

/// The change of one device's memory during one section of the script. A section is the time in which the script is
/// at one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The absolute name of the script's file that contains the line. For code without a file, such as `<string>`,
    /// the interpreter's name. `None`: the main thread runs no Python, or has not reached the script.
    pub file: Option<Arc<str>>,
    /// The same file relative to the program's folder. `None` if it is not below that folder, or if there is no file.
    pub file_relative: Option<Arc<str>>,
    /// Line number, from 1. `None` if `file` is `None`.
    pub line: Option<u32>,
    /// The function that contains the line. `None` if `file` is `None`.
    pub function: Option<Arc<str>>,
    /// Live bytes after the section less those before it: the bytes of `added` less those of `removed`.
    pub change_bytes: i64,
    /// Live bytes on the device after the section; with a filter for blocks, of the selected blocks only.
    pub total_bytes: u64,
    /// The most bytes that were live at once from the start of the section to its end, the live bytes before it
    /// included.
    pub peak_bytes: u64,
    /// Number of the section's first event on this device.
    pub seq: u64,
    /// Time of that event: nanoseconds since the capture was opened.
    pub time_ns: u64,
    /// Blocks that are live after the section and were not live before it, the largest size first. Blocks that are
    /// freed within the section are not included.
    pub added: Vec<Group>,
    /// Blocks that were live before the section and are not live after it, the largest size first.
    pub removed: Vec<Group>,
}

impl Change {
    /// The bytes by which the peak exceeds the live bytes before and after the section: temporary blocks.
    pub fn rise(&self) -> u64 {
        self.peak_bytes
            .saturating_sub(self.before().max(self.total_bytes))
    }

    fn before(&self) -> u64 {
        self.total_bytes
            .saturating_add_signed(self.change_bytes.saturating_neg())
    }

    /// The size of the net change, or the rise if it is larger.
    pub fn extent(&self) -> u64 {
        self.change_bytes.unsigned_abs().max(self.rise())
    }
}

/// Follows a capture and passes each change to a sink.
pub struct Changes<'a, F> {
    level: Level,
    sink: F,
    /// The selected blocks; `None` for all.
    only: Option<BlockEvents<'a>>,
    /// The number of the current line of the script; `None` outside it.
    at: Option<u32>,
    /// The thread whose lines are followed: the first one with a Python stack, or the main thread.
    thread: Option<ThreadId>,
    main: ThreadId,
    /// The current section of each device. There are only a few.
    sections: Vec<(DeviceOrdinal, Section)>,
    script: Script,
}

impl<'a, F: FnMut(Change)> Changes<'a, F> {
    /// Follows a level of a process. `pid` is also the number of its main thread.
    pub fn new(level: Level, pid: u32, sink: F) -> Self {
        Self {
            level,
            sink,
            only: None,
            at: None,
            thread: None,
            main: ThreadId(pid),
            sections: Vec::new(),
            script: Script::default(),
        }
    }

    /// Follows only these blocks. Totals and peaks then include only them.
    pub fn only(mut self, wanted: BlockEvents<'a>) -> Self {
        self.only = Some(wanted);
        self
    }

    /// Observes a record after the replay has.
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

    /// Applies the state that a bounded capture has instead of the first records.
    fn restore(&mut self, replay: &Replay) {
        for ((device, level), row) in &replay.levels {
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

    /// Updates the current line of the script.
    fn follow(&mut self, replay: &Replay, event: &Event) {
        let main = event.thread == self.main;
        let Stack::At(line) = self.script.stack(replay, event.py_stack) else {
            // An allocation without Python on the main thread is outside the script. Frees have no stack: they belong
            // to the line that is running.
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
            let at = self.at.and_then(|at| self.script.line(at));
            let mut change = Change {
                device: ordinal(device),
                file: at.map(|at| Arc::clone(&at.file)),
                file_relative: at.and_then(|at| at.file_relative.clone()),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpumem_capture::{CodeId, Definition, PyFrame, Seq, StackId};

    use super::*;
    use crate::replay::At;

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
                modules: Vec::new(),
                frames: vec![frame],
            };
            replay.feed(Record::Definition(Seq(0), &code));
            replay.feed(Record::Definition(Seq(0), &stack));
        }
    }

    /// Groups of the blocks in `one` that are not in the other.
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

    /// A random program with failed frees in both sections, compared with copies of the live blocks.
    #[test]
    fn groups_equal_those_of_copies_taken_before_and_after() {
        let mut seed = 0x9e37_79b9_u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        let mut replay = Replay::new(At::End);
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
                    // Some frees are cancelled at once, others much later.
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
