//! The memo compared with a walk, over frames with the layout of 3.12.

use std::collections::HashMap;

use super::*;
use crate::frame::Frame;
use crate::layout::Layout;
use crate::{hash, rows, thread};

/// The maximum number of frames of a stack in these tests.
const MOST: usize = 256;

/// A simulated interpreter with frames only: one thread, whose stack the test changes.
struct Interpreter {
    layout: Layout,
    kind: u64,
    /// The functions that call modules: code 5, once it is recognised.
    calls: ModuleCalls,
    /// Module objects, with their types.
    modules: Box<[[u64; 2]; 4]>,
    thread: [u64; 16],
    newest: Box<[usize; 2]>,
    interpreter: Box<[u64; 4]>,
    /// Allocated before the first frame, so their addresses do not change.
    codes: Vec<[u64; 32]>,
    next_number: u32,
    /// Room for frames: one for each depth, and others.
    room: Vec<[u64; 16]>,
    /// Places of `room`, the oldest frame first.
    stack: Vec<usize>,
    state: u64,
    /// Numbers of stacks, by their hash.
    ids: HashMap<u64, u32>,
}

/// Bytes of a structure of the interpreter.
fn bytes(words: &mut [u64], at: usize, value: &[u8]) {
    let words = words.as_mut_ptr().cast::<u8>();
    // SAFETY: all structures of these tests are longer than the offsets of 3.12.
    unsafe {
        words
            .add(at)
            .copy_from_nonoverlapping(value.as_ptr(), value.len())
    };
}

impl Interpreter {
    fn new(seed: u64) -> Box<Self> {
        let mut new = Box::new(Self {
            layout: rows::row((3, 12)).unwrap(),
            kind: 0x5151_0000,
            calls: ModuleCalls::default(),
            modules: Box::new([[0; 2]; 4]),
            thread: [0; 16],
            newest: Box::new([0; 2]),
            interpreter: Box::new([0; 4]),
            codes: Vec::new(),
            next_number: 1,
            room: vec![[0; 16]; 2 * 600],
            stack: Vec::new(),
            state: seed,
            ids: HashMap::new(),
        });
        for number in 0..12 {
            let mut code = [0; 32];
            code[1] = new.kind;
            bytes(&mut code, 176, &3i32.to_le_bytes());
            new.codes.push(code);
            // Some have no number.
            if number % 4 != 0 {
                new.renumber(number);
            }
        }
        let (newest, interpreter) = (&raw const *new.newest, &raw const *new.interpreter);
        bytes(&mut new.thread, 56, &(newest as usize).to_le_bytes());
        bytes(&mut new.thread, 16, &(interpreter as usize).to_le_bytes());
        new
    }

