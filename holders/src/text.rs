//! The text of a path, as Python would write it.

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `.name`
    Name(String),
    /// `['name']`
    Key(String),
    /// `[3]`
    Index(i64),
    /// An element without a number.
    Element,
    /// ` → text`
    Arrow(String),
    /// The variable of a call that waits: a coroutine, or a generator.
    Waiting(Waiting),
    /// What a cached function (`functools.lru_cache`) returned, and the number of its results.
    Result(usize),
    /// An argument of such a call.
    Argument(usize),
    /// `.name`, which a `functools.cached_property` made.
    Cached(String),
    /// Parts that are left out.
    Gap,
    /// Not worth a word.
    Silent,
}

/// A variable of a call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// What waits: `coroutine`.
    pub(crate) word: &'static str,
    /// Where: `handle (server.py:31)`.
    pub(crate) place: String,
    /// None: a value without a name.
    pub(crate) variable: Option<String>,
}

/// The longest text, in characters.
const LONGEST: usize = 240;
/// Stands for a number in a text.
pub(crate) const MARK: char = '\u{1}';
/// From this number of equal parts in a row on, they are one part with a number.
const REPEATED: usize = 3;

/// The text of parts; a number is a mark, and goes to `numbers`.
pub(crate) fn text(parts: &[Part], numbers: &mut Vec<i64>) -> String {
    text_of(&shortened(parts), numbers)
}

/// The text without the last key: `state['model'][…]`. None: there is no key.
pub(crate) fn shape(parts: &[Part]) -> Option<String> {
    let is_key = |part: &Part| matches!(part, Part::Key(_));
    if !parts.iter().any(is_key) {
        return None;
    }
    let mut parts = shortened(parts);
    *parts.iter_mut().rfind(|part| is_key(part))? = Part::Element;
    Some(text_of(&parts, &mut Vec::new()))
}

fn text_of(parts: &[Part], numbers: &mut Vec<i64>) -> String {
    let (mut text, mut note) = (String::new(), String::new());
    let mut rest = parts;
    while let [part, after @ ..] = rest {
        let count = rest.iter().take_while(|other| *other == part).count();
        rest = after;
        match part {
            Part::Name(name) if text.is_empty() => text += name,
            Part::Name(name) => text += &format!(".{name}"),
            Part::Key(name) => text += &format!("['{name}']"),
            Part::Index(number) => {
                text.push('[');
                text.push(MARK);
                text.push(']');
                numbers.push(*number);
                continue;
            }
            Part::Element => text += "[…]",
            Part::Arrow(words) if text.is_empty() => text += words,
            Part::Arrow(words) => text += &format!(" → {words}"),
            Part::Waiting(Waiting {
                word,
                place,
                variable,
            }) => {
                text += if text.is_empty() { "" } else { " → " };
                text += &format!("{word} {place}");
                let variable = variable.iter().map(|name| format!(" {name}"));
                text.extend(variable);
            }
            Part::Result(count) | Part::Argument(count) => {
                text = format!("cache of {text}()");
                if matches!(part, Part::Argument(_)) {
                    text += " → arguments";
                }
                let end = if *count == 1 { "" } else { "s" };
                note = format!(", {count} result{end}");
            }
            Part::Cached(name) => {
                text += &format!(".{name}");
                note = String::from(", cached property");
            }
            Part::Gap => text.push('…'),
            Part::Silent => {}
        }
        if count >= REPEATED {
            text += &format!(" (×{MARK})");
            numbers.push(count as i64);
            rest = rest.get(count - 1..).unwrap_or_default();
        }
    }
    cut(text) + &note
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.pop();
        text.push('…');
    }
    text
}

/// Without silent parts. PyTorch's modules keep theirs in dictionaries: `._modules['0']._parameters['weight']` is
/// `[0].weight`.
fn shortened(parts: &[Part]) -> Vec<Part> {
    let mut shown = Vec::with_capacity(parts.len());
    let parts = parts.iter().filter(|part| **part != Part::Silent);
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        match (part, parts.peek()) {
            (Part::Name(name), Some(Part::Key(_) | Part::Element)) if is_of_module(name) => {
                match parts.next() {
                    Some(Part::Key(key)) => shown.push(match key.parse() {
                        Ok(number) => Part::Index(number),
                        Err(_) => Part::Name(key.clone()),
                    }),
                    _ => shown.push(Part::Element),
                }
            }
            _ => shown.push(part.clone()),
        }
    }
    shown
}

