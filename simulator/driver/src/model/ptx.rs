//! The memory that a module's text declares: its variables, and the local memory of its kernels.
//! Other code is never read.

use std::collections::BTreeMap;

/// The memory that PTX declares, in bytes by name.
#[derive(Debug, Default)]
pub struct Ptx {
    /// Variables in global memory.
    pub variables: BTreeMap<String, u64>,
    /// Local memory of a thread, by kernel.
    pub stacks: BTreeMap<String, u64>,
}

impl Ptx {
    /// Parses the text of a module.
    pub fn of(text: &str) -> Self {
        let without_comments: String = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .flat_map(|line| [line, "\n"])
            .collect();
        let mut all = Self::default();
        let (mut depth, mut kernel) = (0u32, None);
        for statement in without_comments.split_inclusive([';', '{', '}']) {
            let words = statement.trim_end_matches([';', '{', '}']);
            if depth == 0 {
                kernel = kernel_of(words).or(kernel);
            }
            match (declared(words), &kernel) {
                (Some((".global", name, bytes)), _) if depth == 0 => {
                    all.variables.insert(name.to_owned(), bytes);
                }
                (Some((".local", _, bytes)), Some(kernel)) => {
                    *all.stacks.entry(kernel.clone()).or_default() += bytes;
                }
                _ => {}
            }
            match statement.chars().next_back() {
                Some('{') => depth += 1,
                Some('}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                kernel = None;
            }
        }
        all
    }
}

/// The kernel whose body begins after this text.
fn kernel_of(words: &str) -> Option<String> {
    let (_, rest) = words.split_once(".entry")?;
    let name = rest.split(['(', '{']).next()?.trim();
    Some(name.to_owned())
}

/// The space, name and bytes of a declared variable.
fn declared(words: &str) -> Option<(&str, &str, u64)> {
    let before = words.split('=').next()?;
    let space = before
        .split_whitespace()
        .find(|word| matches!(*word, ".global" | ".local"))?;
    let width = |word: &str| {
        let digits = word.strip_prefix(['b', 'u', 's', 'f'])?;
        Some(digits.parse::<u64>().ok()? / 8)
    };
    let count = |word: &str| word.strip_prefix('v')?.parse::<u64>().ok();
    let mut bytes = 0;
    let mut vector = 1;
    for word in before
        .split_whitespace()
        .filter_map(|w| w.strip_prefix('.'))
    {
        bytes = width(word).unwrap_or(bytes);
        vector = count(word).unwrap_or(vector);
    }
    let name = before.split_whitespace().next_back()?;
    let mut parts = name.split('[');
    let name = parts.next().filter(|name| !name.starts_with('.'))?;
    let sizes = parts.map(|part| part.trim_end_matches(']').parse::<u64>().unwrap_or(1));
    let elements = sizes.fold(vector, u64::saturating_mul);
    (bytes != 0).then(|| (space, name, elements.saturating_mul(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_stacks_have_their_bytes() {
        let ptx = Ptx::of(
            "// .global .b8 comment[9];\n.version 6.3\n.target sm_75\n\
             .visible .global .align 8 .b8 large[33554432];\n\
             .global .align 4 .b8 set[4] = {1, 2, 3, 4};\n\
             .global .v4 .f32 grid[2][3];\n.visible .global .u64 one;\n\
             .func helper() { .local .b8 unseen[64]; ret; }\n\
             .visible .entry deep(\n.param .u64 a\n)\n.maxntid 256\n{\n\
             .local .align 4 .b8 frame[4096]; .local .u32 more[4]; { .reg .b64 %a; } ret;\n}\n\
             .visible .entry plain() { ret; }\n",
        );
        let pairs = |all: &BTreeMap<String, u64>| -> Vec<(String, u64)> {
            all.iter()
                .map(|(name, bytes)| (name.clone(), *bytes))
                .collect()
        };
        let variables = [("grid", 96), ("large", 33_554_432), ("one", 8), ("set", 4)];
        assert_eq!(
            pairs(&ptx.variables),
            variables.map(|(name, bytes)| (name.to_owned(), bytes))
        );
        assert_eq!(pairs(&ptx.stacks), [("deep".to_owned(), 4112)]);
    }

    #[test]
    fn what_is_no_ptx_declares_nothing() {
        for text in [
            "",
            "{",
            "};;",
            ".entry",
            ".global",
            ".global .b8",
            "\u{fffd}.global .b8 .;\u{fffd}",
        ] {
            let ptx = Ptx::of(text);
            assert!(ptx.stacks.is_empty() && ptx.variables.is_empty(), "{text}");
        }
    }
}
