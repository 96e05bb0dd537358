//! The current line of the script's own file in a Python stack.

use std::sync::Arc;

use gpumem_capture::StackId;
use rustc_hash::FxHashMap;

use crate::attribution::{Line, script_line};
use crate::replay::Replay;

/// A line of the script.
pub(super) struct At {
    pub file: Arc<str>,
    pub file_relative: Option<Arc<str>>,
    pub line: u32,
    pub function: Arc<str>,
}

/// The result for a Python stack.
#[derive(Clone, Copy)]
pub(super) enum Stack {
    /// The thread ran no Python.
    None,
    /// The line, if it is in the script: a number for [`Script::line`].
    At(Option<u32>),
}

/// The lines of a script.
pub(super) struct Script {
    /// Lines that the script has reached.
    lines: Vec<At>,
    numbers: FxHashMap<Line, u32>,
    /// The result for each Python stack of an event.
    stacks: FxHashMap<StackId, Stack>,
    /// The latest stack and its result.
    last: (StackId, Stack),
}

impl Default for Script {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            numbers: FxHashMap::default(),
            stacks: FxHashMap::default(),
            last: (StackId::NONE, Stack::None),
        }
    }
}

impl Script {
    /// The line with a number.
    pub fn line(&self, number: u32) -> Option<&At> {
        self.lines.get(number as usize)
    }

    /// The result for a stack, which is cached.
    pub fn stack(&mut self, replay: &Replay, stack: StackId) -> Stack {
        if stack == StackId::NONE {
            return Stack::None;
        }
        if self.last.0 == stack {
            return self.last.1;
        }
        let (lines, numbers) = (&mut self.lines, &mut self.numbers);
        let says = *self.stacks.entry(stack).or_insert_with(|| {
            let own = replay.names.own_stack(stack);
            if own == StackId::NONE {
                return Stack::None;
            }
            let line = script_line(&replay.names, own);
            Stack::At(line.map(|line| number(line, lines, numbers)))
        });
        self.last = (stack, says);
        says
    }
}

/// The number of a line, which is added if it is new.
fn number(line: Line, lines: &mut Vec<At>, numbers: &mut FxHashMap<Line, u32>) -> u32 {
    *numbers.entry(line).or_insert_with_key(|line| {
        lines.push(At {
            file: line.file.as_str().into(),
            file_relative: line.relative.as_deref().map(Into::into),
            line: line.line,
            function: line.function.as_str().into(),
        });
        lines.len() as u32 - 1
    })
}
