//! The events of a generated training.

use gpumem_capture::*;

/// The generated program: its live set grows and shrinks, and from time to time reaches a new peak.
pub(crate) struct Program {
    random: u64,
    live: Vec<(u64, u64)>,
    segments: Vec<(u64, u64)>,
    target: usize,
    next_ptr: u64,
    pool: u64,
    pub(crate) stack: u32,
    n: u64,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self {
            random: 0x9e37_79b9_7f4a_7c15,
            live: Vec::new(),
            segments: Vec::new(),
            target: 1000,
            next_ptr: 0x7f00_0000_0000,
            pool: 0,
            stack: 0,
            n: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// The next event; a new stack is added after every `a_stack` events.
    pub(crate) fn event(&mut self, a_stack: u64) -> Event {
        let n = self.n;
        self.n += 1;
        if n.is_multiple_of(a_stack) {
            self.stack += 1;
        }
        if n.is_multiple_of(5000) {
            let (a, b) = (self.random(30_000), self.random(1000));
            self.target = 100 + (a * b * b / 1_000_000) as usize;
        }
        let stack = StackId(1 + self.random(u64::from(self.stack).min(900)) as u32);
        let newest = StackId(self.stack);
        let of = |kind, level, ptr, bytes, py_stack| Event {
            time: Nanos(n * 1024),
            ptr,
            bytes,
            aux: 1 << 34,
            py_stack,
            native_stack: StackId(1 + n as u32 % 50),
            thread: ThreadId(77),
            kind,
            level,
            api: ApiId(1),
            ..Event::default()
        };
        let (alloc, free) = (EventKind::ALLOC, EventKind::FREE);
        if n % 700 == 699 {
            let event = of(EventKind::STEP, Level::TENSOR, 0, 0, StackId::NONE);
            return Event {
                aux: n / 700 + 1,
                ..event
            };
        }
        if n % 100_000 == 99_999 {
            let before = std::mem::replace(&mut self.pool, 0);
            self.pool = (1 + self.random(64)) << 21;
            let flags = EventFlags::STREAM_ORDERED;
            let event = of(EventKind::RESIZE, Level::PHYSICAL, 0xb0, self.pool, stack);
            return Event {
                aux: before,
                flags,
                ..event
            };
        }
        if n % 1000 == 998 {
            let grows =
                self.segments.len() < 100 || self.random(2) == 0 && self.segments.len() < 4000;
            if grows {
                self.next_ptr += 1 << 21;
                self.segments.push((self.next_ptr, 2 << 20));
                return of(alloc, Level::DRIVER, self.next_ptr, 2 << 20, stack);
            }
            let at = self.random(self.segments.len() as u64) as usize;
            let (ptr, bytes) = self.segments.swap_remove(at);
            return of(free, Level::DRIVER, ptr, bytes, StackId::NONE);
        }
        if self.live.len() < self.target {
            let bytes = (1 + self.random(4000)) * 512;
            self.next_ptr += 512;
            self.live.push((self.next_ptr, bytes));
            let py = if n.is_multiple_of(a_stack) {
                newest
            } else {
                stack
            };
            of(alloc, Level::TENSOR, self.next_ptr, bytes, py)
        } else {
            let at = self.random(self.live.len() as u64) as usize;
            let (ptr, bytes) = self.live.swap_remove(at);
            of(free, Level::TENSOR, ptr, bytes, StackId::NONE)
        }
    }
}

/// Defines a stack of 12 frames. One of them has a code object that only this stack uses.
pub(crate) fn define(writer: &Writer, id: u32) -> Result<(), Lost> {
    let code = Definition::Code {
        id: CodeId(id),
        first_line: id % 5000,
        file: format!("/home/me/project/module_{}.py", id % 300),
        name: format!("function_{id}"),
        line_table: vec![(id % 251) as u8; 40],
    };
    let frame = |n: u32| PyFrame {
        code: CodeId(id.saturating_sub(n * 7).max(1)),
        offset: (n * 2) as i32,
        entered_from_c: n == 11,
    };
    let stack = Definition::PyStack {
        id: StackId(id),
        truncated: false,
        modules: Vec::new(),
        frames: (0..12).map(frame).collect(),
    };
    for definition in [code, stack] {
        writer.definition(definition.kind(), &[&definition.payload()])?;
    }
    Ok(())
}
