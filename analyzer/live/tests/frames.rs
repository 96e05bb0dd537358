//! Compares frames of growing and of ended captures with a complete reading.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::path::Path;
use std::time::Duration;

use gpumem_analyzer::ask;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, Lines, Select, level_or_default};
use gpumem_capture::*;
use gpumem_live::frames::{
    Answer, Ask, By, Frame, Moment, Order, Request, Rows, State, Then, Want, Watch,
};

/// Only ends a test that hangs.
const AT_MOST: Duration = Duration::from_secs(300);
const EVERY: Duration = Duration::from_millis(5);

fn read(path: &Path, moment: At) -> Session {
    ask::read(path, moment).unwrap()
}

fn lines_of(session: &Session, level: Level, moment: At) -> Lines {
    let held = ByStack::at(&session.replay, level, moment, &Select::default());
    Lines::of(&session.replay, &held)
}

fn is_final(frame: &Frame) -> bool {
    matches!(
        frame.state,
        State::Ended(_) | State::Killed(_) | State::Stopped(_)
    )
}

/// Compares the figures of the frame with those of a reading at the same event.
fn assert_same(frame: &Frame, session: &Session) {
    assert_eq!(
        (frame.seq, frame.time),
        (session.replay.last_seq, session.replay.last)
    );
    assert_eq!(
        (frame.events, frame.steps),
        (session.replay.events, session.replay.spans.steps)
    );
    assert!(!frame.devices.is_empty());
    for device in &frame.devices {
        let read = &session.replay.devices[&device.device];
        assert_eq!(
            (device.now, device.at_peak, device.peak),
            (read.now, read.at_peak, read.moment)
        );
        assert_eq!(device.reading, read.readings.last);
    }
}

/// Captures of real programs that have ended: one by itself, one killed.
#[test]
fn what_has_ended_is_what_a_reading_tells() {
    let fixtures = Path::new("../../tests/fixtures/captures/v1");
    for name in ["torch-return.bin", "torch-kill.bin"] {
        let path = fixtures.join(name);
        let watch = Watch::start(&path, Ask::default(), EVERY).unwrap();
        let frame = watch.wait(AT_MOST, is_final).expect("it has ended");
        let session = read(&path, At::End);
        assert_same(&frame, &session);
        assert_eq!(
            matches!(frame.state, State::Ended(_)),
            name == "torch-return.bin"
        );
        let level = level_or_default(None, &session.replay);
        for (moment, at) in [(Moment::Now, At::End), (Moment::Peak, At::Peak)] {
            let ask = Ask {
                moment,
                ..Ask::default()
            };
            watch.ask(ask);
            let frame = watch
                .wait(AT_MOST, |frame| frame.ask == ask)
                .expect("it is asked for");
            let lines = lines_of(&session, level, at);
            assert!(at == At::End || !lines.rows.is_empty(), "{name}");
            assert_eq!(frame.table.total, lines.bytes());
            assert_eq!(frame.table.rows, Rows::Lines(lines), "{name}");
        }
    }
}

/// One event of the tensor level, by one of three lines.
fn allocation(writer: &Writer, n: u64) -> Event {
    Event {
        time: writer.now(),
        ptr: 0x7000_0000 + n * 4096,
        bytes: 512 * (1 + n % 3),
        py_stack: StackId(1 + (n % 3) as u32),
        kind: EventKind::ALLOC,
        level: Level::TENSOR,
        ..Event::default()
    }
}

fn define_stacks(writer: &Writer) {
    for id in 1..=3 {
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
            let payload = definition.payload();
            writer.definition(definition.kind(), &[&payload]).unwrap();
        }
    }
}

/// A capture that is being written: after each batch, the frame equals a complete reading.
#[test]
fn a_capture_that_grows_is_shown_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer =
        Writer::create(&path, &Options::default().ring_slots(1024).stall(AT_MOST)).unwrap();
    let drain = std::thread::spawn(|| writer.drain());
    define_stacks(writer);
    let watch = Watch::start(&path, Ask::default(), EVERY).unwrap();
    let mut written = 0;
    for batch in [10, 5000, 1, 300, 20_000] {
        for _ in 0..batch {
            writer.event(&allocation(writer, written)).unwrap();
            written += 1;
        }
        let caught_up = |frame: &Frame| frame.events == written && frame.table.seq == frame.seq;
        let frame = watch.wait(AT_MOST, caught_up).expect("all is shown");
        assert_eq!(frame.state, State::Running);
        let session = read(&path, At::End);
        assert_same(&frame, &session);
        let Rows::Lines(lines) = &frame.table.rows else {
            panic!("lines were asked for");
        };
        let read = lines_of(&session, Level::TENSOR, At::End);
        let plain = |lines: &Lines| -> Vec<_> {
            lines
                .rows
                .iter()
                .map(|row| (row.line, row.bytes, row.blocks))
                .collect()
        };
        assert_eq!(plain(lines), plain(&read));
        assert_eq!(lines.rows.len(), 3);
        let (_, course) = &frame.course[0];
        let most = course.greatest.iter().map(|parts| parts[0]).max();
        assert_eq!(most, Some(frame.devices[0].at_peak.tensor));
    }
    let ask = Ask {
        by: By::Category,
        ..Ask::default()
    };
    watch.ask(ask);
    let frame = watch
        .wait(AT_MOST, |frame| frame.ask == ask)
        .expect("it is asked for");
    assert!(matches!(&frame.table.rows, Rows::Categories(rows) if !rows.is_empty()));
    drop(watch);
    writer.stop_drain();
    drain.join().unwrap();
}

