//! Generated programs: allocations, frees, roles, phases and steps of three threads on two devices.

use gpumem_capture::{
    CodeId, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, Phase,
    ProcessKey, PyFrame, Role, Seq, StackId, ThreadId,
};

/// What the generating program knows about a Python stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    pub python: bool,
    pub node: bool,
    pub module: bool,
    pub function: bool,
    pub weights: bool,
    pub closure: bool,
}

const CODES: [(&str, &str); 9] = [
    ("/home/me/train.py", "main"),
    (
        "/e/site-packages/torch/nn/modules/module.py",
        "Module._wrapped_call_impl",
    ),
    (
        "/e/site-packages/torch/nn/modules/module.py",
        "Module._apply",
    ),
    (
        "/e/site-packages/torch/nn/modules/linear.py",
        "Linear.__init__",
    ),
    (
        "/e/site-packages/torch/nn/modules/linear.py",
        "reset_parameters",
    ),
    (
        "/e/site-packages/torch/autograd/function.py",
        "Function.apply",
    ),
    ("/e/site-packages/torch/optim/adam.py", "Adam.step"),
    ("/e/site-packages/torch/optim/lbfgs.py", "LBFGS.step"),
    ("/e/site-packages/torch/optim/optimizer.py", "wrapper"),
];
const USER: u32 = 0;
const CALL: u32 = 1;
const APPLY: u32 = 2;
const INIT: u32 = 3;
const RESET: u32 = 4;
const FUNCTION: u32 = 5;
const ADAM: u32 = 6;
const LBFGS: u32 = 7;
const BASE: u32 = 8;

/// Frames, the newest first; ids count from 1.
const STACKS: [&[u32]; 14] = [
    &[USER],
    &[USER, USER],
    &[USER, CALL, USER],
    &[CALL, USER],
    &[USER, FUNCTION, CALL, USER],
    &[APPLY, USER],
    &[INIT, USER],
    &[RESET, INIT, USER],
    &[ADAM, BASE, USER],
    &[CALL, USER, LBFGS, BASE, USER],
    &[USER, LBFGS, BASE, USER],
    &[USER, BASE, USER],
    &[RESET, CALL, USER],
    &[USER, FUNCTION, USER],
];
/// Autograd nodes: the thread's own stack, and how many of its frames are newer than the node.
const NODES: [(u32, u32); 3] = [(0, 0), (3, 2), (3, 1)];
const FIRST_NODE: u32 = 15;
const UNDEFINED: u32 = 20;

impl Stack {
    pub fn of(id: StackId) -> Self {
        let frames: &[u32] = match id.0.checked_sub(1).map(|index| index as usize) {
            Some(index) if index < STACKS.len() => STACKS[index],
            // The second runs a module again.
            _ => match id.0.checked_sub(FIRST_NODE) {
                Some(1) => &[USER, CALL],
                Some(2) => &[USER],
                _ => &[],
            },
        };
        let has = |code| frames.contains(&code);
        let node = (FIRST_NODE..FIRST_NODE + 3).contains(&id.0);
        Self {
            python: !node && !frames.is_empty(),
            node,
            module: has(CALL),
            function: has(FUNCTION),
            weights: has(APPLY) || has(INIT) || has(RESET),
            closure: has(LBFGS),
        }
    }
}

/// A program's records.
pub struct Program {
    random: u64,
    pub sampled: bool,
    pub definitions: Vec<Definition>,
    /// The event at an index has that number; they start at 1.
    pub events: Vec<Event>,
    live: Vec<(DeviceOrdinal, u64, u64)>,
    stacks: Vec<u32>,
}

