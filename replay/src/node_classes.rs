//! Class names of autograd nodes.

use crate::demangle::{Limits, cpp};

/// Names of classes are short.
const LIMITS: Limits = Limits {
    name: 1024,
    text: 4096,
};
/// Class names are cut to this many characters.
const SHOWN: usize = 80;

/// A node's class: the last part of its name in C++'s type information. Other names are returned as they are: the class
/// of a custom `Function` may have Python's name.
pub fn class(name: &str) -> String {
    let name = name.strip_prefix('*').unwrap_or(name);
    let whole = demangled(name);
    let class = whole.as_deref().map_or(name, last_part).trim();
    let mut shown: String = class.chars().take(SHOWN + 1).collect();
    if shown.chars().count() > SHOWN {
        shown = shown.chars().take(SHOWN - 1).chain(['…']).collect();
    }
    if shown.is_empty() {
        "unknown node".into()
    } else {
        shown
    }
}

/// The whole name, if it is the mangled name of a class. Mangled names begin in one of a few ways; a Python class name
/// that does so is almost never a complete mangled name.
fn demangled(name: &str) -> Option<String> {
    let begins = name.starts_with(|c: char| c.is_ascii_digit() || "NSZ".contains(c));
    if !begins || name.len() > LIMITS.name {
        return None;
    }
    let whole = cpp(&format!("_ZTS{name}"), LIMITS)?;
    Some(whole.strip_prefix("typeinfo name for ")?.to_owned())
}

/// The part after the last `::` outside all brackets.
fn last_part(name: &str) -> &str {
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_last_part_of_its_name() {
        for (name, expected) in [
            (
                "N5torch8autograd9generated20ConvolutionBackward0E",
                "ConvolutionBackward0",
            ),
            ("*N5torch8autograd6PyNodeE", "PyNode"),
            ("N5torch8autograd14AccumulateGradE", "AccumulateGrad"),
            ("6MyNode", "MyNode"),
            ("N12_GLOBAL__N_16HiddenE", "Hidden"),
            (
                "N5torch8autograd7CppNodeIN2me6SquareEEE",
                "CppNode<me::Square>",
            ),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_mangled_name_stands_for_itself() {
        for name in [
            "MyFunctionBackward",
            "NetE",
            "Pi",
            "x",
            "Square",
            "N5torch8autogradE7",
        ] {
            assert_eq!(class(name), name);
        }
        assert_eq!(class(""), "unknown node");
        assert_eq!(class("*"), "unknown node");
    }

    #[test]
    fn hostile_names_end_soon_and_are_cut() {
        let nested = format!("{}6MyNode{}", "N1aI".repeat(200), "EE".repeat(200));
        let long = "x".repeat(100_000);
        // Each substitution doubles the text of the ones before it.
        let mut doubling = String::from("N1aI");
        for part in [
            "", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D", "E",
        ] {
            doubling.push_str(&format!("PFvS{part}_S{part}_E"));
        }
        doubling.push_str("EE");
        for name in [&nested, &long, &doubling] {
            let class = class(name);
            assert!(class.chars().count() <= SHOWN, "{class}");
        }
        assert_eq!(class(&long).chars().count(), SHOWN);
    }
}
