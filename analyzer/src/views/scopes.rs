//! The memory that the program's scopes added, and their peaks: the same figures as those that `gpumem_scope_read`
//! returned to the program, computed by replay.

use std::collections::BTreeMap;

use gpumem_capture::{CounterValues, DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use super::json::{by_name, ordinal};
use crate::replay::peaks_since::{PeaksSince, Since};
use crate::replay::{Effect, Replay};

/// How many scopes are listed individually. The others are only in the sums by name.
const MOST: usize = 10_000;

/// What a scope says of one device and level. Bytes and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeFigures {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// Which level.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Live when it began.
    pub start_bytes: u64,
    /// Live when it ended, or at the end of the capture.
    pub live_bytes: u64,
    /// Most that were live at once in between, both ends included.
    pub peak_bytes: u64,
    /// Allocations in between.
    pub allocations: u64,
    /// Releases in between.
    pub frees: u64,
}

impl ScopeFigures {
    /// Bytes added; negative if more were freed.
    pub fn change(&self) -> i64 {
        self.live_bytes.wrapping_sub(self.start_bytes) as i64
    }

    /// The peak above the start.
    pub fn above(&self) -> u64 {
        self.peak_bytes.saturating_sub(self.start_bytes)
    }
}

/// One scope, from one beginning on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeRow {
    /// Its number in the process.
    pub scope: u64,
    /// What the program calls it.
    pub name: Option<String>,
    /// The event with which it began.
    pub begin_seq: u64,
    /// When that was.
    pub begin_ns: u64,
    /// The event with which it ended; `None`: it goes on at the capture's end.
    pub end_seq: Option<u64>,
    /// When that was.
    pub end_ns: Option<u64>,
    /// Its figures of each device and level that was ever used.
    pub figures: Vec<ScopeFigures>,
}

/// All scopes of a name, on one device and level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeName {
    /// What the program calls them.
    pub name: Option<String>,
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// Which level.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// How many there were.
    pub scopes: u64,
    /// The sum of what each added.
    pub change_bytes: i64,
    /// The most that one added.
    pub most_change_bytes: i64,
    /// The greatest peak above its start.
    pub most_above_bytes: u64,
    /// The scope that had it: the number of its first event.
    pub most_above_seq: u64,
}

/// The scopes of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Scopes {
    /// One by one, in the order in which they ended; those that go on come last.
    pub scopes: Vec<ScopeRow>,
    /// Scopes that are left out of that list, because there are too many.
    pub left_out: u64,
    /// Scopes whose beginning is not in the capture: it is a bounded one, or damaged.
    pub without_begin: u64,
    /// Put together by name, the greatest peaks first.
    pub names: Vec<ScopeName>,
    /// Moments that the program marked.
    pub marks: Vec<MarkRow>,
    /// Marks that are left out of that list.
    pub marks_left_out: u64,
}

/// A moment that the program marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MarkRow {
    /// What it is called.
    pub name: Option<String>,
    /// The event.
    pub seq: u64,
    /// When that was.
    pub ns: u64,
}

type Place = (DeviceOrdinal, Level);

/// The current counters of a device and level.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    values: CounterValues,
    /// The maximum of live bytes since the newest start of a scope.
    most: u64,
}

#[derive(Debug)]
struct Open {
    name: u32,
    seq: Seq,
    time: Nanos,
    since: Since,
    start: BTreeMap<Place, CounterValues>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    scopes: u64,
    change: i64,
    most_change: Option<i64>,
    most_above: Option<(u64, Seq)>,
}

/// Follows a capture. Its memory grows with the number of open scopes and of names.
#[derive(Debug, Default)]
pub struct ScopeWatch {
    rows: BTreeMap<Place, Now>,
    places: Vec<Place>,
    maxima: PeaksSince,
    open: BTreeMap<u64, Open>,
    done: Vec<(u32, ScopeRow)>,
    left_out: u64,
    without_begin: u64,
    sums: BTreeMap<(u32, Place), Sum>,
    marks: Vec<(u32, Seq, Nanos)>,
    marks_left_out: u64,
}