impl Program {
    pub fn of(seed: u64) -> Self {
        let mut program = Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            sampled: seed % 5 == 4,
            definitions: Vec::new(),
            events: Vec::new(),
            live: Vec::new(),
            stacks: Vec::new(),
        };
        program.define_all();
        // Some programs have no modules, and few have all kinds of stacks.
        let kinds = 3 + program.below(12);
        for _ in 0..kinds {
            let stack = match program.below(12) {
                0 => 0,
                1 => UNDEFINED,
                2 if program.sampled => StackId::NOT_SAMPLED.0,
                3 => FIRST_NODE + program.below(3) as u32,
                _ => 1 + program.below(STACKS.len() as u64) as u32,
            };
            program.stacks.push(stack);
        }
        if seed % 4 == 3 {
            let is_module = |id: &u32| Stack::of(StackId(*id)).module;
            program.stacks.retain(|id| !is_module(id));
            program.stacks.push(1);
        }
        for _ in 0..40 + program.below(160) {
            program.step();
        }
        program
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }

    fn define_all(&mut self) {
        for (id, (file, name)) in (0..).map(CodeId).zip(CODES) {
            self.definitions.push(Definition::Code {
                id,
                first_line: 1,
                file: file.into(),
                name: name.into(),
                line_table: Vec::new(),
            });
        }
        for (id, frames) in (1..).map(StackId).zip(STACKS) {
            let frame = |code: &u32| PyFrame {
                code: CodeId(*code),
                offset: 0,
                entered_from_c: false,
            };
            self.definitions.push(Definition::PyStack {
                id,
                truncated: false,
                modules: Vec::new(),
                frames: frames.iter().map(frame).collect(),
            });
        }
        for (id, (own, newer)) in (FIRST_NODE..).map(StackId).zip(NODES) {
            self.definitions.push(Definition::Backward {
                id,
                lost: false,
                forward: StackId(3),
                own: StackId(own),
                newer,
                node: "N".into(),
            });
        }
        if self.sampled {
            self.definitions.push(Definition::Process {
                key: ProcessKey::STACK_SAMPLE.into(),
                value: "2000".into(),
            });
        }
    }

    fn step(&mut self) {
        let seq = Seq(self.events.len() as u64 + 1);
        let event = Event {
            time: Nanos(seq.0 * 100),
            thread: ThreadId(1 + self.below(3) as u32),
            device: DeviceOrdinal(self.below(2) as u8),
            level: Level::TENSOR,
            ..Event::default()
        };
        let phases = [Phase::BACKWARD, Phase::OPTIMIZER, Phase::ZERO_GRAD];
        let phase = match self.below(12) {
            0 => 77,
            n => phases[n as usize % 3].0,
        };
        let event = match self.below(100) {
            0..6 => Event {
                kind: EventKind::PHASE_BEGIN,
                aux: phase,
                ..event
            },
            6..16 => Event {
                kind: EventKind::PHASE_END,
                aux: phase,
                ..event
            },
            16..20 => Event {
                kind: EventKind::STEP,
                ..event
            },
            20 => Event {
                kind: EventKind::OUT_OF_MEMORY,
                bytes: 1 << 40,
                aux: 2,
                ..event
            },
            21 => Event {
                kind: EventKind::SCOPE_BEGIN,
                aux: 1,
                ..event
            },
            22..25 => Event {
                kind: EventKind::ALLOC,
                level: Level::DRIVER,
                ptr: seq.0 << 32,
                bytes: 1 + self.below(5000),
                ..event
            },
            25..35 => self.role(event),
            35..68 if self.live.len() < 30 => self.alloc(event),
            _ if self.live.is_empty() => self.alloc(event),
            _ => {
                // Usually one of the newest.
                let back = match self.below(3) {
                    0 => self.below(self.live.len() as u64),
                    _ => self.below(self.live.len().min(3) as u64),
                };
                let at = self.live.len() - 1 - back as usize;
                let (device, ptr, bytes) = self.live.remove(at);
                Event {
                    kind: EventKind::FREE,
                    device,
                    ptr,
                    bytes,
                    ..event
                }
            }
        };
        self.events.push(event);
    }

    fn alloc(&mut self, event: Event) -> Event {
        // There are few addresses, so they are reused, also on both devices.
        let free = |live: &[(DeviceOrdinal, u64, u64)], ptr| {
            live.iter()
                .all(|(device, taken, _)| (*device, *taken) != (event.device, ptr))
        };
        let start = self.below(40);
        let mut ptr = (start..).map(|at| (1 + at) << 9);
        let ptr = ptr.find(|ptr| free(&self.live, *ptr));
        let ptr = ptr.expect("there is no end of addresses");
        let at = self.below(self.stacks.len() as u64) as usize;
        let bytes = 1 + self.below(3000);
        self.live.push((event.device, ptr, bytes));
        let mut flags = EventFlags::NONE;
        if self.below(12) == 0 {
            flags = flags.with(EventFlags::WORKSPACE);
        }
        if self.below(3) == 0 {
            flags = flags.with(EventFlags::NO_GRAD);
        }
        Event {
            kind: EventKind::ALLOC,
            ptr,
            bytes,
            flags,
            py_stack: StackId(self.stacks[at]),
            ..event
        }
    }

    fn role(&mut self, event: Event) -> Event {
        let mut told = Event {
            kind: EventKind::ROLE,
            // One of these values is invalid.
            aux: 1 + self.below(Role::BUFFER.0 + 1),
            // Usually no live block begins there.
            ptr: (1 + self.below(40)) << 9,
            ..event
        };
        if !self.live.is_empty() && self.below(5) > 0 {
            let at = self.below(self.live.len() as u64) as usize;
            (told.device, told.ptr, _) = self.live[at];
        }
        told
    }
}