/// A table that was made while the past was read is not shown as the current one.
#[test]
fn the_table_is_as_new_as_the_rest_once_the_past_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &Options::default().stall(AT_MOST)).unwrap();
    let drain = std::thread::spawn(|| writer.drain());
    define_stacks(writer);
    for n in 0..300_000 {
        writer.event(&allocation(writer, n)).unwrap();
    }
    // A frame after each few thousand records: the table is made with the first.
    let watch = Watch::start(&path, Ask::default(), Duration::ZERO).unwrap();
    let frame = watch.wait(AT_MOST, |frame| frame.state == State::Running);
    let frame = frame.expect("all is read");
    assert_eq!((frame.events, frame.table.seq), (300_000, frame.seq));
    writer.stop_drain();
    drain.join().unwrap();
}

/// A file that is not a capture is refused at once.
#[test]
fn what_is_no_capture_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nothing of the kind").unwrap();
    assert!(Watch::start(file.path(), Ask::default(), EVERY).is_err());
}

fn past(watch: &Watch, then: Then) -> std::sync::Arc<Answer> {
    let request = Request {
        then,
        ask: Ask::default(),
        want: Want::Frame,
    };
    let answer = watch.past().wait(&request, AT_MOST);
    answer.expect("it is answered")
}

/// A frame of the past equals that of a program that stopped there, and the output of `lines --at`.
#[test]
fn a_moment_that_has_passed_is_what_a_reading_tells_of_it() {
    let fixtures = Path::new("../../tests/fixtures/captures/v1");
    let path = fixtures.join("torch-return.bin");
    let watch = Watch::start(&path, Ask::default(), EVERY).unwrap();
    let whole = watch.wait(AT_MOST, is_final).expect("it has ended");
    let last = whole.seq.0;
    assert!(last > 100);
    for seq in [last / 7, last / 3, last / 2, last * 5 / 6, last] {
        let mut replay = gpumem_analyzer::replay::Replay::new(At::End);
        let mut time = Nanos(0);
        let mut reader = Reader::open(&path).unwrap();
        reader
            .read(&mut |record| {
                if let Record::Event(at, event) = record {
                    if at.0 > seq {
                        return;
                    }
                    time = time.max(event.time);
                }
                replay.feed(record);
            })
            .unwrap();
        let moment = At::Event(Seq(seq));
        let session = read(&path, moment);
        let lines = lines_of(&session, level_or_default(None, &session.replay), moment);
        for then in [Then::Event(Seq(seq)), Then::Time(time)] {
            let answer = past(&watch, then);
            let frame = &answer.given.as_ref().unwrap().frame;
            if matches!(then, Then::Time(_)) && frame.seq != replay.last_seq {
                // All events with the same time count.
                assert!(frame.seq > replay.last_seq && frame.time == time);
                continue;
            }
            assert_eq!((frame.seq, frame.events), (replay.last_seq, replay.events));
            for device in &frame.devices {
                let held = &replay.devices[&device.device];
                assert_eq!((device.now, device.peak), (held.now, held.moment));
            }
            assert_eq!(frame.table.total, lines.bytes());
            assert_eq!(frame.table.rows, Rows::Lines(lines.clone()));
        }
        // The peak that sorts the rows is that of the time up to then.
        let ask = Ask {
            order: Order::Peak,
            ..Ask::default()
        };
        let request = Request {
            then: Then::Event(Seq(seq)),
            ask,
            want: Want::Frame,
        };
        let answer = watch.past().wait(&request, AT_MOST);
        let answer = answer.expect("it is answered");
        let table = &answer.given.as_ref().unwrap().frame.table;
        let peaks = table.measure.as_ref().expect("it is asked for").by.values();
        let levels = replay.levels.iter();
        let peak = levels.filter(|((_, of), _)| *of == table.level);
        let peak: u64 = peak.map(|(_, state)| state.counters.peak).sum();
        assert_eq!(peaks.sum::<i64>() as u64, peak, "event {seq}");
    }
}

/// A new request does not wait for an earlier one.
#[test]
fn what_is_asked_later_takes_the_place_of_what_was_asked_before() {
    let fixtures = Path::new("../../tests/fixtures/captures/v1");
    let watch = Watch::start(&fixtures.join("torch-return.bin"), Ask::default(), EVERY).unwrap();
    for seq in 1..200 {
        watch.past().ask(Request {
            then: Then::Event(Seq(seq)),
            ask: Ask::default(),
            want: Want::Account(80),
        });
    }
    let last = watch.wait(AT_MOST, is_final).expect("it has ended").seq;
    let answer = past(&watch, Then::Event(last));
    assert_eq!(answer.given.as_ref().unwrap().frame.seq, last);
    watch.past().give_up();
    assert_eq!(watch.past().progress(), None);
    let answer = past(&watch, Then::Event(Seq(10_000_000)));
    let why = answer.given.as_ref().unwrap_err();
    assert!(why.starts_with("event 10000000 does not exist"), "{why}");
}
