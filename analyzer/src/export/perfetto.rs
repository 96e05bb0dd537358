//! A trace in Chrome's JSON format, which Perfetto opens: counters over time, and slices of steps, phases
//! and ranges.
//!
//! It is written while the capture is read. A counter has at most two points in [`STRETCH`], one of them its greatest
//! value. Slices of one track are nested: the end of a slice also ends the slices within it. An end without a slice
//! is ignored, and slices that are open at the end of the capture end there. Phases and pushed ranges of a thread are
//! on two separate tracks, because they need not be nested in each other.

mod lines;

use std::collections::BTreeMap;
use std::io::{self, Write};

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Nanos, Phase, Record, ThreadId};
use serde_json::json;

use self::lines::Lines;
use super::series::{Point, Series};
use crate::account::place;
use crate::attribution::owner;
use crate::names::Names;
use crate::replay::Replay;
use crate::session::Session;
use crate::units::bytes;

/// The resolution of a counter in time.
pub const STRETCH: Nanos = Nanos(1_000_000);
/// The track of the steps. No thread has this number.
const STEPS: u32 = 2_000_000_000;
/// Offset of the track of a thread's phases from the thread's number.
const PHASES: u32 = 1_000_000_000;
/// Bits of the process number that remain in the number of a rank's track. Linux has at most 22.
const PROCESS_BITS: u32 = 17;
/// The number of rank 0: no process without a rank has it or a higher one.
const FIRST_RANK: u64 = 1 << (22 - PROCESS_BITS);
/// Trace viewers read numbers of processes as signed 32-bit numbers.
const NUMBERS: u64 = 1 << 31;
/// The greatest depth of slices, the same as in the replay.
const DEPTH: usize = 256;

/// Which counters are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this level.
    pub level: Option<Level>,
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
}

/// A device and a level; `None` is the memory that the framework has reserved.
type Counter = (DeviceOrdinal, Option<Level>);

/// A trace under construction.
pub struct Perfetto<'a> {
    out: Lines<'a>,
    names: &'a Names,
    wanted: Wanted,
    counters: BTreeMap<Counter, Series>,
    /// Open slices by track, the newest last; and the number of open slices beyond the greatest depth.
    open: BTreeMap<u32, (Vec<Slice>, usize)>,
    /// Ranges that any thread may end, by their handles.
    by_handle: BTreeMap<u64, String>,
    /// When the newest step ended, and its number.
    step: Option<(Nanos, u64)>,
    first: Option<Nanos>,
    last: Nanos,
}

struct Slice {
    /// The id in its end: a phase's number; 0 for ranges.
    id: u64,
    name: String,
}

impl<'a> Perfetto<'a> {
    /// Begins a trace of a capture that was read to its end as `session`.
    pub fn new(session: &'a Session, wanted: Wanted, out: &'a mut dyn Write) -> Self {
        let names = &session.replay.names;
        let fact = |key: &str| names.fact(key).and_then(|text| text.parse::<u64>().ok());
        let rank = fact(gpumem_capture::ProcessKey::RANK);
        let pid = u64::from(session.header.pid);
        let started = session.header.started_wall_ns;
        let mut lines = Lines::new(out, track_group(rank, pid), started);
        let command = names.command().unwrap_or("(command not known)");
        let name = match rank {
            Some(rank) => {
                let coordinates = names.fact(gpumem_capture::ProcessKey::COORDINATES);
                let at = coordinates.map(|at| format!(" ({at})")).unwrap_or_default();
                format!("rank {rank}{at}: {command} (pid {pid})")
            }
            None => format!("{command} (pid {pid})"),
        };
        lines.metadata("process_name", 0, &json!({ "name": name }));
        let index = json!({ "sort_index": rank.unwrap_or(0) });
        lines.metadata("process_sort_index", 0, &index);
        let mut trace = Self {
            out: lines,
            names,
            wanted,
            counters: BTreeMap::new(),
            open: BTreeMap::new(),
            by_handle: BTreeMap::new(),
            step: None,
            first: None,
            last: Nanos(0),
        };
        trace.peaks(&session.replay);
        trace
    }

    fn takes(&self, device: DeviceOrdinal, level: Level) -> bool {
        self.wanted.device.is_none_or(|only| only == device)
            && self.wanted.level.is_none_or(|only| only == level)
    }

