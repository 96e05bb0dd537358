//! Figures that sort rows, apart from the bytes that they hold.

use std::collections::BTreeMap;

use gpumem_analyzer::render::{count, time};
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::views::{ByStack, Lines, Select, categories, modules};
use gpumem_capture::{Level, Nanos};

use super::ask::{Ask, By, Order};
use super::baseline::Baselines;
use super::which::Which;

/// A figure for each row that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The kind of figure.
    pub order: Order,
    /// By row: bytes, bytes per step, or thousandths of an allocation per second.
    pub by: BTreeMap<Which, i64>,
    /// The period that it covers.
    pub over: String,
}

/// The figure of each row at a point in time, whose time is `now`; `None` if the bytes held sort the rows.
pub(crate) fn measure(
    replay: &Replay,
    ask: Ask,
    (level, moment): (Level, At),
    now: Nanos,
    baselines: &Baselines,
) -> Option<Measure> {
    let select = Select {
        device: ask.device,
        ..Select::default()
    };
    let rows = |held: &ByStack| by_row(replay, held, ask.by);
    let (by, over) = match ask.order {
        Order::Bytes => return None,
        Order::Peak => {
            let held = ByStack::at(replay, level, At::Peak, &select);
            let bytes = rows(&held).into_iter().map(|(of, held)| (of, held.0));
            (bytes.collect(), "of the level".to_owned())
        }
        Order::Growth => {
            let Some(since) = baselines.get() else {
                let over = "once two steps have ended".to_owned();
                return Some(Measure {
                    order: ask.order,
                    by: BTreeMap::new(),
                    over,
                });
            };
            let steps = baselines.seen().saturating_sub(since.steps).max(1);
            let mut by: BTreeMap<Which, i64> = BTreeMap::new();
            let held = ByStack::at(replay, level, moment, &select);
            for (of, (bytes, _)) in rows(&held) {
                *by.entry(of).or_default() += bytes;
            }
            for (of, (bytes, _)) in rows(&since.live(level, ask.device)) {
                *by.entry(of).or_default() -= bytes;
            }
            by.values_mut().for_each(|bytes| *bytes /= steps as i64);
            let over = match steps {
                1 => "over the last step".to_owned(),
                more => format!("over the last {} steps", count(more)),
            };
            (by, over)
        }
        Order::Rate => {
            let mut by: BTreeMap<Which, i64> = BTreeMap::new();
            for (of, (_, blocks)) in rows(&ByStack::allocated(replay, level, &select)) {
                *by.entry(of).or_default() += blocks;
            }
            let since = baselines.get();
            if let Some(since) = since {
                for (of, (_, blocks)) in rows(&since.allocated(level, ask.device)) {
                    *by.entry(of).or_default() -= blocks;
                }
            }
            let from = since.map_or(Nanos(0), |since| since.time);
            let took = i128::from(now.0.saturating_sub(from.0)).max(1);
            for blocks in by.values_mut() {
                let thousandths = i128::from(*blocks) * 1_000_000_000_000 / took;
                *blocks = i64::try_from(thousandths).unwrap_or(i64::MAX);
            }
            let over = match since {
                None => format!("since the start, {}", time(now)),
                Some(since) => format!("since step {}", count(since.steps)),
            };
            (by, over)
        }
    };
    Some(Measure {
        order: ask.order,
        by,
        over,
    })
}