    /// A number below `below` that looks random.
    fn number(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// Replaces the code object at the same address.
    fn renumber(&mut self, code: usize) {
        let number = self.next_number.to_le_bytes();
        bytes(&mut self.codes[code], 92, &number);
        self.next_number += 1;
    }

    /// Makes the function of code 5 one that calls modules.
    fn recognise(&mut self) {
        let number = (self.codes[5][11] >> 32) as u32;
        let identity = code::numbered(number, self.interpreter[1]);
        self.calls = ModuleCalls::default();
        self.calls
            .add((&raw const self.codes[5]) as usize, identity);
    }

    fn address(&self, place: usize) -> usize {
        (&raw const self.room[place]) as usize
    }

    fn is_shim(&self, place: usize) -> bool {
        self.room[place][8].to_le_bytes()[6] >= SHIM_OWNER
    }

    /// The frame at a depth continues in some code. A shim stays at the interpreter's own instruction.
    fn go_on(&mut self, depth: usize) {
        let (codes, place) = (self.codes.len() as u64, self.stack[depth]);
        if self.is_shim(place) {
            (self.room[place][0], self.room[place][7]) = (0x6161_0000, 0x6262_0000);
            return;
        }
        let (code, instruction) = (self.number(codes) as usize, self.number(20));
        let (module, kind) = (self.number(4) as usize, self.number(2));
        if self.number(3) == 0 {
            self.modules[module][1] = 0x7171_0000 + 16 * kind;
        }
        self.room[place][9] = (&raw const self.modules[module]) as u64;
        self.run(depth, code, instruction);
    }

    fn push(&mut self) {
        let depth = self.stack.len();
        // Usually the address of a frame of this depth, sometimes a generator's. A shim may be where a
        // frame of code was, which does not happen in an interpreter.
        let place = match self.number(10) {
            0 => 600 + self.number(30) as usize,
            _ => depth,
        };
        if self.stack.contains(&place) {
            return;
        }
        let owner = [0, 0, 0, 1, 3][self.number(5) as usize];
        self.lay(place, owner);
        self.go_on(depth);
    }

    /// Starts a frame that belongs to `owner` at a place.
    fn lay(&mut self, place: usize, owner: u8) {
        let older = self.stack.last().map_or(0, |&older| self.address(older));
        self.room[place][1] = older as u64;
        bytes(&mut self.room[place], 70, &[owner]);
        self.stack.push(place);
    }

    /// Runs the frame at a depth in a code object, at its `instruction`.
    fn run(&mut self, depth: usize, code: usize, instruction: u64) {
        let code = (&raw const self.codes[code]) as u64;
        let frame = &mut self.room[self.stack[depth]];
        (frame[0], frame[7]) = (code, code + 192 + 2 * instruction);
    }

    fn pop(&mut self) {
        self.stack.pop();
    }

    /// Identifies the stack in both ways, which must agree; returns whether the memo could.
    fn look(&mut self, memo: &mut StackMemo) -> bool {
        self.newest[0] = self.stack.last().map_or(0, |&newest| self.address(newest));
        self.recognise();
        let state = self.thread.as_ptr() as usize;
        // SAFETY: the words are laid out as the layout says.
        let thread = unsafe { thread::read(&self.layout, state, || false) }.unwrap();
        let mut frames = [Frame::default(); MOST];
        let places = Places::of(&self.layout, self.kind as usize).unwrap();
        // SAFETY: the frames lie as the layout has them, and nothing changes meanwhile.
        let (looked, walked) = unsafe {
            let kind = self.kind as usize;
            (
                memo.look(&places, &self.calls, thread, MOST, 1),
                walk::walk(&self.layout, kind, &self.calls, thread, &mut frames),
            )
        };
        let expected = hash::stack(&frames[..walked.len], false);
        let next = self.ids.len() as u32 + 1;
        let mut id = || *self.ids.entry(expected).or_insert(next);
        match looked {
            Lookup::Unknown => return false,
            // Frames that do not count may be there.
            Lookup::Empty => {
                assert_eq!(walked.len, 0);
                id();
            }
            Lookup::Known(known) => assert_eq!(known, id()),
            Lookup::Hashed(hashed) => {
                assert_eq!((hashed.len, hashed.finish()), (walked.len, expected));
                memo.note(id());
            }
        }
        assert!(!walked.truncated);
        true
    }
}

#[test]
fn it_tells_what_a_walk_tells() {
    let mut told = 0;
    for seed in 1..40 {
        let (mut python, mut memo) = (Interpreter::new(seed), Box::new(StackMemo::new()));
        for _ in 0..3000 {
            match python.number(12) {
                0..4 => python.push(),
                4..6 => python.pop(),
                6..9 if !python.stack.is_empty() => {
                    let depth = python.number(python.stack.len() as u64) as usize;
                    python.go_on(depth);
                }
                9 => {
                    let code = python.number(12) as usize;
                    python.renumber(code);
                }
                10 => {
                    let gone = python.number(8);
                    (0..gone).for_each(|_| python.pop());
                }
                _ if python.number(50) == 0 => python.interpreter[1] += 1,
                _ => {}
            }
            if python.stack.len() < 100 {
                told += u32::from(python.look(&mut memo));
            }
        }
    }
    assert!(told > 100_000, "{told}");
}

#[test]
fn no_change_goes_unseen() {
    let (mut python, mut memo) = (Interpreter::new(7), Box::new(StackMemo::new()));
    for (depth, owner) in [(0, 0), (1, 3), (2, 0), (3, 0)] {
        python.lay(depth, owner);
        match owner {
            3 => python.go_on(depth),
            _ => python.run(depth, 1 + depth % 3, 5),
        }
    }
    let newest = python.room[3];
    type Change = dyn Fn(&mut Interpreter);
    let changes: [(&str, &Change); 12] = [
        ("first look", &|_| {}),
        ("another instruction", &|python| python.run(0, 1, 6)),
        ("other code in its place", &|python| python.renumber(1)),
        ("other code", &|python| python.run(2, 2, 5)),
        ("code for a shim", &|python| {
            bytes(&mut python.room[1], 70, &[0]);
            python.run(1, 1, 5);
        }),
        ("a frame gone from between", &|python| {
            python.room[2][1] = python.address(0) as u64;
        }),
        ("a call of a module", &|python| {
            python.modules[0][1] = 0x7171_0000;
            python.room[0][9] = (&raw const python.modules[0]) as u64;
            python.run(0, 5, 5);
        }),
        ("another module", &|python| {
            python.modules[1][1] = 0x7171_0000;
            python.room[0][9] = (&raw const python.modules[1]) as u64;
        }),
        ("a module of another type at its address", &|python| {
            python.modules[1][1] += 16;
        }),
        ("no module", &|python| python.room[0][9] = 0),
        ("another interpreter", &|python| python.interpreter[1] += 1),
        ("one frame less", &|python| python.pop()),
    ];
    for (seen, (what, change)) in changes.iter().enumerate() {
        change(&mut python);
        // The second look finds everything unchanged.
        assert!(python.look(&mut memo) && python.look(&mut memo), "{what}");
        assert_eq!(python.ids.len(), seen + 1, "{what}");
    }
    // The frame that was there before.
    python.room[3] = newest;
    python.stack.push(3);
    assert!(python.look(&mut memo));
    assert_eq!(python.ids.len(), changes.len());
}

#[test]
fn what_is_too_deep_is_left_to_the_walk() {
    let (mut python, mut memo) = (Interpreter::new(5), Box::new(StackMemo::new()));
    while python.stack.len() < 500 {
        python.push();
    }
    assert!(!python.look(&mut memo));
    python.stack.truncate(20);
    let looks = (0..=2 * REST).position(|_| python.look(&mut memo));
    assert_eq!(looks, Some(REST as usize));
}

#[test]
fn what_is_no_code_is_left_to_the_walk() {
    let (mut python, mut memo) = (Interpreter::new(9), Box::new(StackMemo::new()));
    python.push();
    assert!(python.look(&mut memo));
    python.codes.iter_mut().for_each(|code| code[1] += 8);
    (0..python.codes.len()).for_each(|code| python.renumber(code));
    python.go_on(0);
    bytes(&mut python.room[python.stack[0]], 70, &[0]);
    assert!(!python.look(&mut memo));
}

#[test]
fn layouts_without_numbers_are_left_to_the_walk() {
    for minor in 8..=14 {
        let layout = rows::row((3, minor)).unwrap();
        assert_eq!(Places::of(&layout, 0).is_some(), minor >= 12, "3.{minor}");
    }
}
