//! Whether a function that runs, or waits, reads one of its variables again: from its instructions, none of which runs.

use rustc_hash::FxHashMap;

use crate::object::Object;
use crate::opcodes::table;
use crate::python::Locked;

/// The longest code, in instructions.
const LONGEST: usize = 1 << 16;
/// The maximum number of places whose variables are looked at in a walk.
const PLACES: usize = 256;
/// Built-in functions that read the variables of their caller, or that run code which does.
const BY_NAME: [&str; 6] = ["locals", "vars", "eval", "exec", "dir", "breakpoint"];
/// Names with which code gets at frames, or at these functions.
const FRAMES: [&str; 5] = [
    "_getframe",
    "currentframe",
    "f_locals",
    "builtins",
    "__builtins__",
];
/// `CO_OPTIMIZED` and `CO_NEWLOCALS`, which functions have.
const FUNCTION: i64 = 3;
const NOWHERE: u32 = u32::MAX;

/// The code objects of functions, by address, and what is known of their variables.
#[derive(Default)]
pub(crate) struct Live {
    functions: FxHashMap<Object, Option<Function>>,
    places: FxHashMap<(Object, i32, usize), Option<bool>>,
}

struct Function {
    /// The number of its variables that are not only those of closures.
    variables: usize,
    code: Code,
}

impl Live {
    /// Whether a function may read a variable before it stores or deletes it, from the instruction on at which its frame is:
    /// a live code object, and the offset in it in bytes. None: not known.
    pub(crate) fn reads(
        &mut self,
        locked: &Locked<'_>,
        (code, offset): (Object, i32),
        variable: usize,
    ) -> Option<bool> {
        let place = (code, offset, variable);
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        if self.places.len() >= PLACES {
            return None;
        }
        let function = self.functions.entry(code);
        let function = function.or_insert_with(|| Function::read(locked, code));
        let function = function
            .as_ref()
            .filter(|function| variable < function.variables);
        let reads = function.and_then(|function| function.code.reads(offset, variable));
        self.places.insert(place, reads);
        reads
    }
}

impl Function {
    /// The instructions of a live code object that is a function's, and whose variables only its instructions read.
    fn read(locked: &Locked<'_>, code: Object) -> Option<Self> {
        let minor = locked.runtime.version().minor();
        let attribute = |name| locked.attribute(code, name);
        let number = |name| locked.number(attribute(name)?.object);
        let bytes = attribute(c"co_code")?;
        let handlers = match minor {
            (3, ..=10) => None,
            _ => Some(attribute(c"co_exceptiontable")?),
        };
        let handlers = handlers.as_ref().map(|of| of.bytes());
        let code = Code::new(minor, bytes.bytes(), handlers)?;
        let names = locked.texts(attribute(c"co_names")?.object);
        let is_one_of = |name: &String, all: &[&str]| all.contains(&&**name);
        let is_by_name = |at| names.get(at).is_some_and(|name| is_one_of(name, &BY_NAME));
        let is_plain = number(c"co_flags")? & FUNCTION == FUNCTION
            && !code.globals().any(is_by_name)
            && !names.iter().any(|name| is_one_of(name, &FRAMES));
        let variables = usize::try_from(number(c"co_nlocals")?).ok()?;
        is_plain.then_some(Self { variables, code })
    }
}

/// An instruction.
#[derive(Clone, Copy)]
struct Instruction {
    /// See [`table`].
    does: u8,
    argument: usize,
    /// The next one.
    next: usize,
}

impl Instruction {
    /// The variables that it reads, and those that it stores or deletes.
    fn variables(self) -> [[Option<usize>; 2]; 2] {
        let (one, two) = (Some(self.argument >> 4), Some(self.argument & 15));
        match self.does {
            b'r' => [[Some(self.argument), None], [None; 2]],
            b'R' => [[one, two], [None; 2]],
            b'w' => [[None; 2], [Some(self.argument), None]],
            b'W' => [[None; 2], [one, two]],
            b'M' => [[two, None], [one, None]],
            _ => [[None; 2]; 2],
        }
    }
}

/// The instructions of a function, by place.
pub(crate) struct Code {
    all: Vec<Instruction>,
    /// By place, where an exception is handled that is raised there.
    handlers: Vec<u32>,
    /// Where a `finally` that was called goes on.
    returns: Vec<usize>,
}

impl Code {
    /// `handlers`: the table of exceptions, which code has from 3.11 on.
    pub(crate) fn new(minor: (u32, u32), code: &[u8], handlers: Option<&[u8]>) -> Option<Self> {
        let table = table(minor)?;
        let (units, _) = code.as_chunks::<2>();
        if units.len() > LONGEST {
            return None;
        }
        let mut all = Vec::with_capacity(units.len());
        let mut argument = 0usize;
        let mut at = 0;
        while let Some([opcode, low]) = units.get(at).copied() {
            let does = table.get(usize::from(opcode)).copied().unwrap_or(b'_');
            argument = argument << 8 & 0xffff_ffff | usize::from(low);
            at += 1;
            if does == b'E' {
                continue;
            }
            if handlers.is_some() {
                // Opcode 0 is room for the interpreter's caches, which belong to the instruction.
                let after = units.get(at..).unwrap_or_default().iter();
                at += after.take_while(|[opcode, _]| *opcode == 0).count();
            }
            let instruction = Instruction {
                does,
                argument: core::mem::take(&mut argument),
                next: at,
            };
            all.resize(at, instruction);
        }
        let bytes = if minor < (3, 10) { 2 } else { 1 };
        for of in &mut all {
            match of.does {
                b'j' | b'b' | b'a' | b'f' | b'k' | b'A' | b's' | b'q' => of.argument /= bytes,
                b'g' if handlers.is_some() => of.argument >>= 1,
                _ => {}
            }
        }
        let calls = all.iter().filter(|of| of.does == b'q');
        let mut code = Self {
            returns: calls.map(|of| of.next).collect(),
            handlers: vec![NOWHERE; all.len()],
            all,
        };
        match handlers {
            Some(table) => code.read_handlers(table)?,
            None => code.follow_blocks(),
        }
        Some(code)
    }

