use gpumem_capture::{
    CounterValues, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, Record, Seq, StackId,
    ThreadId,
};

use std::collections::BTreeMap;

use super::*;

#[derive(Default)]
struct Play {
    replay: Replay,
    seq: u64,
}

impl Play {
    fn until(seq: u64) -> Self {
        Self {
            replay: Replay::new(At::Event(Seq(seq))),
            seq: 0,
        }
    }

    /// Feeds an event on GPU 0, its Python stack being `stack`; returns its number.
    fn event(&mut self, kind: EventKind, level: Level, ptr: u64, bytes: u64, stack: u32) -> u64 {
        let event = Event {
            kind,
            level,
            ptr,
            bytes,
            py_stack: StackId(stack),
            ..Event::default()
        };
        self.feed(event)
    }

    fn feed(&mut self, event: Event) -> u64 {
        self.seq += 1;
        self.replay.feed(Record::Event(Seq(self.seq), &event));
        self.seq
    }

    fn alloc(&mut self, ptr: u64, bytes: u64, stack: u32) -> u64 {
        self.event(EventKind::ALLOC, Level::TENSOR, ptr, bytes, stack)
    }

    fn free(&mut self, ptr: u64, bytes: u64) -> u64 {
        self.event(EventKind::FREE, Level::TENSOR, ptr, bytes, 99)
    }

    fn figures(&self, level: Level, moment: At) -> Vec<(u32, u64, u64)> {
        let mut out = BTreeMap::<u32, Figure>::new();
        for (key, figure) in self.replay.figures(DeviceOrdinal(0), level, moment) {
            *out.entry(key.py.0).or_default() += figure;
        }
        let figures = out.into_iter();
        figures
            .map(|(stack, figure)| (stack, figure.bytes, figure.blocks))
            .collect()
    }
}

#[test]
fn bytes_go_to_the_stack_that_allocated_them() {
    let mut play = Play::default();
    play.alloc(0x10, 100, 1);
    play.alloc(0x20, 30, 2);
    play.alloc(0x30, 5, 1);
    play.free(0x10, 100);
    play.alloc(0x10, 7, 3);
    assert_eq!(
        play.figures(Level::TENSOR, At::Peak),
        [(1, 105, 2), (2, 30, 1)]
    );
    assert_eq!(
        play.figures(Level::TENSOR, At::End),
        [(1, 5, 1), (2, 30, 1), (3, 7, 1)]
    );
    let expected = CounterValues {
        live: 42,
        peak: 135,
        allocations: 4,
        frees: 1,
        allocated_bytes: 142,
    };
    assert_eq!(
        play.replay.counters(DeviceOrdinal(0), Level::TENSOR),
        expected
    );
    assert_eq!(
        play.replay.levels[&(DeviceOrdinal(0), Level::TENSOR)]
            .peak
            .0,
        Seq(3)
    );
}

#[test]
fn cancelled_frees_give_the_blocks_back_to_their_stacks() {
    let mut play = Play::default();
    let driver = Level::DRIVER;
    play.event(EventKind::ALLOC, driver, 0x10, 100, 1);
    play.event(EventKind::ALLOC, driver, 0x20, 30, 2);
    // One call that should have freed both, and failed; other threads freed meanwhile.
    let freed: Vec<u64> = [(0x10, 100), (0x20, 30)]
        .map(|(ptr, bytes)| play.event(EventKind::FREE, driver, ptr, bytes, 0))
        .into();
    play.event(EventKind::ALLOC, driver, 0x30, 7, 3);
    play.event(EventKind::FREE, driver, 0x30, 7, 0);
    for (free, (ptr, bytes)) in freed.iter().zip([(0x10, 100), (0x20, 30)]) {
        play.feed(Event {
            kind: EventKind::CANCEL,
            level: driver,
            ptr,
            bytes,
            aux: *free,
            py_stack: StackId(99),
            ..Event::default()
        });
    }
    assert_eq!(play.figures(driver, At::End), [(1, 100, 1), (2, 30, 1)]);
    let state = &play.replay.levels[&(DeviceOrdinal(0), driver)];
    assert_eq!((state.counters.live, state.counters.frees), (130, 1));
    assert_eq!(state.anomalies, Anomalies::default());
    play.event(EventKind::FREE, driver, 0x10, 100, 0);
    assert_eq!(play.figures(driver, At::End), [(2, 30, 1)]);
}

