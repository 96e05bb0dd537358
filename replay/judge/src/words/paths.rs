//! Parts of the names of holders.

use crate::holders::Holder;

/// The optimizer whose state a holder is.
pub(super) fn optimizer(holder: &Holder) -> &str {
    let name = holder.text.split(".state[").next();
    name.unwrap_or(&holder.text)
}

/// The path that paths have in common: `e.members[…]` of `e.members[0…5].net` and `e.members[0…4].opt`.
pub(super) fn common(texts: &[&str]) -> String {
    let first = texts.first().copied().unwrap_or_default();
    let is_in_all = |end: usize| {
        let start = first.get(..end).unwrap_or_default();
        let is_end = |text: &&str| {
            let rest = text.strip_prefix(start);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        texts.iter().all(is_end)
    };
    let ends = first.match_indices(['.', '[']).map(|(at, _)| at);
    let end = ends.chain([first.len()]).rfind(|end| is_in_all(*end));
    let name = end.and_then(|end| first.get(..end)).unwrap_or(first);
    let rest = first.get(name.len()..).unwrap_or_default();
    match rest.starts_with('[') {
        true => format!("{name}[…]"),
        false => name.to_owned(),
    }
}

/// Each name once.
pub(super) fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// `a, b and c`.
pub(super) fn enumerated<S: std::borrow::Borrow<str>>(names: &[S]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => {
            format!("{} and {}", first.join(", "), last.borrow())
        }
        _ => names.concat(),
    }
}

/// A container with which a running call works: `a list that predict (eval.py:16) builds`.
pub(super) fn of_call(holder: &Holder) -> Option<String> {
    let call = holder.place.strip_prefix("native code or ")?;
    let class = of_class(holder);
    let verb = match class {
        "list" => "builds",
        _ => "works with",
    };
    Some(format!("a {class} that {call} {verb}"))
}

/// What only native code refers to.
pub(super) fn of_native(holder: &Holder) -> String {
    let class = of_class(holder);
    let example = match class {
        "list" => "what list(…) builds",
        _ => "arguments of atexit.register",
    };
    format!(
        "objects of class {class} to which only native code or a running call refers, such as {example}"
    )
}

/// The class of an object without a name: `list` of `list[0…6]`.
pub(super) fn of_class(holder: &Holder) -> &str {
    let end = holder.text.find(|c: char| !c.is_alphanumeric() && c != '_');
    end.and_then(|end| holder.text.get(..end))
        .unwrap_or("container")
}
