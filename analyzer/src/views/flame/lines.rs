//! Folded stacks as text: `oldest;…;newest bytes`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Differential, FlameStack, Folded};
use crate::stacks::FrameKind;

impl Folded {
    /// One line for each stack, sorted: `oldest;…;newest bytes`.
    pub fn lines(&self) -> Vec<String> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, held) in &self.stacks {
            *all.entry(joined(stack)).or_default() += held.bytes;
        }
        let lines = all.iter().map(|(stack, bytes)| format!("{stack} {bytes}"));
        lines.collect()
    }
}

impl Differential {
    /// One line for each stack, sorted: `oldest;…;newest before after`.
    pub fn lines(&self) -> Vec<String> {
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (stack, (before, after)) in &self.stacks {
            let sum = all.entry(joined(stack)).or_default();
            *sum = (sum.0 + before.bytes, sum.1 + after.bytes);
        }
        let line =
            |(stack, (before, after)): (&String, &(u64, u64))| format!("{stack} {before} {after}");
        all.iter().map(line).collect()
    }
}

fn joined(stack: &FlameStack) -> String {
    let mut out = String::new();
    for (index, frame) in stack.iter().enumerate() {
        if index > 0 {
            out.push(';');
        }
        // For example `GPU 0`: a number is read as a count only in the newest frame.
        let is_plain = frame.kind == FrameKind::Group && index + 1 < stack.len();
        match is_plain && !frame.label.contains(';') {
            true => out.push_str(&frame.label),
            false => out.push_str(&sanitised(&frame.label)),
        }
    }
    out
}

/// A frame's name that all readers of folded stacks read as one frame. It contains no `;`.
/// It does not end with a number after a blank, which would be read as a count, or begin with `#`, which would be
/// read as a comment.
fn sanitised(name: &str) -> Cow<'_, str> {
    let is_harmless = !name.contains(';')
        && !name.starts_with(|c: char| c == '#' || c.is_whitespace())
        && name.ends_with(|c: char| !(c.is_ascii_digit() || c == '.' || c.is_whitespace()));
    if is_harmless {
        return Cow::Borrowed(name);
    }
    let mut out = name.trim().replace(';', ":");
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
            ("gemm128", "gemm128"),
            ("# no comment", "_# no comment"),
            (" ", "(nameless)"),
        ] {
            assert_eq!(sanitised(name), expected);
        }
    }
}