impl ScopeWatch {
    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, _: Effect) {
        match record {
            Record::Event(seq, event) => self.event(replay, seq, event),
            // Nothing is known about the time before the state of a bounded capture.
            Record::State(..) => replay.levels.iter().for_each(|(place, row)| {
                self.row(*place, row.counters);
            }),
            Record::Definition(..) => {}
        }
    }

    fn event(&mut self, replay: &Replay, seq: Seq, event: &Event) {
        match event.kind {
            EventKind::SCOPE_BEGIN => self.begin(seq, event),
            EventKind::SCOPE_END => self.end(seq, event),
            EventKind::MARK if self.marks.len() < MOST => {
                self.marks.push((event.aux as u32, seq, event.time));
            }
            EventKind::MARK => self.marks_left_out += 1,
            _ if CounterValues::counts(event) => {
                let place = (event.device, event.level);
                self.row(place, replay.counters(event.device, event.level));
            }
            _ => {}
        }
    }

    fn row(&mut self, place: Place, values: CounterValues) {
        let places = &mut self.places;
        let now = self.rows.entry(place).or_insert_with(|| {
            places.push(place);
            Now::default()
        });
        now.values = values;
        now.most = now.most.max(values.live);
    }

    fn begin(&mut self, seq: Seq, event: &Event) {
        if let Some(before) = self.open.remove(&event.aux) {
            self.maxima.end(before.since);
        }
        let (rows, places) = (&self.rows, &self.places);
        let most = |place| rows.get(place).map_or(0, |now: &Now| now.most);
        let closed = places.iter().map(most).enumerate();
        let since = self.maxima.begin(closed);
        for now in self.rows.values_mut() {
            now.most = now.values.live;
        }
        let start = self.rows.iter().map(|(place, now)| (*place, now.values));
        let open = Open {
            name: event.ptr as u32,
            seq,
            time: event.time,
            since,
            start: start.collect(),
        };
        self.open.insert(event.aux, open);
    }

    fn end(&mut self, seq: Seq, event: &Event) {
        let Some(open) = self.open.remove(&event.aux) else {
            self.without_begin += 1;
            return;
        };
        let row = self.told(event.aux, &open, Some((seq, event.time)));
        self.maxima.end(open.since);
        self.add(&open, &row);
        if self.done.len() < MOST {
            self.done.push((open.name, row));
        } else {
            self.left_out += 1;
        }
    }

    /// The current figures of a scope.
    fn told(&self, scope: u64, open: &Open, end: Option<(Seq, Nanos)>) -> ScopeRow {
        let figures = self.places.iter().enumerate().filter_map(|(row, place)| {
            let now = self.rows.get(place)?;
            let start = open.start.get(place).copied().unwrap_or_default();
            let peak = self.maxima.since(row, open.since).max(now.most);
            let ((device, level), values) = (*place, now.values);
            Some(ScopeFigures {
                device: ordinal(device),
                level,
                start_bytes: start.live,
                live_bytes: values.live,
                peak_bytes: peak.max(start.live),
                allocations: values.allocations.wrapping_sub(start.allocations),
                frees: values.frees.saturating_sub(start.frees),
            })
        });
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by_key(|of| (of.device.is_none(), of.device, of.level));
        ScopeRow {
            scope,
            name: None,
            begin_seq: open.seq.0,
            begin_ns: open.time.0,
            end_seq: end.map(|(seq, _)| seq.0),
            end_ns: end.map(|(_, time)| time.0),
            figures,
        }
    }

    fn add(&mut self, open: &Open, row: &ScopeRow) {
        for of in &row.figures {
            let device = of.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
            let sum = self.sums.entry((open.name, (device, of.level)));
            let sum = sum.or_default();
            sum.scopes += 1;
            sum.change = sum.change.wrapping_add(of.change());
            sum.most_change = sum.most_change.max(Some(of.change()));
            if sum.most_above.is_none_or(|(most, _)| most < of.above()) {
                sum.most_above = Some((of.above(), open.seq));
            }
        }
    }

    /// The result, after all records. Open scopes have their figures at the end.
    pub fn finish(mut self, replay: &Replay) -> Scopes {
        let going_on = core::mem::take(&mut self.open);
        for (scope, open) in going_on {
            let row = self.told(scope, &open, None);
            self.add(&open, &row);
            if self.done.len() < MOST {
                self.done.push((open.name, row));
            } else {
                self.left_out += 1;
            }
        }
        let name = |number: u32| replay.names.ranges.get(&number).cloned();
        let scopes = self.done.into_iter().map(|(number, row)| ScopeRow {
            name: name(number),
            ..row
        });
        let names = self
            .sums
            .into_iter()
            .map(|((number, (device, level)), sum)| {
                let (most_above, most_above_seq) = sum.most_above.unwrap_or_default();
                ScopeName {
                    name: name(number),
                    device: ordinal(device),
                    level,
                    scopes: sum.scopes,
                    change_bytes: sum.change,
                    most_change_bytes: sum.most_change.unwrap_or_default(),
                    most_above_bytes: most_above,
                    most_above_seq: most_above_seq.0,
                }
            });
        let mut names: Vec<_> = names.collect();
        names.sort_by(|a, b| {
            let key = |of: &ScopeName| (of.level, of.device.is_none(), of.device);
            key(a)
                .cmp(&key(b))
                .then(b.most_above_bytes.cmp(&a.most_above_bytes))
                .then_with(|| a.name.cmp(&b.name))
        });
        let marks = self.marks.into_iter().map(|(number, seq, time)| MarkRow {
            name: name(number),
            seq: seq.0,
            ns: time.0,
        });
        Scopes {
            scopes: scopes.collect(),
            left_out: self.left_out,
            without_begin: self.without_begin,
            names,
            marks: marks.collect(),
            marks_left_out: self.marks_left_out,
        }
    }
}
