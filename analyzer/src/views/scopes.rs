//! The memory that the program's scopes added, and their peaks: the same figures as those that `gpumem_scope_read`
//! returned to the program, computed by replay.

use std::collections::BTreeMap;

use gpumem_capture::{CounterValues, DeviceOrdinal, Event, EventKind, Level, Nanos, Record, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use super::json::{by_name, ordinal};
use crate::replay::peaks_since::{PeaksSince, Since};
use crate::replay::{Effect, Replay};

/// The maximum number of scopes that are listed individually, and of marks. Further scopes are only in the sums by
/// name.
const MOST: usize = 10_000;

/// Figures of one scope on one device and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeFigures {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Level at which bytes are counted: `tensor`, `driver`, `host` or `physical`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Live bytes of the level when the scope began.
    pub start_bytes: u64,
    /// Live bytes of the level when the scope ended, or at the end of the capture if it did not end.
    pub live_bytes: u64,
    /// Peak of the live bytes of the level during the scope, its start and its end included.
    pub peak_bytes: u64,
    /// Number of allocations during the scope.
    pub allocations: u64,
    /// Number of frees during the scope.
    pub frees: u64,
}

impl ScopeFigures {
    /// Bytes that the scope added; negative if more were freed.
    pub fn change(&self) -> i64 {
        self.live_bytes.wrapping_sub(self.start_bytes) as i64
    }

    /// The peak minus the live bytes at the start.
    pub fn above(&self) -> u64 {
        self.peak_bytes.saturating_sub(self.start_bytes)
    }
}

/// One scope, from its begin to its end. A scope that is begun again counts from its newest begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeRow {
    /// Number of the scope in the process.
    pub scope: u64,
    /// Name that the program gave to the scope; `None`: not in the capture.
    pub name: Option<String>,
    /// Number of the event with which the scope began.
    pub begin_seq: u64,
    /// Time at which the scope began, in nanoseconds since the capture was opened.
    pub begin_ns: u64,
    /// Number of the event with which the scope ended; `None`: it is open at the end of the capture.
    pub end_seq: Option<u64>,
    /// Time at which the scope ended, in nanoseconds since the capture was opened; `None`: it is open at the end of
    /// the capture.
    pub end_ns: Option<u64>,
    /// Figures of each device and level that had been used by the end of the scope; empty if no memory had been used.
    pub figures: Vec<ScopeFigures>,
}

/// All scopes of one name, on one device and level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScopeName {
    /// Name that the program gave to the scopes; `None`: not in the capture.
    pub name: Option<String>,
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Level at which bytes are counted: `tensor`, `driver`, `host` or `physical`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Number of these scopes.
    pub scopes: u64,
    /// Sum over these scopes of the live bytes at the end minus those at the start. Negative: they freed more than
    /// they allocated.
    pub change_bytes: i64,
    /// Largest number of bytes that one of these scopes added: its live bytes at the end minus those at its start.
    pub most_change_bytes: i64,
    /// Largest peak of one of these scopes above its start: `peak_bytes` minus `start_bytes`.
    pub most_above_bytes: u64,
    /// Number of the event with which that scope began (`begin_seq`).
    pub most_above_seq: u64,
}

/// The program's scopes and marks in a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Scopes {
    /// The first 10,000 scopes, by the time of their end; those that are open at the end of the capture come last.
    pub scopes: Vec<ScopeRow>,
    /// Number of further scopes, which are only in `names`.
    pub left_out: u64,
    /// Number of ends of scopes whose begin is not in the capture, because it is bounded or damaged. These scopes are
    /// not listed.
    pub without_begin: u64,
    /// Sums over scopes of the same name, by level and device, and then the largest `most_above_bytes` first.
    pub names: Vec<ScopeName>,
    /// The first 10,000 marks, by time.
    pub marks: Vec<MarkRow>,
    /// Number of further marks.
    pub marks_left_out: u64,
}

/// A point in time that the program marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MarkRow {
    /// Name that the program gave to the mark; `None`: not in the capture.
    pub name: Option<String>,
    /// Event number of the mark.
    pub seq: u64,
    /// Time of the mark, in nanoseconds since the capture was opened.
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