#[test]
fn a_moment_is_just_after_its_event() {
    let mut play = Play::until(2);
    play.alloc(0x10, 100, 1);
    play.alloc(0x20, 10, 2);
    play.free(0x10, 100);
    play.alloc(0x30, 1000, 3);
    let moment = At::Event(Seq(2));
    assert_eq!(
        play.figures(Level::TENSOR, moment),
        [(1, 100, 1), (2, 10, 1)]
    );
    assert_eq!(
        play.replay.total(DeviceOrdinal(0), Level::TENSOR, moment),
        110
    );
    assert_eq!(
        play.replay.counters(DeviceOrdinal(0), Level::TENSOR).peak,
        1010
    );
}

#[test]
fn levels_and_handles_do_not_mix_though_their_numbers_are_equal() {
    let mut play = Play::default();
    play.alloc(0x10, 1, 1);
    play.event(EventKind::ALLOC, Level::DRIVER, 0x10, 2, 2);
    play.event(EventKind::ALLOC, Level::HOST, 0x10, 4, 3);
    play.feed(Event {
        kind: EventKind::ALLOC,
        level: Level::DRIVER,
        ptr: 0x10,
        bytes: 8,
        flags: EventFlags::VMM_HANDLE,
        py_stack: StackId(4),
        ..Event::default()
    });
    play.event(EventKind::FREE, Level::DRIVER, 0x10, 2, 9);
    assert_eq!(play.figures(Level::DRIVER, At::End), [(4, 8, 1)]);
    assert_eq!(play.figures(Level::HOST, At::End), [(3, 4, 1)]);
    assert_eq!(play.figures(Level::TENSOR, At::End), [(1, 1, 1)]);
    assert!(
        play.replay
            .levels
            .values()
            .all(|state| state.anomalies == Anomalies::default())
    );
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut play = Play::default();
    play.alloc(0x10, 1, 1);
    play.alloc(0x10, 1, 1);
    play.free(0x20, 5);
    play.free(0x10, 2);
    play.feed(Event {
        kind: EventKind::FREE,
        ptr: 0x30,
        flags: EventFlags::UNKNOWN_POINTER,
        ..Event::default()
    });
    play.event(EventKind::CANCEL, Level::TENSOR, 0x40, 5, 1);
    // The reservation is 0 bytes large, not 3.
    play.feed(Event {
        kind: EventKind::RESIZE,
        bytes: 8,
        aux: 3,
        ..Event::default()
    });
    let expected = Anomalies {
        double_allocations: 1,
        frees_without_block: 1,
        frees_of_other_size: 1,
        unknown_pointers: 1,
        lost_cancels: 1,
        mismatches: 0,
        reservations_of_other_size: 1,
    };
    assert_eq!(
        play.replay.levels[&(DeviceOrdinal(0), Level::TENSOR)].anomalies,
        expected
    );
}

#[test]
fn the_device_peak_is_the_tensors_with_most_driver_memory_under_them() {
    let mut play = Play::default();
    play.event(EventKind::ALLOC, Level::DRIVER, 0x1000, 900, 1);
    play.alloc(0x1000, 400, 2);
    play.alloc(0x1400, 500, 3);
    play.event(EventKind::ALLOC, Level::DRIVER, 0x9000, 100, 1);
    play.free(0x1000, 400);
    play.event(EventKind::ALLOC, Level::DRIVER, 0xa000, 1000, 1);
    play.event(EventKind::ALLOC, Level::HOST, 0x1, 9, 5);
    play.alloc(0x1000, 300, 4);
    let device = &play.replay.devices[&DeviceOrdinal(0)];
    assert_eq!(device.moment.map(|(seq, _)| seq), Some(Seq(4)));
    let expected = Levels {
        tensor: 900,
        driver: 1000,
        host: 0,
        reserved: Some(0),
        ..Levels::default()
    };
    assert_eq!(device.at_peak, expected);
    let mut figures: Vec<_> = play
        .replay
        .figures_at_device_peak(DeviceOrdinal(0), Level::TENSOR)
        .into_iter()
        .map(|(key, figure)| (key.py.0, figure.bytes))
        .collect();
    figures.sort_unstable();
    assert_eq!(figures, [(2, 400), (3, 500)]);
    assert_eq!(
        play.replay
            .figures_at_device_peak(DeviceOrdinal(0), Level::HOST),
        []
    );
}

