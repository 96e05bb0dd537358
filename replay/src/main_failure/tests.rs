use gpumem_capture::{
    CodeId, Definition, Event, EventKind, Level, PyFrame, Record, Seq, StackId, ThreadId,
};

use crate::query::At;
use crate::replay::Replay;

const STEP: u32 = 1;
const HANDLER: u32 = 2;
const CUT: u32 = 3;
const THREAD: u32 = 4;

/// A program whose step fails, with handlers that the interpreter calls after its end.
struct Program(Replay, u64);

impl Program {
    fn new() -> Self {
        let mut program = Self(Replay::new(At::End), 0);
        let codes = ["<module>", "train", "shutdown", "Thread._bootstrap"];
        for (id, name) in (1..).zip(codes) {
            program.define(&Definition::Code {
                id: CodeId(id),
                first_line: 1,
                file: "train.py".into(),
                name: name.into(),
                line_table: Vec::new(),
            });
        }
        // Newest frame first.
        program.stack(STEP, &[2, 1], false);
        program.stack(HANDLER, &[2, 3], false);
        program.stack(CUT, &[2, 2], true);
        program.stack(THREAD, &[2, 4], false);
        program
    }

    fn define(&mut self, definition: &Definition) {
        self.0.feed(Record::Definition(Seq(self.1), definition));
    }

    fn stack(&mut self, id: u32, codes: &[u32], truncated: bool) {
        let frame = |code: &u32| PyFrame {
            code: CodeId(*code),
            offset: 0,
            entered_from_c: false,
        };
        self.define(&Definition::PyStack {
            id: StackId(id),
            truncated,
            frames: codes.iter().map(frame).collect(),
            modules: Vec::new(),
        });
    }

    fn fails(&mut self, level: Level, thread: u32, stack: u32) -> u64 {
        self.1 += 1;
        let event = Event {
            kind: EventKind::OUT_OF_MEMORY,
            level,
            ..allocated(thread, stack)
        };
        self.0.feed(Record::Event(Seq(self.1), &event));
        self.1
    }

    fn main(&self) -> u64 {
        self.0
            .main_failure()
            .map_or(0, |(_, failure)| failure.seq.0)
    }
}

fn allocated(thread: u32, stack: u32) -> Event {
    Event {
        kind: EventKind::ALLOC,
        level: Level::TENSOR,
        thread: ThreadId(thread),
        py_stack: StackId(stack),
        ..Event::default()
    }
}

#[test]
fn tensors_of_an_exit_handler_are_not_the_programs_way_on() {
    let Program(replay, _) = Program::new();
    let goes_on =
        |failed: u32, stack: u32| replay.goes_on(&allocated(1, failed), &allocated(1, stack));
    assert!(goes_on(STEP, STEP) && goes_on(STEP, CUT) && goes_on(HANDLER, HANDLER));
    assert!(!goes_on(STEP, HANDLER) && !goes_on(STEP, 0));
    assert!(!replay.goes_on(&allocated(2, STEP), &allocated(1, STEP)));
}

#[test]
fn a_failure_of_an_exit_handler_is_not_the_one_that_ended_the_program() {
    let mut program = Program::new();
    let first = program.fails(Level::TENSOR, 1, STEP);
    let ended = program.fails(Level::TENSOR, 1, STEP);
    let later = program.fails(Level::TENSOR, 1, HANDLER);
    program.fails(Level::TENSOR, 1, HANDLER);
    assert_eq!(program.main(), ended);
    let is = |seq| program.0.is_of_handler(Seq(seq));
    assert_eq!([first, ended, later].map(is), [false, false, true]);
}

#[test]
fn of_threads_that_fail_one_after_the_other_the_first_one_is_shown() {
    let mut program = Program::new();
    program.fails(Level::TENSOR, 1, STEP);
    let first = program.fails(Level::TENSOR, 2, THREAD);
    assert_eq!(program.fails(Level::TENSOR, 2, THREAD), program.main());
    program.fails(Level::TENSOR, 3, THREAD);
    program.fails(Level::TENSOR, 4, THREAD);
    assert_eq!(program.main(), first);
    program.fails(Level::TENSOR, 2, THREAD);
    assert_eq!(program.main(), first, "on the same thread");
    // The program's own failure ended it.
    assert_eq!(program.fails(Level::TENSOR, 1, STEP), program.main());
}

#[test]
fn callbacks_alone_threads_and_cut_stacks_are_the_programs() {
    // A program that another one embeds has no module at the root.
    let mut program = Program::new();
    program.fails(Level::TENSOR, 1, HANDLER);
    assert_eq!(program.fails(Level::TENSOR, 1, HANDLER), program.main());
    // The thread of another failure.
    let mut program = Program::new();
    program.fails(Level::TENSOR, 1, STEP);
    assert_eq!(program.fails(Level::TENSOR, 2, HANDLER), program.main());
    for stack in [CUT, THREAD, 0] {
        let mut program = Program::new();
        program.fails(Level::TENSOR, 1, STEP);
        assert_eq!(program.fails(Level::TENSOR, 1, stack), program.main());
    }
}

#[test]
fn a_backward_fails_in_the_thread_that_called_it() {
    let mut program = Program::new();
    program.define(&Definition::Backward {
        id: StackId(9),
        node: "MulBackward0".into(),
        forward: StackId(STEP),
        own: StackId::NONE,
        newer: 0,
        lost: false,
    });
    let ended = program.fails(Level::TENSOR, 2, 9);
    program.fails(Level::TENSOR, 1, HANDLER);
    assert_eq!(program.main(), ended);
}

#[test]
fn an_exception_comes_before_a_refusal() {
    let mut program = Program::new();
    let raised = program.fails(Level::TENSOR, 1, STEP);
    program.fails(Level::DRIVER, 2, THREAD);
    assert_eq!(program.main(), raised);
    let mut program = Program::new();
    program.fails(Level::DRIVER, 1, STEP);
    assert_eq!(program.fails(Level::DRIVER, 1, THREAD), program.main());
}
