//! Folded stacks: bytes by whole mixed stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use gpumem_capture::Level;

use super::by_stack::ByStack;
use super::module_of::module_path;
use crate::account::many;
use crate::attribution::owner;
use crate::names::{Names, NativeFrame};
use crate::replay::Replay;
use crate::stacks::{Labelled, labelled};
use crate::symbols::Symbols;

/// Bytes by stack, as flamegraphs take them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// `oldest;…;newest`, each frame sanitised, and its bytes; sorted by stack.
    pub stacks: BTreeMap<String, u64>,
}

impl Folded {
    /// What stacks held, each Python frame with its line.
    pub fn of(replay: &Replay, symbols: &mut Symbols, held: &ByStack) -> Self {
        Self::by(replay, symbols, held, FrameBy::Line)
    }

    /// What stacks held.
    pub fn by(replay: &Replay, symbols: &mut Symbols, held: &ByStack, by: FrameBy) -> Self {
        let names = &replay.names;
        let mut folded = Self::default();
        for on in &held.devices {
            let frames = on
                .figures
                .iter()
                .filter(|_| by != FrameBy::Module)
                .filter_map(|(stacks, _)| names.native_stacks.get(&stacks.native))
                .flat_map(|(frames, _)| frames);
            let frames: Vec<&NativeFrame> = frames.collect();
            symbols.find(names, frames);
            for (stacks, figure) in &on.figures {
                let mut stack = String::new();
                if held.devices.len() > 1 {
                    stack.push_str(&crate::account::place(on.device));
                }
                let labels: Vec<Rc<str>> = match by {
                    FrameBy::Module => {
                        let mut path = module_path(names, *stacks);
                        path.push(owner(names, *stacks, held.level).label(names));
                        path.into_iter().map(Rc::from).collect()
                    }
                    FrameBy::Line | FrameBy::Function => labelled(names, symbols, *stacks)
                        .into_iter()
                        .map(|frame| label(names, frame, by))
                        .collect(),
                };
                for label in &labels {
                    if !stack.is_empty() {
                        stack.push(';');
                    }
                    stack.push_str(&sanitised(label));
                }
                *folded.stacks.entry(stack).or_default() += figure.bytes;
            }
        }
        folded.stacks.retain(|_, bytes| *bytes > 0);
        folded
    }

    /// Bytes over all stacks.
    pub fn bytes(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// One line for each stack: `oldest;…;newest bytes`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.stacks
            .iter()
            .map(|(stack, bytes)| format!("{stack} {bytes}"))
    }

    /// What the picture is of; `when` as `at the peak`.
    pub fn title(&self, level: Level, when: &str) -> String {
        let what = match level {
            Level::TENSOR => "GPU memory of tensors",
            Level::HOST => "Pinned host memory",
            _ => "GPU memory from CUDA",
        };
        let stacks = many(self.stacks.len() as u64, "stack", "stacks");
        format!(
            "{what} {when}: {} in {stacks}",
            crate::units::bytes(self.bytes())
        )
    }
}

/// Which Python frames are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameBy {
    /// Those at the same line of a function.
    #[default]
    Line,
    /// Those of the same function.
    Function,
    /// None: the modules of PyTorch's that were at work stand in their place, and the line that owns the bytes.
    Module,
}

/// Bytes by stack, before and after: what differential flamegraphs take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differential {
    /// By stack: before, after.
    pub stacks: BTreeMap<String, (u64, u64)>,
}

impl Differential {
    /// What became of what.
    pub fn of(before: &Folded, after: &Folded) -> Self {
        let mut stacks: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (stack, bytes) in &before.stacks {
            stacks.entry(stack.clone()).or_default().0 = *bytes;
        }
        for (stack, bytes) in &after.stacks {
            stacks.entry(stack.clone()).or_default().1 = *bytes;
        }
        Self { stacks }
    }

    /// One line for each stack: `oldest;…;newest before after`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.stacks
            .iter()
            .map(|(stack, (before, after))| format!("{stack} {before} {after}"))
    }
}

fn label(names: &Names, frame: Labelled, by: FrameBy) -> Rc<str> {
    let code = frame.line.and_then(|(code, _)| names.codes.get(&code));
    match code {
        Some(code) if by == FrameBy::Function => {
            format!("{} ({})", code.name, names.short_path(&code.file)).into()
        }
        _ => frame.label,
    }
}

/// A frame's name that every reader of folded stacks takes for one frame: no `;`, no control
/// characters, no number after a blank at its end, which would be read as a count, and no `#` at its
/// beginning, where a line would be read as a comment.
fn sanitised(name: &str) -> Cow<'_, str> {
    let is_harmless = !name.contains(|c: char| c == ';' || c.is_control())
        && !name.starts_with(|c: char| c == '#' || c.is_whitespace())
        && name.ends_with(|c: char| !(c.is_ascii_digit() || c == '.' || c.is_whitespace()));
    if is_harmless {
        return Cow::Borrowed(name);
    }
    let mut out: String = name
        .trim()
        .chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect();
    let number = out.len()
        - out
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
            .len();
    let start = out.len() - number;
    if number > 0 && out[..start].ends_with(' ') {
        out.replace_range(start - 1..start, "_");
    }
    if out.starts_with('#') {
        out.insert(0, '_');
    }
    if out.is_empty() {
        Cow::Borrowed("(nameless)")
    } else {
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_read_as_two_frames_or_as_counts() {
        for (name, expected) in [
            ("kernel 3 100", "kernel 3_100"),
            ("kernel 3.5", "kernel_3.5"),
            ("a;b", "a:b"),
            ("a\nb", "a\u{fffd}b"),
            ("gemm128", "gemm128"),
            ("# no comment", "_# no comment"),
            (" ", "(nameless)"),
        ] {
            assert_eq!(sanitised(name), expected);
        }
    }
}