/// Whether an attribute is one of those in which PyTorch's modules keep what they have.
pub(crate) fn is_of_module(name: &str) -> bool {
    matches!(name, "_modules" | "_parameters" | "_buffers")
}

/// A text with its numbers: the least and the largest for each mark.
pub(crate) fn with_numbers(text: &str, numbers: &[(i64, i64)]) -> String {
    let mut numbers = numbers.iter();
    let mut out = String::new();
    for c in text.chars() {
        match (c == MARK).then(|| numbers.next()).flatten() {
            Some((least, most)) if least == most => out += &least.to_string(),
            Some((least, most)) => out += &format!("{least}…{most}"),
            None if c == MARK => out.push('…'),
            None => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[Part]) -> String {
        let mut numbers = Vec::new();
        let text = text(parts, &mut numbers);
        let numbers: Vec<_> = numbers.into_iter().map(|number| (number, number)).collect();
        with_numbers(&text, &numbers)
    }

    #[test]
    fn a_path_reads_as_python() {
        let name = |text: &str| Part::Name(text.to_owned());
        let key = |text: &str| Part::Key(text.to_owned());
        let arrow = |text: &str| Part::Arrow(text.to_owned());
        for (parts, text) in [
            (
                vec![name("metric"), Part::Silent, name("preds"), Part::Index(7)],
                "metric.preds[7]",
            ),
            (
                vec![
                    name("model"),
                    name("_modules"),
                    key("0"),
                    name("_parameters"),
                    key("weight"),
                ],
                "model[0].weight",
            ),
            (
                vec![name("e"), arrow("traceback"), arrow("step (x.py:3) out")],
                "e → traceback → step (x.py:3) out",
            ),
            (
                vec![Part::Silent, name("cache"), key("a"), Part::Element],
                "cache['a'][…]",
            ),
            (
                vec![name("head"), name("next"), name("next"), name("t")],
                "head.next.next.t",
            ),
            (vec![name("head"), Part::Gap, name("t")], "head….t"),
            (
                vec![Part::Index(1), Part::Index(1), Part::Index(1)],
                "[1][1][1]",
            ),
        ] {
            assert_eq!(shown(&parts), text);
        }
    }

    #[test]
    fn what_functools_and_calls_that_wait_keep_is_named() {
        let name = |text: &str| Part::Name(text.to_owned());
        let waiting = Part::Waiting(Waiting {
            word: "coroutine",
            place: String::from("handle (server.py:31)"),
            variable: Some(String::from("logits")),
        });
        for (parts, text) in [
            (
                vec![name("f"), Part::Result(2), Part::Key(String::from("a"))],
                "cache of f()['a'], 2 results",
            ),
            (
                vec![name("f"), Part::Argument(1), Part::Index(0)],
                "cache of f() → arguments[0], 1 result",
            ),
            (
                vec![
                    name("all"),
                    Part::Index(3),
                    Part::Cached(String::from("mask")),
                ],
                "all[3].mask, cached property",
            ),
            (
                vec![name("task"), waiting],
                "task → coroutine handle (server.py:31) logits",
            ),
        ] {
            assert_eq!(shown(&parts), text);
        }
    }

    #[test]
    fn a_shape_has_no_last_key() {
        let key = |text: &str| Part::Key(text.to_owned());
        let name = |text: &str| Part::Name(text.to_owned());
        let module = [name("net"), name("_modules"), key("a"), name("kept")];
        assert_eq!(shape(&module), None);
        let parts = [name("state"), key("model"), key("a.weight")];
        assert_eq!(shape(&parts).as_deref(), Some("state['model'][…]"));
        let parts = [name("state"), key("seen"), Part::Index(3)];
        let shape = shape(&parts).unwrap_or_default();
        assert_eq!(with_numbers(&shape, &[(0, 3)]), "state[…][0…3]");
    }

    #[test]
    fn equal_parts_in_a_row_are_one_with_a_number() {
        let next = || [Part::Name(String::from("next")), Part::Silent];
        let mut parts = vec![Part::Name(String::from("head"))];
        parts.extend((0..5).flat_map(|_| next()));
        parts.push(Part::Name(String::from("t")));
        assert_eq!(shown(&parts), "head.next (×5).t");
    }

    #[test]
    fn a_text_is_not_endless() {
        let parts = vec![Part::Name("é".repeat(100)), Part::Key("é".repeat(200))];
        assert_eq!(shown(&parts).chars().count(), LONGEST);
        assert!(shown(&parts).ends_with('…'));
    }
}
