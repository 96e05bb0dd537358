//! Activities of the program as lanes of spans: phases, steps, ranges, scopes, marks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{Event, EventKind, Phase, ThreadId};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// The maximum number of spans of a lane: the widest are kept.
const KEPT: usize = 4096;
/// The maximum number of open spans of a thread, or of all scopes.
const OPEN: usize = 256;

/// Kind of activity that a lane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// Phases that were marked: backward, the optimizer's step, zeroing of gradients.
    Phases,
    /// Steps of the training, each from the end of the step before.
    Steps,
    /// NVTX ranges.
    Ranges,
    /// Scopes of the program.
    Scopes,
    /// Points in time that the program marked; start and end are equal.
    Marks,
}

impl LaneKind {
    const ALL: [Self; 5] = [
        Self::Phases,
        Self::Steps,
        Self::Ranges,
        Self::Scopes,
        Self::Marks,
    ];

    /// The label of the lane.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phases => "phases",
            Self::Steps => "steps",
            Self::Ranges => "ranges",
            Self::Scopes => "scopes",
            Self::Marks => "marks",
        }
    }
}

/// One span as `[from_ns, to_ns, label]`: start and end in nanoseconds since the capture was opened, and the label. An
/// open span ends with the capture. A span that is only partly in the timeline keeps its own start and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "(u64, u64, String)")]
pub struct LaneSpan {
    /// Start of the span, in nanoseconds since the capture was opened; may be before the start of the timeline.
    pub from_ns: u64,
    /// End of the span, or of the capture if the span is open, in nanoseconds since the capture was opened; may be
    /// after the end of the timeline.
    pub to_ns: u64,
    /// Name of the span, such as `backward`, `step 7` or the name of the range.
    pub label: String,
}

impl From<LaneSpan> for (u64, u64, String) {
    fn from(span: LaneSpan) -> Self {
        (span.from_ns, span.to_ns, span.label)
    }
}

/// Spans of one kind, by start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lane {
    /// Kind of the spans.
    pub kind: LaneKind,
    /// Label of the lane: `phases`, `steps`, `ranges`, `scopes` or `marks`.
    pub name: &'static str,
    /// The up to 4,096 widest spans, by start.
    pub spans: Vec<LaneSpan>,
    /// Number of further spans, which are narrower.
    pub left_out: u64,
}

/// The name of a span before the capture's end, when names become known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Phase(u64),
    Step(u64),
    /// The number of a RANGE; 0: none.
    Range(u32),
}

/// The widest spans of a lane.
#[derive(Debug, Default)]
struct Widest {
    /// By width; of equal ones, the earlier is the greater.
    spans: BTreeMap<(u64, Reverse<u64>), (u64, u64, Name)>,
    count: u64,
}

impl Widest {
    fn add(&mut self, width: u64, from: u64, to: u64, name: Name) {
        let key = (width, Reverse(self.count));
        self.count += 1;
        let least = self.spans.first_key_value();
        if self.spans.len() < KEPT || least.is_some_and(|(least, _)| *least < key) {
            self.spans.insert(key, (from, to, name));
        }
        if self.spans.len() > KEPT {
            self.spans.pop_first();
        }
    }
}

type Open = (u64, Name);

/// Follows the marks. Its memory does not grow with the capture's length.
#[derive(Debug, Default)]
pub(super) struct LanesTrack {
    lanes: BTreeMap<LaneKind, Widest>,
    phases: FxHashMap<ThreadId, Vec<Open>>,
    pushed: FxHashMap<ThreadId, Vec<Open>>,
    /// Ranges that any thread may end, by their handles.
    started: Vec<(u64, Open)>,
    scopes: Vec<(u64, Open)>,
    /// The end of the last step, or the start of the run.
    step: Option<u64>,
    /// The wanted part of the run.
    from: u64,
    to: u64,
}

fn push<T>(stack: &mut Vec<T>, value: T) {
    if stack.len() == OPEN {
        stack.remove(0);
    }
    stack.push(value);
}

fn take(open: &mut Vec<(u64, Open)>, number: u64) -> Option<Open> {
    let at = open.iter().rposition(|(of, _)| *of == number)?;
    Some(open.remove(at).1)
}

impl LanesTrack {
    /// The run begins.
    pub fn begin(&mut self, time: u64) {
        self.step.get_or_insert(time);
    }