/// Bytes and blocks of each row.
fn by_row(replay: &Replay, held: &ByStack, by: By) -> BTreeMap<Which, (i64, i64)> {
    fn figures<R>(rows: &[R], of: impl Fn(&R) -> (u64, u64)) -> BTreeMap<Which, (i64, i64)>
    where
        for<'a> Which: From<&'a R>,
    {
        let rows = rows.iter().map(|row| {
            let (bytes, blocks) = of(row);
            (Which::from(row), (bytes as i64, blocks as i64))
        });
        rows.collect()
    }
    match by {
        By::Line => figures(&Lines::of(replay, held).rows, |row| (row.bytes, row.blocks)),
        By::Category => figures(&categories(held), |row| (row.bytes, row.blocks)),
        By::Module => {
            let modules = modules(replay, held);
            figures(&modules, |row| (row.bytes, row.blocks))
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{CodeId, Definition, Event, EventKind, PyFrame, Record, Seq, StackId};

    use super::*;

    /// Records of a program with two lines that allocate.
    struct Program {
        replay: Replay,
        baselines: Baselines,
        seq: u64,
        seconds: u64,
    }

    impl Program {
        fn new() -> Self {
            let mut replay = Replay::new(At::End);
            for id in 1..=2 {
                let code = Definition::Code {
                    id: CodeId(id),
                    first_line: 10 * id,
                    file: "train.py".into(),
                    name: "step".into(),
                    line_table: Vec::new(),
                };
                let stack = Definition::PyStack {
                    id: StackId(id),
                    truncated: false,
                    frames: vec![PyFrame {
                        code: CodeId(id),
                        offset: 0,
                        entered_from_c: false,
                    }],
                    modules: Vec::new(),
                };
                for definition in [code, stack] {
                    replay.feed(Record::Definition(Seq(0), &definition));
                }
            }
            Self {
                replay,
                baselines: Baselines::default(),
                seq: 0,
                seconds: 0,
            }
        }

        fn event(&mut self, kind: EventKind, line: u32, ptr: u64, bytes: u64) {
            self.seq += 1;
            let event = Event {
                time: Nanos(self.seconds * 1_000_000_000),
                kind,
                level: Level::TENSOR,
                py_stack: StackId(line),
                ptr,
                bytes,
                ..Event::default()
            };
            self.replay.feed(Record::Event(Seq(self.seq), &event));
            self.baselines.observe(&self.replay);
        }

        /// A step of one second: line 1 keeps 100 bytes, line 2 allocates 1000 bytes three times and frees them.
        fn step(&mut self) {
            self.seconds += 1;
            let at = self.seq * 100;
            self.event(EventKind::ALLOC, 1, 0x10_000 + at, 100);
            for _ in 0..3 {
                self.event(EventKind::ALLOC, 2, 0x20_000 + at, 1000);
                self.event(EventKind::FREE, 2, 0x20_000 + at, 1000);
            }
            self.event(EventKind::STEP, 0, 0, 0);
        }

        fn measure(&self, order: Order) -> (Vec<(u32, i64)>, String) {
            let ask = Ask {
                order,
                ..Ask::default()
            };
            let of = (Level::TENSOR, At::End);
            let measure = measure(&self.replay, ask, of, self.replay.last, &self.baselines);
            let measure = measure.expect("it is asked for");
            let line = |which: &Which| match &which.of {
                super::super::which::Of::Line(owner) => owner.line().map_or(0, |line| line.line),
                _ => 0,
            };
            let by = measure.by.iter();
            let mut by: Vec<_> = by.map(|(which, of)| (line(which), *of)).collect();
            by.sort_unstable();
            (by, measure.over)
        }
    }

    #[test]
    fn growth_and_rates_are_of_the_newest_steps() {
        let mut program = Program::new();
        // The memory that the first step keeps is not growth.
        program.event(EventKind::ALLOC, 2, 0x1000, 1_000_000);
        program.step();
        assert!(program.measure(Order::Growth).0.is_empty());
        for _ in 0..10 {
            program.step();
        }
        let (growth, over) = program.measure(Order::Growth);
        assert_eq!(growth, [(10, 100), (20, 0)]);
        assert_eq!(over, "over the last 7 steps");
        let (rate, over) = program.measure(Order::Rate);
        assert_eq!(rate, [(10, 1000), (20, 3000)]);
        assert_eq!(over, "since step 4");
        let (peak, _) = program.measure(Order::Peak);
        assert_eq!(peak, [(10, 1100), (20, 1_001_000)]);
    }
}