#[test]
fn a_reservation_is_charged_to_who_made_it_grow_at_every_peak() {
    let mut play = Play::default();
    let mut resize = |bytes, aux, stack| {
        play.feed(Event {
            kind: EventKind::RESIZE,
            level: Level::PHYSICAL,
            ptr: 0xb0,
            bytes,
            aux,
            py_stack: StackId(stack),
            flags: EventFlags::STREAM_ORDERED,
            ..Event::default()
        })
    };
    resize(10, 0, 1);
    resize(16, 10, 2);
    resize(20, 16, 2);
    resize(12, 20, 3);
    assert_eq!(
        play.figures(Level::PHYSICAL, At::Peak),
        [(1, 10, 1), (2, 10, 1)]
    );
    assert_eq!(
        play.figures(Level::PHYSICAL, At::End),
        [(1, 10, 1), (2, 2, 1)]
    );
    let expected = CounterValues {
        live: 12,
        peak: 20,
        allocations: 1,
        frees: 0,
        allocated_bytes: 20,
    };
    let device = DeviceOrdinal(0);
    assert_eq!(play.replay.counters(device, Level::PHYSICAL), expected);
    assert_eq!(play.replay.devices[&device].now.physical, 12);
    let state = &play.replay.levels[&(device, Level::PHYSICAL)];
    assert_eq!(state.anomalies, Anomalies::default());
    assert_eq!(state.reservations().len(), 1);
}

impl Play {
    /// A mark of thread 1.
    fn mark(&mut self, kind: EventKind, aux: u64) -> u64 {
        let thread = ThreadId(1);
        self.feed(Event {
            kind,
            aux,
            thread,
            ..Event::default()
        })
    }
}

#[test]
fn a_steps_figures_are_those_of_what_it_allocated() {
    let step = |step| {
        let mut play = Play {
            replay: Replay::new(Query {
                step: Some(step),
                ..Query::default()
            }),
            seq: 0,
        };
        play.alloc(0x10, 100, 1);
        play.mark(EventKind::STEP, 1);
        play.free(0x10, 100);
        play.alloc(0x10, 7, 2);
        play.alloc(0x20, 5, 3);
        play.mark(EventKind::STEP, 2);
        play.free(0x10, 7);
        play.alloc(0x30, 50, 4);
        let figures = |moment| {
            let total = play.replay.total(DeviceOrdinal(0), Level::TENSOR, moment);
            (total, play.figures(Level::TENSOR, moment))
        };
        (figures(At::Peak), figures(At::End))
    };
    assert_eq!(step(1), ((100, vec![(1, 100, 1)]), (0, vec![])));
    let (two, left) = (vec![(2, 7, 1), (3, 5, 1)], vec![(3, 5, 1)]);
    assert_eq!(step(2), ((12, two), (5, left)));
    assert_eq!(step(3), ((50, vec![(4, 50, 1)]), (50, vec![(4, 50, 1)])));
    assert_eq!(step(4), ((0, vec![]), (0, vec![])));
}

#[test]
fn marks_touch_no_device() {
    let mut play = Play::default();
    for kind in [
        EventKind::STEP,
        EventKind::PHASE_BEGIN,
        EventKind::PHASE_END,
        EventKind::RANGE_BEGIN,
        EventKind::RANGE_END,
    ] {
        play.mark(kind, 1);
    }
    assert_eq!(play.replay.events, 5);
    assert!(play.replay.devices.is_empty() && play.replay.levels.is_empty());
    assert!(play.replay.calls.is_empty() && play.replay.keys.is_empty());
}

impl Play {
    fn wanting(query: impl Into<Query>) -> Self {
        Self {
            replay: Replay::new(query),
            seq: 0,
        }
    }