    /// Only the time between these is wanted.
    pub fn within(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    fn add(&mut self, kind: LaneKind, (from, name): Open, to: u64) {
        let (begin, end) = (from.max(self.from), to.min(self.to));
        // A span that only touches the stretch is not in it.
        if begin < end || (begin == end && from == to) {
            let lane = self.lanes.entry(kind).or_default();
            lane.add(end - begin, from, to, name);
        }
    }

    /// Observes a mark after the replay has.
    pub fn mark(&mut self, replay: &Replay, event: &Event) {
        let (now, thread) = (event.time.0, event.thread);
        let name = Name::Range(event.aux as u32);
        match event.kind {
            EventKind::STEP => {
                let begun = self.step.replace(now).unwrap_or(now);
                let name = Name::Step(replay.spans.steps);
                self.add(LaneKind::Steps, (begun, name), now);
            }
            EventKind::PHASE_BEGIN => {
                let open = self.phases.entry(thread).or_default();
                push(open, (now, Name::Phase(event.aux)));
            }
            EventKind::PHASE_END => self.phase_end(thread, event.aux, now),
            EventKind::RANGE_BEGIN if event.ptr == 0 => {
                push(self.pushed.entry(thread).or_default(), (now, name));
            }
            EventKind::RANGE_BEGIN => push(&mut self.started, (event.ptr, (now, name))),
            EventKind::RANGE_END => {
                let open = match event.ptr {
                    0 => self.pushed.get_mut(&thread).and_then(Vec::pop),
                    handle => take(&mut self.started, handle),
                };
                if let Some(open) = open {
                    self.add(LaneKind::Ranges, open, now);
                }
            }
            EventKind::SCOPE_BEGIN => {
                // A scope that begins again counts from its newest start.
                take(&mut self.scopes, event.aux);
                let name = Name::Range(event.ptr as u32);
                push(&mut self.scopes, (event.aux, (now, name)));
            }
            EventKind::SCOPE_END => {
                if let Some(open) = take(&mut self.scopes, event.aux) {
                    self.add(LaneKind::Scopes, open, now);
                }
            }
            EventKind::MARK => self.add(LaneKind::Marks, (now, name), now),
            _ => {}
        }
    }

    /// An end that does not match the newest start also ends the spans within the one that it matches.
    fn phase_end(&mut self, thread: ThreadId, phase: u64, now: u64) {
        let Some(open) = self.phases.get_mut(&thread) else {
            return;
        };
        let at = open.iter().rposition(|(_, of)| *of == Name::Phase(phase));
        let ended = at.map(|at| open.split_off(at)).unwrap_or_default();
        for span in ended {
            self.add(LaneKind::Phases, span, now);
        }
    }

    /// All lanes with spans. Open spans end with the run.
    pub fn finish(mut self, replay: &Replay, end: u64) -> Vec<Lane> {
        let phases: Vec<Open> = std::mem::take(&mut self.phases)
            .into_values()
            .flatten()
            .collect();
        let pushed = std::mem::take(&mut self.pushed).into_values().flatten();
        let started = std::mem::take(&mut self.started);
        let ranges: Vec<Open> = pushed
            .chain(started.into_iter().map(|(_, open)| open))
            .collect();
        let scopes = std::mem::take(&mut self.scopes);
        let scopes: Vec<Open> = scopes.into_iter().map(|(_, open)| open).collect();
        for (kind, open) in [
            (LaneKind::Phases, phases),
            (LaneKind::Ranges, ranges),
            (LaneKind::Scopes, scopes),
        ] {
            for open in open {
                self.add(kind, open, end.max(open.0));
            }
        }
        let lanes = LaneKind::ALL.into_iter().filter_map(|kind| {
            let lane = self.lanes.remove(&kind)?;
            let left_out = lane.count - lane.spans.len() as u64;
            let spans = lane.spans.into_values();
            let mut spans: Vec<LaneSpan> = spans
                .map(|(from_ns, to_ns, name)| LaneSpan {
                    from_ns,
                    to_ns,
                    label: label(replay, kind, name),
                })
                .collect();
            spans.sort_by(|a, b| {
                let key = |span: &LaneSpan| (span.from_ns, Reverse(span.to_ns));
                key(a).cmp(&key(b)).then_with(|| a.label.cmp(&b.label))
            });
            Some(Lane {
                kind,
                name: kind.name(),
                spans,
                left_out,
            })
        });
        lanes.collect()
    }
}

fn label(replay: &Replay, kind: LaneKind, name: Name) -> String {
    match name {
        Name::Phase(phase) => match Phase(phase) {
            Phase::BACKWARD => "backward".into(),
            Phase::OPTIMIZER => "optimizer".into(),
            Phase::ZERO_GRAD => "zero_grad".into(),
            Phase(other) => format!("phase {other}"),
        },
        Name::Step(step) => format!("step {step}"),
        Name::Range(number) => {
            let known = replay.names.ranges.get(&number);
            let unnamed = || format!("unnamed {}", kind.name().trim_end_matches('s'));
            known.cloned().unwrap_or_else(unnamed)
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::Nanos;

    use super::*;

    fn event(kind: EventKind, time: u64, aux: u64, ptr: u64) -> Event {
        Event {
            kind,
            time: Nanos(time),
            aux,
            ptr,
            ..Event::default()
        }
    }

    /// Kind, spans and number of omitted spans of a lane.
    type Told = (LaneKind, Vec<(u64, u64)>, u64);

    fn lanes(from: u64, to: u64, events: &[Event]) -> Vec<Told> {
        let replay = Replay::default();
        let mut track = LanesTrack::within(from, to);
        track.begin(0);
        events.iter().for_each(|event| track.mark(&replay, event));
        let lanes = track.finish(&replay, 1_000_000).into_iter();
        lanes
            .map(|lane| {
                let spans = lane.spans.iter().map(|of| (of.from_ns, of.to_ns));
                (lane.kind, spans.collect(), lane.left_out)
            })
            .collect()
    }

    #[test]
    fn ends_find_their_begins_and_what_goes_on_ends_with_the_run() {
        let (begin, end) = (EventKind::RANGE_BEGIN, EventKind::RANGE_END);
        let events = [
            event(begin, 10, 1, 0),
            event(begin, 20, 2, 0xabc),
            event(begin, 30, 3, 0),
            event(end, 40, 0, 0xabc),
            event(end, 50, 0, 0),
            event(end, 60, 0, 0xdef),
            event(EventKind::PHASE_BEGIN, 70, 2, 0),
            event(EventKind::PHASE_BEGIN, 80, 3, 0),
            event(EventKind::PHASE_END, 90, 2, 0),
            event(EventKind::PHASE_END, 95, 3, 0),
            event(EventKind::SCOPE_BEGIN, 100, 7, 0),
            event(EventKind::SCOPE_BEGIN, 110, 7, 0),
            event(EventKind::SCOPE_END, 120, 7, 0),
            event(EventKind::MARK, 130, 0, 0),
            event(EventKind::STEP, 140, 1, 0),
            event(EventKind::STEP, 150, 2, 0),
        ];
        let expected = [
            (LaneKind::Phases, vec![(70, 90), (80, 90)], 0),
            (LaneKind::Steps, vec![(0, 140), (140, 150)], 0),
            (
                LaneKind::Ranges,
                vec![(10, 1_000_000), (20, 40), (30, 50)],
                0,
            ),
            (LaneKind::Scopes, vec![(110, 120)], 0),
            (LaneKind::Marks, vec![(130, 130)], 0),
        ];
        assert_eq!(lanes(0, u64::MAX, &events), expected);
        let inside = lanes(45, 85, &events);
        let expected = [
            (LaneKind::Phases, vec![(70, 90), (80, 90)], 0),
            (LaneKind::Steps, vec![(0, 140)], 0),
            (LaneKind::Ranges, vec![(10, 1_000_000), (30, 50)], 0),
        ];
        assert_eq!(inside, expected, "what reaches into the stretch");
    }

    #[test]
    fn the_widest_are_kept_and_the_others_counted() {
        let mut events = Vec::new();
        for number in 0..16_000 {
            let (at, length) = (number * 1000, if number % 4 == 0 { 100 } else { 10 });
            events.push(event(EventKind::RANGE_BEGIN, at, 1, 0));
            events.push(event(EventKind::RANGE_END, at + length, 0, 0));
        }
        let lanes = lanes(0, u64::MAX, &events);
        let (_, spans, left_out) = &lanes[0];
        assert_eq!((spans.len(), *left_out), (KEPT, 16_000 - KEPT as u64));
        let wide = spans.iter().filter(|(from, to)| to - from == 100);
        assert_eq!(wide.count(), 4000);
        assert!(spans.is_sorted(), "in the order of their beginnings");
    }
}