    /// Marks the peak of each level.
    fn peaks(&mut self, replay: &Replay) {
        for ((device, level), row) in &replay.levels {
            let peak = row.counters.peak;
            if peak == 0 || !self.takes(*device, *level) {
                continue;
            }
            let name = format!("peak of {} {level}: {}", place(*device), bytes(peak));
            let args = json!({ "bytes": peak, "event": row.peak.0.0 });
            let more = format!(r#","s":"p","args":{args}"#);
            self.out.event('i', &name, row.peak.1, STEPS, &more);
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>) {
        let Record::Event(_, event) = record else {
            return;
        };
        self.first.get_or_insert(event.time);
        self.last = self.last.max(event.time);
        match event.kind {
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL | EventKind::RESIZE => {
                self.count(replay, event);
            }
            EventKind::STEP => self.step(replay.spans.steps, event.time),
            EventKind::PHASE_BEGIN => {
                let (id, name) = (event.aux, phase(event.aux));
                self.begin(PHASES.wrapping_add(event.thread.0), Slice { id, name });
            }
            EventKind::PHASE_END => self.end(PHASES.wrapping_add(event.thread.0), event.aux),
            EventKind::RANGE_BEGIN | EventKind::RANGE_END => self.range(event),
            EventKind::OUT_OF_MEMORY => self.failure(replay, event),
            _ => {}
        }
    }

    fn count(&mut self, replay: &Replay, event: &Event) {
        let (device, level) = (event.device, event.level);
        if !self.takes(device, level) {
            return;
        }
        let value = replay.counters(device, level).live;
        self.push((device, Some(level)), event.time, value);
        let reserved = replay.devices.get(&device).and_then(|on| on.now.reserved);
        if let (Level::TENSOR, Some(value)) = (level, reserved) {
            self.push((device, None), event.time, value);
        }
    }

    fn push(&mut self, counter: Counter, time: Nanos, value: u64) {
        let series = self.counters.entry(counter);
        let series = series.or_insert_with(|| Series::new(STRETCH));
        for point in series.push(Point { time, value }) {
            point_of(&mut self.out, counter, point);
        }
    }

    fn step(&mut self, number: u64, time: Nanos) {
        let from = self.step.map(|(ended, _)| ended).or(self.first);
        self.step = Some((time, number));
        self.slice(&format!("step {number}"), from.unwrap_or(time), time);
    }

    /// A complete slice on the track of the steps. Its end is written with the same digits as the next one's start:
    /// readers would round the sum of a start and a duration.
    fn slice(&mut self, name: &str, from: Nanos, to: Nanos) {
        self.out.event('B', name, from, STEPS, "");
        self.out.event('E', name, to.max(from), STEPS, "");
    }

    fn begin(&mut self, track: u32, slice: Slice) {
        let (open, deeper) = self.open.entry(track).or_default();
        if open.len() == DEPTH {
            *deeper += 1;
            return;
        }
        self.out.event('B', &slice.name, self.last, track, "");
        open.push(slice);
    }

    /// Ends the newest slice of a track with this id, and the slices within it.
    fn end(&mut self, track: u32, id: u64) {
        let Some((open, deeper)) = self.open.get_mut(&track) else {
            return;
        };
        if *deeper > 0 {
            *deeper -= 1;
            return;
        }
        let Some(at) = open.iter().rposition(|slice| slice.id == id) else {
            return;
        };
        for slice in open.drain(at..).rev() {
            self.out.event('E', &slice.name, self.last, track, "");
        }
    }

    fn range(&mut self, event: &Event) {
        let begins = event.kind == EventKind::RANGE_BEGIN;
        let name = || {
            let known = self.names.ranges.get(&(event.aux as u32));
            known.cloned().unwrap_or_else(|| "(nameless range)".into())
        };
        match (begins, event.ptr) {
            (true, 0) => {
                let name = name();
                self.begin(event.thread.0, Slice { id: 0, name });
            }
            (false, 0) => self.end(event.thread.0, 0),
            (true, handle) => {
                if self.by_handle.len() < DEPTH && !self.by_handle.contains_key(&handle) {
                    let name = name();
                    self.by_any(&name, 'b', handle, event.thread);
                    self.by_handle.insert(handle, name);
                }
            }
            (false, handle) => {
                if let Some(name) = self.by_handle.remove(&handle) {
                    self.by_any(&name, 'e', handle, event.thread);
                }
            }
        }
    }

    /// The start or the end of a range that any thread may end.
    fn by_any(&mut self, name: &str, phase: char, handle: u64, thread: ThreadId) {
        let more = format!(r#","cat":"range","id":"{handle:#x}""#);
        self.out.event(phase, name, self.last, thread.0, &more);
    }

    fn failure(&mut self, replay: &Replay, event: &Event) {
        let stacks = replay.span_context().stacks;
        let line = owner(self.names, stacks, event.level).label(self.names);
        let name = format!("out of memory: {}", bytes(event.bytes));
        let args = json!({
            "bytes": event.bytes,
            "level": event.level.name(),
            "device": place(event.device),
            "line": line,
        });
        let more = format!(r#","s":"p","args":{args}"#);
        self.out
            .event('i', &name, event.time, event.thread.0, &more);
    }

    /// Ends open slices and the trace.
    ///
    /// # Errors
    /// The writer's first error.
    pub fn finish(mut self) -> io::Result<()> {
        for (counter, series) in &mut self.counters {
            for point in series.finish() {
                point_of(&mut self.out, *counter, point);
            }
        }
        if let Some((ended, number)) = self.step
            && self.last > ended
        {
            self.slice(&format!("after step {number}"), ended, self.last);
        }
        let mut tracks: Vec<u32> = Vec::new();
        for (track, (open, _)) in std::mem::take(&mut self.open) {
            for slice in open.iter().rev() {
                self.out.event('E', &slice.name, self.last, track, "");
            }
            tracks.push(track);
        }
        for (handle, name) in std::mem::take(&mut self.by_handle) {
            self.by_any(&name, 'e', handle, ThreadId(self.out.pid as u32));
        }
        let steps = json!({ "name": "steps and peaks" });
        self.out.metadata("thread_name", STEPS, &steps);
        let first = json!({ "sort_index": -1 });
        self.out.metadata("thread_sort_index", STEPS, &first);
        for track in tracks {
            let (thread, what) = match track.checked_sub(PHASES) {
                Some(thread) => (thread, "phases of "),
                None => (track, ""),
            };
            let thread = match self.names.threads.get(&ThreadId(thread)) {
                Some(name) => format!("{name} ({thread})"),
                None => format!("thread {thread}"),
            };
            let name = json!({ "name": format!("{what}{thread}") });
            self.out.metadata("thread_name", track, &name);
        }
        self.out.finish()
    }
}

/// The number of a process in the trace. Ranks of one run may have the same process numbers, because each may run in a
/// separate container. Numbers differ for up to 16,352 ranks.
fn track_group(rank: Option<u64>, pid: u64) -> u64 {
    match rank {
        None => pid,
        Some(rank) => {
            let high = FIRST_RANK.wrapping_add(rank) << PROCESS_BITS;
            (high | (pid % (1 << PROCESS_BITS))) % NUMBERS
        }
    }
}

fn point_of(out: &mut Lines<'_>, (device, level): Counter, point: Point) {
    let name = match level {
        Some(level) => format!("{} {level} live", place(device)),
        None => format!("{} reserved", place(device)),
    };
    let more = format!(r#","args":{{"bytes":{}}}"#, point.value);
    out.event('C', &name, point.time, 0, &more);
}

fn phase(number: u64) -> String {
    match Phase(number) {
        Phase::BACKWARD => "backward".into(),
        Phase::OPTIMIZER => "optimizer".into(),
        Phase::ZERO_GRAD => "zero_grad".into(),
        _ => format!("phase {number}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn processes_of_ten_thousand_ranks_have_different_numbers_of_32_bits() {
        let same = (0..10_000).map(|rank| track_group(Some(rank), 1234));
        let others = [7, 131_072, 4_194_303].map(|pid| track_group(None, pid));
        let all: BTreeSet<u64> = same.chain(others).collect();
        assert_eq!(all.len(), 10_003);
        assert!(all.iter().all(|number| i32::try_from(*number).is_ok()));
        assert_ne!(track_group(Some(3), 40), track_group(Some(3), 41));
    }
}