    /// The same as [`Play::alloc`], at a time.
    fn alloc_at(&mut self, time: u64, ptr: u64, bytes: u64, stack: u32) -> u64 {
        self.feed(Event {
            time: Nanos(time),
            kind: EventKind::ALLOC,
            level: Level::TENSOR,
            ptr,
            bytes,
            py_stack: StackId(stack),
            ..Event::default()
        })
    }

    fn step(&mut self) -> u64 {
        self.event(EventKind::STEP, Level::TENSOR, 0, 0, 0)
    }

    fn total(&self, moment: At) -> u64 {
        self.replay.total(DeviceOrdinal(0), Level::TENSOR, moment)
    }
}

#[test]
fn a_time_is_just_before_the_first_event_after_it() {
    for (time, expected) in [(9, 0), (10, 1), (19, 1), (20, 11), (29, 11), (30, 111)] {
        let moment = At::Time(Nanos(time));
        let mut play = Play::wanting(moment);
        for (time, bytes) in [(10, 1), (20, 10), (30, 100)] {
            play.alloc_at(time, time, bytes, 1);
        }
        assert_eq!(play.total(moment), expected, "at {time}");
        let sum: u64 = play
            .figures(Level::TENSOR, moment)
            .iter()
            .map(|state| state.1)
            .sum();
        assert_eq!(sum, expected, "at {time}");
        let until = play.replay.until().map(|seq| seq.0);
        assert_eq!(until, [Some(0), Some(1), Some(2), None][time as usize / 10]);
    }
}

#[test]
fn a_time_that_has_passed_does_not_come_again() {
    // Threads read the time before they get a number: a later event may have an earlier time.
    let moment = At::Time(Nanos(15));
    let mut play = Play::wanting(moment);
    for (time, bytes) in [(10, 1), (20, 10), (12, 100)] {
        play.alloc_at(time, time, bytes, 1);
    }
    assert_eq!(play.total(moment), 1);
    assert_eq!(play.replay.until(), Some(Seq(1)));
}

#[test]
fn the_end_of_a_step_is_its_mark() {
    for (step, expected) in [(1, 100), (2, 210), (3, 1210)] {
        let moment = At::Step(step);
        let mut play = Play::wanting(moment);
        play.alloc(0x10, 100, 1);
        let first = play.step();
        play.alloc(0x20, 200, 2);
        play.free(0x10, 100);
        play.alloc(0x30, 10, 3);
        let second = play.step();
        play.alloc(0x40, 1000, 4);
        assert_eq!(play.total(moment), expected, "step {step}");
        let sum: u64 = play
            .figures(Level::TENSOR, moment)
            .iter()
            .map(|state| state.1)
            .sum();
        assert_eq!(sum, expected, "step {step}");
        let ended = [Some(Seq(first)), Some(Seq(second)), None][step as usize - 1];
        assert_eq!(play.replay.until(), ended, "the third did not end");
    }
}

#[test]
fn only_blocks_of_queried_sizes_count() {
    let sizes = |least, most| Query {
        sizes: Sizes { least, most },
        ..Query::default()
    };
    let run = |query: Query| {
        let mut play = Play::wanting(query);
        play.alloc(0x10, 100, 1);
        play.alloc(0x20, 30, 2);
        play.alloc(0x30, 5, 1);
        play.free(0x10, 100);
        play.alloc(0x40, 7, 3);
        play
    };
    let small = run(sizes(0, 30));
    let large = run(sizes(31, u64::MAX));
    let peak = |play: &Play| play.figures(Level::TENSOR, At::Peak);
    let end = |play: &Play| play.figures(Level::TENSOR, At::End);
    assert_eq!(peak(&small), [(1, 5, 1), (2, 30, 1)]);
    assert_eq!(peak(&large), [(1, 100, 1)]);
    assert_eq!(end(&small), [(1, 5, 1), (2, 30, 1), (3, 7, 1)]);
    assert_eq!(end(&large), []);
    assert!(!small.replay.tells_all_sizes() && run(Query::default()).replay.tells_all_sizes());
    assert_eq!(peak(&run(sizes(30, 30))), [(2, 30, 1)]);
}
