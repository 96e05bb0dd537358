use super::*;
use crate::serialize::Serialize;

struct Program {
    failures: Failures,
    seq: u64,
    aux: u64,
}

impl Program {
    fn new() -> Self {
        let failures = Failures::default();
        Self {
            failures,
            seq: 0,
            aux: 0,
        }
    }

    fn event(&mut self, kind: EventKind, level: Level, thread: u32, stack: u32) {
        self.seq += 1;
        let event = Event {
            kind,
            level,
            aux: self.aux,
            thread: ThreadId(thread),
            py_stack: StackId(stack),
            ..Event::default()
        };
        match kind {
            EventKind::ALLOC => self.failures.made(&event),
            _ => self
                .failures
                .failed(Seq(self.seq), &event, SpanContext::default()),
        }
    }

    fn refused(&mut self, thread: u32, stack: u32) {
        self.event(EventKind::OUT_OF_MEMORY, Level::DRIVER, thread, stack);
    }

    fn exception(&mut self, thread: u32, stack: u32) {
        self.event(EventKind::OUT_OF_MEMORY, Level::TENSOR, thread, stack);
    }

    fn text(&mut self, thread: u32, stack: u32) {
        self.aux = 1;
        self.event(EventKind::OUT_OF_MEMORY, Level::PHYSICAL, thread, stack);
        self.aux = 0;
    }

    fn tensor(&mut self, thread: u32, stack: u32) {
        self.event(EventKind::ALLOC, Level::TENSOR, thread, stack);
    }

    /// The number, the event, whether it is an exception, and the refusals of each kept failure.
    fn told(&self) -> Vec<(u64, u64, bool, u64)> {
        let all = self.failures.all();
        all.into_iter()
            .map(|(number, of)| (number, of.seq.0, of.is_exception(), of.refusals))
            .collect()
    }
}

#[test]
fn an_exception_takes_the_place_of_its_refusals() {
    let mut program = Program::new();
    program.refused(1, 7);
    program.refused(1, 7);
    assert_eq!(program.failures.count(), 2);
    program.exception(1, 7);
    assert_eq!(program.told(), [(1, 3, true, 2)]);
    assert_eq!(
        (program.failures.count(), program.failures.answered()),
        (1, 0)
    );
}

#[test]
fn a_tensor_answers_the_refusals_of_its_own_thread() {
    let mut program = Program::new();
    program.refused(1, 7);
    program.refused(2, 7);
    program.tensor(1, 7);
    program.tensor(3, 7);
    assert_eq!(program.told(), [(1, 2, false, 0)]);
    assert_eq!(program.failures.answered(), 1);
    program.tensor(2, 7);
    assert_eq!(
        (program.failures.count(), program.failures.answered()),
        (0, 2)
    );
    assert!(!program.failures.are_undecided());
}

#[test]
fn the_text_of_an_error_is_asked_for_by_who_has_it() {
    let mut program = Program::new();
    program.refused(1, 7);
    program.refused(1, 7);
    program.text(1, 7);
    assert_eq!(program.told(), [(1, 2, true, 2)]);
    // A launch has failed there, repeatedly.
    program.text(1, 7);
    program.refused(1, 7);
    program.tensor(1, 7);
    program.text(1, 7);
    let told = program.told();
    assert_eq!(
        told,
        [(1, 2, true, 2), (2, 4, true, 0), (3, 7, true, 0)],
        "{told:?}"
    );
    assert_eq!(program.failures.answered(), 1);
}

#[test]
fn what_another_line_was_refused_is_a_failure() {
    let mut program = Program::new();
    program.refused(1, 7);
    program.refused(1, 8);
    program.tensor(1, 8);
    program.refused(1, 9);
    program.tensor(1, 8);
    assert_eq!(program.told(), [(1, 1, false, 0), (2, 4, false, 0)]);
    assert_eq!(program.failures.answered(), 1);
}

#[test]
fn without_stacks_all_of_a_thread_is_one_request() {
    let mut program = Program::new();
    program.refused(1, 7);
    program.tensor(1, 0);
    program.refused(1, 0);
    program.exception(1, 7);
    assert_eq!(program.told(), [(1, 4, true, 1)]);
    assert_eq!(program.failures.answered(), 1);
}

#[test]
fn the_newest_is_always_kept() {
    let mut program = Program::new();
    for _ in 0..150 {
        program.exception(1, 7);
    }
    for stack in 1..=300 {
        program.refused(2, stack);
    }
    assert_eq!(program.failures.count(), 450);
    let (number, last) = program.told().last().map(|of| (of.0, of.1)).unwrap();
    assert_eq!((number, last), (450, 450));
    assert!(program.told().len() <= 2 * KEPT + 1);
    // The same after the state was written and read.
    let mut bytes = Vec::new();
    program.failures.put(&mut bytes);
    let again = Failures::take(&mut bytes.as_slice()).unwrap();
    assert_eq!(again, program.failures);
}