    /// The numbers of the names of the global variables that it reads.
    fn globals(&self) -> impl Iterator<Item = usize> {
        let all = self.all.iter().filter(|of| of.does == b'g');
        all.map(|of| of.argument)
    }

    /// Reads the table of exceptions: where each part of the code has its handler.
    fn read_handlers(&mut self, table: &[u8]) -> Option<()> {
        let mut work = 8 * LONGEST;
        let mut bytes = table.iter().copied();
        let mut number = || {
            let mut value = 0usize;
            loop {
                let byte = bytes.next()?;
                value = value << 6 & 0xffff_ffff | usize::from(byte & 63);
                if byte & 64 == 0 {
                    return Some(value);
                }
            }
        };
        while let Some(start) = number() {
            let (length, target, _) = (number()?, number()?, number()?);
            work = work.checked_sub(length)?;
            for handler in self.handlers.get_mut(start..start.checked_add(length)?)? {
                *handler = u32::try_from(target).ok()?;
            }
        }
        Some(())
    }

    /// Follows the blocks with handlers from the start on, which code has up to 3.10.
    fn follow_blocks(&mut self) {
        // Each block: where its handler is, and the block around it.
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        let mut seen = vec![false; self.all.len()];
        let mut left = vec![(0, NOWHERE)];
        let mut after = Vec::new();
        while let Some((at, mut block)) = left.pop() {
            let (Some(of), Some(is_seen)) = (self.all.get(at).copied(), seen.get_mut(at)) else {
                continue;
            };
            if core::mem::replace(is_seen, true) {
                continue;
            }
            let around = blocks.get(block as usize).copied();
            let (handler, outer) = around.unwrap_or((NOWHERE, NOWHERE));
            let all = self.handlers.get_mut(at..of.next).unwrap_or_default();
            all.fill(handler);
            match of.does {
                b's' => {
                    let handler = of.next.saturating_add(of.argument);
                    left.push((handler, block));
                    blocks.push((u32::try_from(handler).unwrap_or(NOWHERE), block));
                    block = (blocks.len() - 1) as u32;
                }
                b'p' => block = outer,
                _ => {}
            }
            if self.after(of, &mut after).is_some() {
                left.extend(after.drain(..).map(|at| (at, block)));
            }
            after.clear();
        }
    }

    /// Adds the places at which an instruction may go on, without handlers. None: not known.
    fn after(&self, of: Instruction, to: &mut Vec<usize>) -> Option<()> {
        let jump = match of.does {
            b'_' | b'E' => return None,
            b'j' | b'f' | b'q' => Some(of.next.saturating_add(of.argument)),
            b'b' | b'k' => Some(of.next.checked_sub(of.argument)?),
            b'a' | b'A' => Some(of.argument),
            _ => None,
        };
        to.extend(jump);
        if !b"jbax".contains(&of.does) {
            to.push(of.next);
        }
        if of.does == b'e' {
            to.extend(&self.returns);
        }
        Some(())
    }

    fn handler(&self, at: usize) -> Option<usize> {
        let handler = self.handlers.get(at)?;
        (*handler != NOWHERE).then_some(*handler as usize)
    }

    /// See [`Live::reads`]. `offset`: of the frame, in bytes; negative at the beginning.
    pub(crate) fn reads(&self, offset: i32, variable: usize) -> Option<bool> {
        let variable = Some(variable);
        let mut left = Vec::new();
        match usize::try_from(offset) {
            Err(_) => left.push(0),
            Ok(offset) => {
                // What it stores is stored. It may still have to read, after the code of a finalizer.
                let at = offset / 2;
                let of = *self.all.get(at)?;
                if of.variables()[0].contains(&variable) {
                    return Some(true);
                }
                self.after(of, &mut left)?;
                left.extend(self.handler(at));
                // From 3.13 on, a generator that waits is after the instruction at which it waits.
                left.extend(at.checked_sub(1).and_then(|before| self.handler(before)));
            }
        }
        let mut seen = vec![false; self.all.len()];
        while let Some(at) = left.pop() {
            let of = *self.all.get(at)?;
            if core::mem::replace(seen.get_mut(at)?, true) {
                continue;
            }
            left.extend(self.handler(at));
            let [reads, stores] = of.variables();
            if stores.contains(&variable) {
                continue;
            }
            if reads.contains(&variable) {
                return Some(true);
            }
            self.after(of, &mut left)?;
        }
        Some(false)
    }
}
